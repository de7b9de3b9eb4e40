package uws

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"cutie/queuefs"
)

// A jobList is one queue as clients of UWS see it. It holds nothing but memory
// of the queue.
type jobList struct {
	q      *queuefs.Queue
	limits map[queuefs.JobID]limit // of Tick alone
	locks  *[256]sync.Mutex        // of all queues, by job; held while a client changes it

	mu    sync.Mutex
	last  *job      // found last by latest
	at    time.Time // of its last event
	found time.Time
}

var lockSeed = maphash.MakeSeed()

// lock keeps other clients from changing the job. Nobody takes a second one.
func (l *jobList) lock(id string) (unlock func()) {
	m := &l.locks[maphash.String(lockSeed, l.q.ID()+"/"+id)%uint64(len(l.locks))]
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
		if nameless(&cut) {
			return l.jobAs(set, id, &cut), nil
		}
		if l.idOf(&cut) != id {
			return nil, errNoJob
		}
		if next := replacedBy(&cut); isMade(id) && next > cut.ID {
			n = next
			continue
		}
		j := l.jobAs(set, id, &cut)
		if j.destroyed() {
			return nil, errNoJob
		}
		return j, nil
	}
}

// latest is find of a job with its last event at the given time. Callers
// waiting for the same job share the result.
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

// first returns the first number of a job made here, 0 for an unknown job. A
// damaged job file has no identifier to compare.
func (l *jobList) first(id string) queuefs.JobID {
	if !isMade(id) {
		return 0
	}
	n := numberOf(id)
	cut, err := l.q.Job(n)
	if err == nil && cut.Extra.Value(elemID) == id {
		return n
	}
	if err == nil && nameless(&cut) {
		return n
	}
	return 0
}

// idOf returns the identifier of a job of the queue: its number, unless the job
// was made here.
func (l *jobList) idOf(cut *queuefs.Job) string {
	if id := cut.Extra.Value(elemID); isMade(id) {
		n := numberOf(id)
		if st, _ := l.q.Status(n); st != 0 && n <= cut.ID {
			return id
		}
	}
	return cut.ID.String()
}

// jobOf returns a job of the queue as a job of the list, nil if it was
// destroyed or replaced.
func (l *jobList) jobOf(set settings, cut *queuefs.Job) *job {
	j := l.jobAs(set, l.idOf(cut), cut)
	if j.destroyed() || isMade(j.id) && replacedBy(cut) != 0 {
		return nil
	}
	return j
}

// replacedBy returns the job in the place of another one, 0 for none.
func replacedBy(cut *queuefs.Job) queuefs.JobID {
	n, _ := queuefs.ParseJobID(cut.Extra.Value("requeuedAs"))
	return n
}

// list returns the job list of a queue, the error [queuefs.ErrNoQueue] for a
// removed one. A queue made again under the name is another queue.
func (h *Handler) list(q *queuefs.Queue) (*jobList, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lists[q.ID()]; l != nil && l.q == q {
		return l, nil
	}
	if err := h.gone(q); err != nil {
		return nil, err
	}
	l := &jobList{q: q, locks: &h.locks}
	h.lists[q.ID()] = l
	return l, nil
}

// forget drops the lists of removed queues.
func (h *Handler) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.svc.Queues()); n != h.ticks.count {
		h.ticks.count = n
		maps.DeleteFunc(h.lists, func(_ string, l *jobList) bool { return h.gone(l.q) != nil })
	}
}

// gone returns [queuefs.ErrNoQueue] for a removed queue.
func (h *Handler) gone(q *queuefs.Queue) error {
	now, err := h.svc.Queue(q.ID())
	if err == nil && now != q {
		err = fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)
	}
	return err
}
