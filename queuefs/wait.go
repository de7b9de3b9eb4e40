package queuefs

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Callers wait for events by the channels of package watch, taken under the lock of the
// queue. Consumers stand in a line, and their channel is closed when a job is theirs;
// see waiter.

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

// sleep waits for something to happen to a job, or to the queue if id is 0. It
// is called with q.mu held, and returns without.
func (q *Queue) sleep(ctx context.Context, id JobID) error {
	if id == 0 {
		wake := q.watch.Any()
		q.mu.Unlock()
		return q.svc.sleep(ctx, wake)
	}
	wake, leave := q.watch.Job(id)
	q.mu.Unlock()
	err := q.svc.sleep(ctx, wake)
	if err != nil {
		q.mu.Lock()
		leave()
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

// Wait returns once more has happened than the given count says: an event of any
// queue, or a queue came or went. It returns the new count, to be given to the
// next call. With 0 it returns at once.
func (s *Service) Wait(ctx context.Context, after uint64) (count uint64, err error) {
	for {
		if err := s.usable(); err != nil {
			return after, err
		}
		wake := s.happened.Next() // before the look, so no event is missed
		if count = s.happened.Count() + 1; count != after {
			return count, nil
		}
		if err := s.sleep(ctx, wake); err != nil {
			return after, err
		}
	}
}
