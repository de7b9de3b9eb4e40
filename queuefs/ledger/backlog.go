package ledger

import (
	"slices"
	"strings"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// A backlog is what the files of a queue lack to be as the journal says. Results get
// their names after the journal, as large payloads do: a record names the temporary
// file, synced before. So a crash leaves no unknown result, and a job back in pending
// keeps none of a former attempt.
type backlog struct {
	jobs    []waiting                // with files behind the journal, oldest first; others are skipped
	behind  int64                    // jobs with files behind the journal
	taken   uint64                   // jobs ever taken from jobs
	busy    map[job.ID]journal.LSN   // jobs taken, until Written, and what they lack
	temps   map[job.ID]string        // large payloads not yet under their names
	results map[job.ID]ResultBacklog // results not yet under their names, or not yet removed
}

// A waiting job lacks in its files records from one on.
type waiting struct {
	id   job.ID
	from journal.LSN
}

// follow adds the demands of the record at. behind reports whether the files of its job
// were behind before, and had whether the job may have files of results. It returns
// true for a job that joins the others.
func (b *backlog) follow(r *record.Record, at journal.LSN, behind, had bool) bool {
	b.followResults(r, had)
	if r.Flags&record.InTemp != 0 {
		if b.temps == nil {
			b.temps = map[job.ID]string{}
		}
		b.temps[r.Job] = r.Temp
	}
	if behind {
		return false
	}
	b.jobs = append(b.jobs, waiting{r.Job, at})
	return true
}

func (b *backlog) followResults(r *record.Record, had bool) {
	w, waits := b.results[r.Job]
	switch {
	case r.Flags&record.Result != 0:
		temp, name, _ := strings.Cut(r.Temp, "/")
		w.Add(Placed{Temp: temp, Name: name})
	case r.Flags&record.Results == 0 && (had || waits && len(w.Placed()) > 0):
		w.Wipe()
	default:
		return
	}
	if b.results == nil {
		b.results = map[job.ID]ResultBacklog{}
	}
	b.results[r.Job] = w
}

// passed reports whether a job that was just culled never had a file, and nobody is
// writing one: then its files are as the journal says, and it is left out of jobs when
// its turn comes.
func (b *backlog) passed(r *record.Record, before *index.Job, had bool) bool {
	if r.Kind != job.Cull || !before.Behind || before.Filed != 0 || before.PayloadFiled || had || b.takes(r.Job) {
		return false
	}
	_, temp := b.temps[r.Job]
	_, results := b.results[r.Job]
	return !temp && !results
}

// takes reports whether somebody writes the files of a job.
func (b *backlog) takes(id job.ID) bool {
	_, ok := b.busy[id]
	return ok
}

// A Behind is a job whose files are behind the journal, as it is to be. Its caller
// writes the files and says so to Written.
type Behind struct {
	ID job.ID
	View
	Begun bool // the job file may have changed
	Done  bool // the files are as in View

	from journal.LSN
}

// TakeBehind takes up to n jobs from the backlog, oldest first, and fewer if their
// payloads have together more than size bytes in the journal. The caller alone works
// on them until it calls Written.
func (l *Ledger) TakeBehind(n int, size int64) []Behind {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.backlog
	some := make([]Behind, 0, min(n, len(b.jobs)))
	next := 0
	for got := int64(0); len(some) < n && next < len(b.jobs) && got < size; next++ {
		id, from := b.jobs[next].id, b.jobs[next].from
		if !l.idx.Behind(id) || b.takes(id) {
			continue
		}
		j, _ := l.idx.Known(id)
		if j.Journaled.Payload != 0 {
			got += j.Size
		}
		if b.busy == nil {
			b.busy = map[job.ID]journal.LSN{}
		}
		b.busy[id] = from
		some = append(some, Behind{ID: id, View: View{j, b.temps[id]}, from: from})
	}
	if b.jobs = b.jobs[next:]; len(b.jobs) == 0 {
		b.jobs = nil
	}
	b.taken += uint64(next)
	return some
}

// Written takes note of the work on jobs from TakeBehind. Jobs that are not done, or
// have changed meanwhile, go to the end of the backlog. The error is [ErrClosed].
func (l *Ledger) Written(some []Behind) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range some {
		if !l.written(&some[i]) {
			return ErrClosed
		}
	}
	return nil
}

func (l *Ledger) written(b *Behind) bool {
	delete(l.backlog.busy, b.ID)
	if _, ok := l.idx.Known(b.ID); !ok {
		return false
	}
	if !b.Done {
		if b.Begun && b.Filed != index.FiledUnknown {
			l.idx.SetFiled(b.ID, index.FiledUnknown)
		}
		l.backlog.jobs = append(l.backlog.jobs, waiting{b.ID, b.from})
		return true
	}
	l.idx.SetFiled(b.ID, b.Status)
	if b.Status != 0 {
		l.idx.SetPayloadFiled(b.ID)
	}
	delete(l.backlog.temps, b.ID)
	if !l.idx.SetFilesWritten(b.ID, b.Journaled) {
		l.backlog.jobs = append(l.backlog.jobs, waiting{b.ID, b.Journaled.File + 1})
		return true
	}
	l.count(-1)
	return true
}

