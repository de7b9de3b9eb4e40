package ledger

import (
	"cmp"
	"slices"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// A State is the state of a queue at one instant (Cutie 0.3, 3.2).
type State struct {
	Info                       home.QueueInfo
	Pending, Consumed, Deleted int64
	Held                       int64         // pending ones on hold
	Leased                     int64         // consumed ones in work
	Failed                     int64         // with this outcome
	Seq                        job.Seq       // of the last event; without one, Before
	Before                     job.Seq       // last event of former queues of the name, 0 if there was none
	LastEvent                  time.Time     // of creation before the first event
	LastSubmission             time.Time     // zero if never
	LastConsumption            time.Time     // zero if never
	Damage                     string        // why Info differs from queue-info.txt; "" if it does not
	Shut                       bool          // queue-info.txt cannot be read; then Damage says why
	Oldest                     time.Time     // submission of the job at the head; zero if no job can be taken
	Since                      time.Time     // when the events known begin, of a mirror; zero: with the creation
	Mirror                     *home.Mirror  // nil: the queue never was a mirror
	Progress                   home.Progress // of a mirror
}

// State returns the state of the queue, from memory.
func (l *Ledger) State() (s State) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	set, n, last := l.Settings(), &l.idx.Counts, l.idx.Last()
	s = State{Info: set.Info(), Pending: n.Status[job.Pending], Consumed: n.Status[job.Consumed], Deleted: n.Status[job.Deleted],
		Held: n.Held, Leased: n.Leased, Failed: n.Failed, Seq: last.Seq, Before: l.life.before, Damage: set.Bad, Shut: set.Unread != nil, LastEvent: job.Instant(last.Time),
		LastSubmission: instantOrZero(l.idx.LastSubmit), LastConsumption: instantOrZero(l.idx.LastConsume)}
	if j, ok := l.idx.Job(l.idx.First()); ok {
		s.Oldest = job.Instant(j.Submitted)
	}
	return s
}

func instantOrZero(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return job.Instant(us)
}

// An Entry has the facts of a job for a publisher.
type Entry struct {
	Job     job.ID
	Status  job.Status
	Payload job.Facts
	File    job.Facts

	HasResults bool
	Results    []job.Result // in job files alone
}

// FileFacts returns the facts of the job file of a job.
func FileFacts(j *index.Job) job.Facts {
	return job.Facts{Length: int64(j.FileLength), SHA256: j.FileSHA256, Type: job.FileType, Modified: job.Instant(j.Changed)}
}

func entryOf(id job.ID, j *index.Job) Entry {
	return Entry{Job: id, Status: j.Status, HasResults: j.Results, File: FileFacts(j), Payload: job.Facts{Length: j.Size,
		SHA256: j.SHA256, MD5: j.MD5, Type: cmp.Or(j.MediaType, job.DefaultMediaType), Modified: job.Instant(j.Submitted)}}
}

// Entry returns the facts of one job, without results; false if there is no such job.
func (l *Ledger) Entry(id job.ID) (e Entry, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	j, ok := l.idx.Job(id)
	if ok {
		e = entryOf(id, &j)
	}
	return e, ok
}

// Page appends the jobs of page n to dst, in order and without results, and returns the
// last event of the page, 0 for none, with its time. All of it is of one instant.
func (l *Ledger) Page(n int, dst []Entry) (entries []Entry, version job.Seq, at time.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.idx.Page(n)
	dst = slices.Grow(dst, p.Total)
	l.idx.EachOf(n, func(id job.ID, j index.Job) { dst = append(dst, entryOf(id, &j)) })
	return dst, p.Version, instantOrZero(p.At)
}

// PageVersion returns the last event of page n, its time, and how many jobs the
// page has, without visiting them.
func (l *Ledger) PageVersion(n int) (version job.Seq, at time.Time, pending, total int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.idx.Page(n)
	return p.Version, instantOrZero(p.At), p.Pending, p.Total
}
