package ledger

import (
	"context"
	"time"

	"cutie/queuefs/job"
)

// sleep waits for something to happen to a job, or to the queue if id is 0. It is
// called with l.mu held, and returns without.
func (l *Ledger) sleep(ctx context.Context, id job.ID) error {
	if id == 0 {
		wake := l.watch.Any()
		l.mu.Unlock()
		return l.shared.Gate.Sleep(ctx, wake)
	}
	wake, leave := l.watch.Job(id)
	l.mu.Unlock()
	err := l.shared.Gate.Sleep(ctx, wake)
	if err != nil {
		l.mu.Lock()
		leave()
		l.mu.Unlock()
	}
	return err
}

// Wait returns nil once the queue has an event after the given one. If it is removed
// meanwhile the error is [ErrNoQueue].
func (l *Ledger) Wait(ctx context.Context, after job.Seq) error {
	return l.wait(ctx, 0, func() (bool, error) { return l.idx.Last().Seq > after, nil })
}

// WaitJob returns nil once the job has an event after the given time. If the job is
// culled meanwhile the error is [ErrNoJob], if the queue is removed [ErrNoQueue].
func (l *Ledger) WaitJob(ctx context.Context, id job.ID, after time.Time) error {
	return l.wait(ctx, id, func() (bool, error) {
		st, changed := l.idx.Status(id)
		if st == 0 {
			return false, ErrNoJob
		}
		return changed > after.UnixMicro(), nil
	})
}

// wait sleeps until done returns true; l.mu is held while done runs.
func (l *Ledger) wait(ctx context.Context, id job.ID, done func() (bool, error)) error {
	for {
		if err := l.shared.Gate.Usable(); err != nil {
			return err
		}
		l.mu.Lock()
		ok, err := done()
		if !ok && l.life.gone {
			err = l.noQueue()
		}
		if ok || err != nil {
			l.mu.Unlock()
			return err
		}
		if err := l.sleep(ctx, id); err != nil {
			return err
		}
	}
}

// Wait returns once more has happened than the given count says: an event of any
// queue, or a queue came or went. It returns the new count, for the next call. With
// 0 it returns at once.
func (s *Shared) Wait(ctx context.Context, after uint64) (count uint64, err error) {
	for {
		if err := s.Gate.Usable(); err != nil {
			return after, err
		}
		wake := s.Happened.Next() // before the look, so no event is missed
		if count = s.Happened.Count() + 1; count != after {
			return count, nil
		}
		if err := s.Gate.Sleep(ctx, wake); err != nil {
			return after, err
		}
	}
}

// Dismiss sends all waiting consumers away, with no job, and those to come until Welcome.
func (l *Ledger) Dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.close()
}

// Welcome lets consumers wait again.
func (l *Ledger) Welcome() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.away = false
}
