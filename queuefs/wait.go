package queuefs

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// There is one way to wait for an event. Under the lock of the queue a caller
// looks at the state and takes a channel; it sleeps until the next event closes
// the channel, and looks again. Consumers stand in a line, and their channel is
// closed when a job is theirs; see waiter.

// sleep returns nil once wake is closed, and an error if ctx ends or the service
// stops before.
func (s *Service) sleep(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return cmp.Or(s.usable(), ErrClosed)
	}
}

// A watch has the channels of a queue. The lock of the queue guards it.
type watch struct {
	any  chan struct{} // closed at the next event of the queue; nil: nobody waits
	jobs map[JobID]*jobWatch
}

type jobWatch struct {
	wake    chan struct{} // closed at the next event of the job, or when it is given back
	waiting int
}

// wake wakes the callers waiting for the queue or for one of the jobs.
func (w *watch) wake(jobs ...JobID) {
	if w.any != nil {
		close(w.any)
		w.any = nil
	}
	if len(w.jobs) == 0 {
		return
	}
	for _, id := range jobs {
		if at := w.jobs[id]; at != nil {
			close(at.wake)
			delete(w.jobs, id)
		}
	}
}

// wakeAll wakes everybody.
func (w *watch) wakeAll() {
	for id := range w.jobs {
		w.wake(id)
	}
	w.wake()
}

// sleep waits for something to happen to a job, or to the queue if id is 0. It
// is called with q.mu held, and returns without.
func (q *Queue) sleep(ctx context.Context, id JobID) error {
	if id == 0 {
		if q.watch.any == nil {
			q.watch.any = make(chan struct{})
		}
		wake := q.watch.any
		q.mu.Unlock()
		return q.svc.sleep(ctx, wake)
	}
	at := q.watch.jobs[id]
	if at == nil {
		at = &jobWatch{wake: make(chan struct{})}
		if q.watch.jobs == nil {
			q.watch.jobs = map[JobID]*jobWatch{}
		}
		q.watch.jobs[id] = at
	}
	at.waiting++
	q.mu.Unlock()
	err := q.svc.sleep(ctx, at.wake)
	if err != nil {
		q.mu.Lock()
		if at.waiting--; at.waiting == 0 && q.watch.jobs[id] == at {
			delete(q.watch.jobs, id)
		}
		q.mu.Unlock()
	}
	return err
}

// Wait returns nil once the queue has an event after the given one. If it is
// removed meanwhile the error is [ErrNoQueue].
func (q *Queue) Wait(ctx context.Context, after Seq) error {
	return q.waitFor(ctx, 0, func() (bool, error) { return q.idx.Last().Seq > after, nil })
}

// WaitJob returns nil once the job has an event after the given time, the one
// from [Queue.Status]. If the job is culled meanwhile the error is [ErrNoJob], if
// the queue is removed [ErrNoQueue].
func (q *Queue) WaitJob(ctx context.Context, id JobID, after time.Time) error {
	return q.waitFor(ctx, id, func() (bool, error) {
		st, changed := q.idx.Status(id)
		if st == 0 {
			return false, ErrNoJob
		}
		return changed > after.UnixMicro(), nil
	})
}

// waitFor sleeps until done returns true; q.mu is held while done runs.
func (q *Queue) waitFor(ctx context.Context, id JobID, done func() (bool, error)) error {
	for {
		if err := q.svc.usable(); err != nil {
			return err
		}
		q.mu.Lock()
		ok, err := done()
		if !ok && q.life.gone {
			err = fmt.Errorf("%s: %w", q.id, ErrNoQueue)
		}
		if ok || err != nil {
			q.mu.Unlock()
			return err
		}
		if err := q.sleep(ctx, id); err != nil {
			return err
		}
	}
}

// A signal counts the events of all queues, and wakes callers waiting for one.
type signal struct {
	count atomic.Uint64
	wake  atomic.Pointer[chan struct{}] // closed the next time; nil: nobody waits
}

func (g *signal) raise() {
	g.count.Add(1)
	if wake := g.wake.Swap(nil); wake != nil {
		close(*wake)
	}
}

// next returns the channel closed by the next raise.
func (g *signal) next() <-chan struct{} {
	made := make(chan struct{})
	for {
		if wake := g.wake.Load(); wake != nil {
			return *wake
		}
		if g.wake.CompareAndSwap(nil, &made) {
			return made
		}
	}
}

// Wait returns once more has happened than the given count says: an event of any
// queue, or a queue came or went. It returns the new count, to be given to the
// next call. With 0 it returns at once.
func (s *Service) Wait(ctx context.Context, after uint64) (count uint64, err error) {
	for {
		if err := s.usable(); err != nil {
			return after, err
		}
		wake := s.happened.next() // before the look, so no event is missed
		if count = s.happened.count.Load() + 1; count != after {
			return count, nil
		}
		if err := s.sleep(ctx, wake); err != nil {
			return after, err
		}
	}
}