// count adds n to the jobs with files behind the journal.
func (l *Ledger) count(n int64) {
	l.backlog.behind += n
	l.shared.Behind.Add(n)
}

// Backlog returns how many jobs are in the backlog, and a count for TakenBelow once
// all of them were taken.
func (l *Ledger) Backlog() (n int, taken uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n = len(l.backlog.jobs)
	return n, l.backlog.taken + uint64(n)
}

// TakenBelow reports whether fewer than n jobs were ever taken from the backlog.
func (l *Ledger) TakenBelow(n uint64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.backlog.taken < n
}

// BehindOf reports whether the files of some job lack a record before at.
func (l *Ledger) BehindOf(at journal.LSN) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.idx.BehindOf(at)
}

// FiledTo returns up to where the files have all records, at the most.
func (l *Ledger) FiledTo(at journal.LSN) journal.LSN {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, w := range l.backlog.jobs {
		if w.from < at && l.idx.Behind(w.id) {
			at = w.from
		}
	}
	for _, from := range l.backlog.busy {
		at = min(at, from)
	}
	return at
}

// BehindJobs returns the jobs in the backlog.
func (l *Ledger) BehindJobs() map[job.ID]bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ids := make(map[job.ID]bool, l.backlog.behind)
	for _, w := range l.backlog.jobs {
		if l.idx.Behind(w.id) {
			ids[w.id] = true
		}
	}
	return ids
}

// CulledFirst puts those jobs first whose files are only to be removed, and returns
// how many they are.
func (l *Ledger) CulledFirst() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	culled := func(w waiting) bool {
		j, _ := l.idx.Known(w.id)
		return j.Behind && j.Status == 0
	}
	if !slices.ContainsFunc(l.backlog.jobs, culled) {
		return 0
	}
	var first, rest []waiting
	for _, w := range l.backlog.jobs {
		if culled(w) {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	l.backlog.jobs = append(first, rest...)
	return len(first)
}

// Results returns the difference between journal and files in the results of a job;
// false without one.
func (l *Ledger) Results(id job.ID) (ResultBacklog, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	b, ok := l.backlog.results[id]
	return b, ok
}

// ResultsWritten takes the work of a former state of Results out.
func (l *Ledger) ResultsWritten(id job.ID, was ResultBacklog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.backlog.results[id]
	if n.Done(was) {
		l.backlog.results[id] = n
	} else {
		delete(l.backlog.results, id)
	}
}

// Temps calls visit with the temporary files that records wait to give their names.
func (l *Ledger) Temps(visit func(name string)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, name := range l.backlog.temps {
		visit(name)
	}
	for _, w := range l.backlog.results {
		for _, p := range w.Placed() {
			visit(p.Temp)
		}
	}
}

// A pending job with a file that cannot be read now rests: consumers pass over it for
// a while, and then it is available again in its old place. No event says so. A resting
// job is claimed in the index, and every operation but a take may take the claim over.

// A rest is what is known of a job that could not be read. It is forgotten with the
// next change of the job.
type rest struct {
	now  bool // the job rests
	ends int64
	wait time.Duration
}

// A job rests for firstRest, and each time for twice as long, up to longestRest.
const (
	firstRest   = time.Second
	longestRest = time.Minute
)

// Rest ends the claim on a job. One that consumers could get rests.
func (l *Ledger) Rest(id job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.watch.Wake(id)
	if j, _ := l.idx.Job(id); j.Status != job.Pending || j.Held {
		l.idx.Unclaim(id)
		return
	}
	r := l.rests[id]
	if r == nil {
		if l.rests == nil {
			l.rests = map[job.ID]*rest{}
		}
		r = &rest{wait: firstRest / 2}
		l.rests[id] = r
	}
	r.wait = min(2*r.wait, longestRest)
	r.ends = l.shared.Micro() + r.wait.Microseconds()
	if !r.now {
		r.now = true
		l.shared.Resting.Add(1)
	}
}

// rested reports whether a job rests; l.mu is held, as for the next two.
func (l *Ledger) rested(id job.ID) bool {
	r := l.rests[id]
	return r != nil && r.now
}

// wake ends the rest of a job, and leaves its claim.
func (l *Ledger) wake(id job.ID) {
	if l.rested(id) {
		l.rests[id].now = false
		l.shared.Resting.Add(-1)
	}
}

// forget forgets that a job could not be read.
func (l *Ledger) forget(id job.ID) {
	if len(l.rests) > 0 {
		l.wake(id)
		delete(l.rests, id)
	}
}

// Resting returns how many jobs of the queue rest.
func (l *Ledger) Resting() (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, r := range l.rests {
		if r.now {
			n++
		}
	}
	return n
}

// EndRests makes the jobs available whose rest is over by now, a time in µs. A clock set
// back makes no rest longer.
func (l *Ledger) EndRests(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.rests {
		if r.now && (r.ends <= now || r.ends > now+longestRest.Microseconds()) {
			l.wake(id)
			l.idx.Unclaim(id)
		}
	}
	l.serve()
}

// claim claims a job unless another operation has; l.mu is held.
func (l *Ledger) claim(j *index.Job, id job.ID, unless job.Status) bool {
	if j.Claimed && !l.rested(id) {
		return false
	}
	if j.Status != unless {
		l.wake(id)
		l.idx.Claim(id)
	}
	return true
}
