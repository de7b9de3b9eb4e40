package queuefs

import (
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
)

// close lets go of the queue.
func (q *Queue) close() {
	q.ledger.Free()
	q.tree.Close()
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.ledger.ID() }

// Names are the identifier as it was given, and the name.
func (q *Queue) Names() [2]string { return q.ledger.Settings().Names() }

// Info returns the properties of the queue.
func (q *Queue) Info() QueueInfo { return q.ledger.Settings().Info() }

// Callback returns the URL to be told of changes, "" if there is none, or of a mirror: its
// original tells. Info has scheme and host of it: the rest is a secret.
func (q *Queue) Callback() (string, error) {
	if q.Mirror().Live() {
		return "", nil
	}
	return q.svc.properties.callbacks.Of(q.ID(), q.info().Callback)
}

// Original is the queue of another home mirrored by this one, now or once.
func (q *Queue) Original() *replay.Original { return &q.original }

// Mirror is as [replay.Original.Mirror].
func (q *Queue) Mirror() *Mirror { return q.original.Mirror() }

// info is Info without names and time.
func (q *Queue) info() QueueInfo { return q.ledger.Settings().Rules() }

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, Facts) {
	s := q.ledger.Settings()
	return s.Text, s.Facts()
}

// look is [ledger.Ledger.Look].
func (q *Queue) look(do func(x *index.Index)) { q.ledger.Look(do) }

// What is known of a queue and of its jobs, from memory.
type (
	QueueState  = ledger.State
	Entry       = ledger.Entry
	ListOptions = index.Filter // a Limit of 0 means 1000
	Flow        = index.Flow
	ShutError   = content.ShutError
	LostError   = content.LostError
)

// State returns the state of the queue.
func (q *Queue) State() QueueState {
	s := q.ledger.State()
	if s.Mirror = q.Mirror(); s.Mirror != nil {
		s.Since = s.Mirror.At
	}
	if s.Mirror.Live() {
		s.Progress = q.original.Progress()
	}
	return s
}

// Unfinished returns up to max consumed jobs out of work and without an outcome. In a
// queue without reports there is none: a job handed out is done.
func (q *Queue) Unfinished(max int) (ids []JobID) {
	if q.info().Acknowledge != AckNone {
		q.look(func(x *index.Index) { ids = x.Unfinished(max) })
	}
	return ids
}

// Status returns the status of a job and its last change; 0 if there is no such job.
func (q *Queue) Status(id JobID) (Status, time.Time) {
	if st, at := q.ledger.Status(id); st != 0 {
		return st, job.Instant(at)
	}
	return 0, time.Time{}
}

// IDs returns identifiers of jobs in FIFO order.
func (q *Queue) IDs(o ListOptions) (ids []JobID) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.look(func(x *index.Index) { ids = x.IDs(o) })
	return ids
}

// Flow returns how many jobs became pending, left, and failed since the queue was opened.
func (q *Queue) Flow() (f Flow) {
	q.look(func(x *index.Index) { f = x.Flow })
	return f
}

// Latest returns jobs of o before one, the newest first, or the newest of all with
// before 0. It looks at no more jobs than most, and returns the job to go on before, or
// 0 at the end of the queue. The After of o does not count.
func (q *Queue) Latest(o ListOptions, before JobID, most int) (ids []JobID, reached JobID) {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.look(func(x *index.Index) { ids, reached = x.Latest(o, before, most) })
	return ids, reached
}

// Leased returns the jobs on lease, in no order.
func (q *Queue) Leased() (ids []JobID) {
	q.look(func(x *index.Index) { ids = x.Leases.Jobs() })
	return ids
}

// Entry returns the facts of one job for a publisher; false if there is no such job.
func (q *Queue) Entry(id JobID) (Entry, bool) { return q.ledger.Entry(id) }

// Pages returns how many pages of PageJobs job numbers the queue has had.
func (q *Queue) Pages() (n int) {
	q.look(func(x *index.Index) { n = x.Pages() })
	return n
}

// Page is as [ledger.Ledger.Page].
func (q *Queue) Page(n int, dst []Entry) (entries []Entry, version Seq, at time.Time) {
	return q.ledger.Page(n, dst)
}

// PageVersion is as [ledger.Ledger.PageVersion].
func (q *Queue) PageVersion(n int) (version Seq, at time.Time, pending, total int) {
	return q.ledger.PageVersion(n)
}

// AddResults is as [content.Reader.AddResults].
func (q *Queue) AddResults(entries []Entry) { q.content.AddResults(entries) }

// A queue is shut while its queue-info.txt cannot be read since the home was opened. Its
// events and files stay as they are, and nothing is written in the place of the file.
// The other queues are served. Reload opens the queue once the file can be read.

// Shut returns a [*ShutError] if the queue is shut, else nil.
func (q *Queue) Shut() error {
	if why := q.ledger.Settings().Unread; why != nil {
		return &ShutError{Queue: q.ID(), Err: why}
	}
	return nil
}

// Ask finds a queue for a request, as [Service.Queue] does. The error is a [*ShutError]
// if the queue is shut.
func (s *Service) Ask(name string) (*Queue, error) {
	q, err := s.Queue(name)
	if err == nil {
		err = q.Shut()
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Timed returns the queues with leases, holds or destructions of jobs, in no order.
// Queues that are shut, and mirrors, have none.
func (s *Service) Timed() []*Queue {
	return slices.DeleteFunc(s.of(s.shared.Timed()), func(q *Queue) bool { return q.Shut() != nil || q.Mirror().Live() })
}

// Shut returns how many queues are shut.
func (s *Service) Shut() int { return int(s.shared.Shut.Load()) }

// reopen reads the properties of a queue that is shut, and reports whether it is open now.
// The caller holds properties.
func (q *Queue) reopen() bool {
	n, err := q.properties.Known(q.svc.index.File(q.ID()), false)
	if err != nil || n.Unread != nil {
		return false // tried again at the next call
	}
	q.properties.File.Take(n.Reading)
	q.ledger.Use(n)
	if err := q.properties.Replayed(); err != nil {
		q.svc.report(home.QueueInfoPath(q.ID()), err.Error())
	}
	_ = q.properties.Announce() // tried again at the next call
	q.svc.queues.Renamed()
	q.ledger.Touch()
	q.ledger.Wake()
	q.svc.shared.Happened.Raise()
	return true
}
