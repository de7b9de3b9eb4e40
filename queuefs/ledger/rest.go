package ledger

import (
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

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
