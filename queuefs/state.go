package queuefs

import (
	"cmp"
	"slices"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// QueueState is the state of a queue at one instant (Cutie 0.3, 3.2).
type QueueState struct {
	Info                       QueueInfo
	Pending, Consumed, Deleted int64
	Held                       int64     // pending ones on hold
	Leased                     int64     // consumed ones in work
	Failed                     int64     // with this outcome
	Seq                        Seq       // of the last event; without one, Before
	Before                     Seq       // last event of former queues of the name, 0 if there was none
	LastEvent                  time.Time // of creation before the first event
	LastSubmission             time.Time // zero if never
	LastConsumption            time.Time // zero if never
	Damage                     string    // why Info differs from queue-info.txt; "" if it does not
	Shut                       bool      // see [Queue.Shut]; then Damage says why
	Oldest                     time.Time // submission of the job at the head; zero if no job can be taken
}

// State returns the state of the queue, from memory.
func (q *Queue) State() (s QueueState) {
	before := q.ledger.Before()
	q.look(func(x *index.Index) {
		set, n, last := q.ledger.Settings(), &x.Counts, x.Last()
		s = QueueState{Info: set.Info, Pending: n.Status[Pending], Consumed: n.Status[Consumed], Deleted: n.Status[Deleted],
			Held: n.Held, Leased: n.Leased, Failed: n.Failed, Seq: last.Seq, Before: before, Damage: set.Bad, Shut: set.Unread != nil, LastEvent: micro(last.Time)}
		s.LastSubmission, s.LastConsumption = microOrZero(x.LastSubmit), microOrZero(x.LastConsume)
		if j, ok := x.Job(x.First()); ok {
			s.Oldest = micro(j.Submitted)
		}
	})
	return s
}

// Status returns the status of a job and its last change, from memory; 0 if
// there is no such job.
func (q *Queue) Status(id JobID) (Status, time.Time) {
	if st, at := q.ledger.Status(id); st != 0 {
		return st, micro(at)
	}
	return 0, time.Time{}
}

// ListOptions select jobs of a queue.
type ListOptions struct {
	Status  Status  // 0 for all
	Outcome Outcome // 0 for all
	Held    bool    // only jobs on hold
	After   JobID   // only later jobs
	Limit   int     // 0 means 1000
}

// IDs returns identifiers of jobs in FIFO order, from memory.
func (q *Queue) IDs(o ListOptions) (ids []JobID) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.look(func(x *index.Index) { ids = x.IDs(index.Filter(o)) })
	return ids
}

// Leased returns the jobs on lease, in no order, from memory.
func (q *Queue) Leased() (ids []JobID) {
	q.look(func(x *index.Index) { ids = x.Leases.Jobs() })
	return ids
}

// An Entry has the facts of a job for a publisher.
type Entry struct {
	Job     JobID
	Status  Status
	Payload Facts
	File    Facts

	HasResults bool
	Results    []Result // by [Queue.AddResults] alone
}

func fileFacts(j *index.Job) Facts {
	return Facts{Length: int64(j.FileLength), SHA256: j.FileSHA256, Type: job.FileType, Modified: micro(j.Changed)}
}

func entryOf(id JobID, j *index.Job) Entry {
	return Entry{Job: id, Status: j.Status, HasResults: j.Results, File: fileFacts(j), Payload: Facts{Length: j.Size,
		SHA256: j.SHA256, MD5: j.MD5, Type: cmp.Or(j.MediaType, DefaultMediaType), Modified: micro(j.Submitted)}}
}

// Entry returns the facts of one job for a publisher, from memory; false if
// there is no such job.
func (q *Queue) Entry(id JobID) (e Entry, ok bool) {
	q.look(func(x *index.Index) {
		var j index.Job
		if j, ok = x.Job(id); ok {
			e = entryOf(id, &j)
		}
	})
	return e, ok
}

// Pages returns how many pages of PageJobs job numbers the queue has had.
func (q *Queue) Pages() (n int) {
	q.look(func(x *index.Index) { n = x.Pages() })
	return n
}

// Page appends the jobs of page n to dst, in order, and returns the last event
// of the page, 0 for none, with its time. All of it is of one instant, and from
// memory.
func (q *Queue) Page(n int, dst []Entry) (entries []Entry, version Seq, at time.Time) {
	q.look(func(x *index.Index) {
		p := x.Page(n)
		dst = slices.Grow(dst, p.Total)
		x.EachOf(n, func(id JobID, j index.Job) { dst = append(dst, entryOf(id, &j)) })
		version, at = p.Version, microOrZero(p.At)
	})
	return dst, version, at
}

// AddResults gives entries the results of their jobs, from the job files. A job with
// later events has the results of now, and one that is gone or cannot be read has none.
func (q *Queue) AddResults(entries []Entry) {
	for i := range entries {
		if e := &entries[i]; e.HasResults {
			j, err := q.Job(e.Job)
			if err == nil {
				e.Results = j.Results
			}
		}
	}
}

// PageVersion returns the last event of page n, its time, and how many jobs the
// page has, without visiting them.
func (q *Queue) PageVersion(n int) (version Seq, at time.Time, pending, total int) {
	q.look(func(x *index.Index) {
		p := x.Page(n)
		version, at, pending, total = p.Version, microOrZero(p.At), p.Pending, p.Total
	})
	return version, at, pending, total
}
