package uws

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"cutie/queuefs"
)

// A jobList is one queue as clients of UWS see it. All of it can be made again
// from the queue.
type jobList struct {
	q      *queuefs.Queue
	known  known
	past   history
	limits map[queuefs.JobID]limit // of Tick alone
	old    formerIDs
	locks  [64]sync.Mutex // by job; held while a client changes it

	mu    sync.Mutex
	last  *job      // found last by latest
	at    time.Time // of its last event
	found time.Time
}

var lockSeed = maphash.MakeSeed()

// lock keeps other clients from changing the job.
func (l *jobList) lock(id string) (unlock func()) {
	m := &l.locks[maphash.String(lockSeed, id)%uint64(len(l.locks))]
	m.Lock()
	return m.Unlock
}

var errNoJob = errors.New("job not found")

// find returns a job. The error of a destroyed one is errNoJob.
func (l *jobList) find(set settings, id string) (*job, error) {
	n, err := queuefs.ParseJobID(id)
	if err != nil {
		if n = l.first(id); n == 0 {
			return nil, errNoJob
		}
	}
	for {
		cut, err := l.q.Job(n)
		if errors.Is(err, queuefs.ErrNoJob) {
			return nil, errNoJob
		}
		if err != nil {
			return nil, err
		}
		if l.idOf(&cut) != id {
			return nil, errNoJob
		}
		if next := replacedBy(&cut); isMade(id) && next > cut.ID {
			n = next
			continue
		}
		j := &job{id: id, list: l, q: l.q, set: set, cut: cut}
		if j.destroyed() {
			return nil, errNoJob
		}
		return j, nil
	}
}

// latest is find of a job whose queue had its last event of the job at the given
// time. Callers that wait for the same job share what one of them has found.
func (l *jobList) latest(set settings, id string, changed time.Time) (*job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.last.id == id && l.at.Equal(changed) && l.last.set == set && time.Since(l.found) < time.Second {
		return l.last, nil
	}
	j, err := l.find(set, id)
	if err == nil {
		l.last, l.at, l.found = j, changed, time.Now()
	}
	return j, err
}

// first returns the number with which a job made here came into the queue, 0 if
// there is no such job.
func (l *jobList) first(id string) queuefs.JobID {
	if !isMade(id) {
		return 0
	}
	n := numberOf(id)
	if cut, err := l.q.Job(n); err == nil && cut.Extra.Value(elemID) == id {
		return n
	}
	return l.old.number(id)
}

// idOf returns the identifier of a job of the queue: its number, unless the job
// was made here.
func (l *jobList) idOf(cut *queuefs.Job) string {
	if id := cut.Extra.Value(elemID); isMade(id) {
		n := numberOf(id)
		if st, _ := l.q.Status(n); st != 0 && n <= cut.ID || l.old.number(id) != 0 {
			return id
		}
	}
	return cut.ID.String()
}

// jobOf returns the job that a job of the queue is. It returns nil if that was
// destroyed, or replaced by a later one.
func (l *jobList) jobOf(set settings, cut *queuefs.Job) *job {
	j := &job{id: l.idOf(cut), list: l, q: l.q, set: set, cut: *cut}
	if j.destroyed() || isMade(j.id) && replacedBy(cut) != 0 {
		return nil
	}
	return j
}

// replacedBy returns the job that took the place of one, 0 if none did.
func replacedBy(cut *queuefs.Job) queuefs.JobID {
	n, _ := queuefs.ParseJobID(cut.Extra.Value("requeuedAs"))
	return n
}

// list returns the job list of a queue. A queue that was made again under its
// name is another queue; the error of one that is no more is
// [queuefs.ErrNoQueue].
func (h *Handler) list(q *queuefs.Queue) (*jobList, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lists[q.ID()]; l != nil && l.q == q {
		return l, nil
	}
	if err := h.gone(q); err != nil {
		return nil, err
	}
	old, err := h.former(q)
	if err != nil {
		return nil, err
	}
	l := &jobList{q: q, old: old}
	h.lists[q.ID()] = l
	return l, nil
}

// forget drops the lists of queues that are no longer served. It returns, once,
// what former versions left and could not be read.
func (h *Handler) forget() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, l := range h.lists {
		if h.gone(l.q) != nil {
			delete(h.lists, id)
		}
	}
	err := errors.Join(h.strange...)
	h.strange = nil
	return err
}

// gone returns [queuefs.ErrNoQueue] for a queue that is no longer served.
func (h *Handler) gone(q *queuefs.Queue) error {
	now, err := h.svc.Queue(q.ID())
	if err == nil && now != q {
		err = fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)
	}
	return err
}
