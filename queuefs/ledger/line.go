package ledger

import (
	"context"
	"slices"
	"time"

	"cutie/queuefs/job"
)

// A job is claimed for one operation at a time. Consumers waiting for jobs stand in a
// line, and are served in the order of their calls.

// A line has the consumers of a queue.
type line struct {
	waiting []*waiter
	away    bool           // the line is closed: all are sent away
	giving  map[job.ID]int // jobs on their way to a consumer, with a count
}

// A waiter is a consumer waiting for jobs.
type waiter struct {
	max   int
	taken []job.ID
	ready chan struct{} // closed once taken is filled
}

// close sends all consumers away, and those to come.
func (n *line) close() {
	n.away = true
	for _, w := range n.waiting {
		close(w.ready)
	}
	n.waiting = nil
}

// ClaimFirst claims up to max available jobs, lowest number first; none if the queue
// is paused.
func (l *Ledger) ClaimFirst(max int) []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimFirst(max)
}

func (l *Ledger) claimFirst(max int) []job.ID {
	if max <= 0 || l.paused() {
		return nil
	}
	return l.idx.ClaimFirst(max)
}

func (l *Ledger) paused() bool { return !l.set.Load().Rules().Paused.IsZero() }

// serve hands available jobs to waiting consumers; l.mu is held.
func (l *Ledger) serve() {
	for len(l.line.waiting) > 0 && l.idx.Counts.Available > 0 && !l.paused() {
		w := l.line.waiting[0]
		l.line.waiting = slices.Delete(l.line.waiting, 0, 1)
		w.taken = l.claimFirst(w.max)
		close(w.ready)
	}
}

// Await is ClaimFirst with a wait until ctx ends; then the error is [ErrEmpty]. After
// the end of its ctx a consumer gets no job.
func (l *Ledger) Await(ctx context.Context, max int) ([]job.ID, error) {
	if ctx.Err() != nil {
		return nil, ErrEmpty
	}
	l.mu.Lock()
	if l.life.gone {
		l.mu.Unlock()
		return nil, l.noQueue()
	}
	if l.line.away {
		l.mu.Unlock()
		return nil, ErrEmpty
	}
	if len(l.line.waiting) == 0 {
		if ids := l.claimFirst(max); len(ids) > 0 {
			l.mu.Unlock()
			return ids, nil
		}
	}
	w := &waiter{max: max, ready: make(chan struct{})}
	l.line.waiting = append(l.line.waiting, w)
	l.mu.Unlock()

	stopped := l.shared.Gate.Sleep(ctx, w.ready)
	switch {
	case ctx.Err() != nil:
		stopped = nil
	case stopped == nil && len(w.taken) > 0:
		return w.taken, nil
	}
	l.mu.Lock()
	if i := slices.Index(l.line.waiting, w); i >= 0 {
		l.line.waiting = slices.Delete(l.line.waiting, i, i+1)
	}
	taken := w.taken
	if l.life.gone {
		stopped = l.noQueue()
	}
	l.mu.Unlock()
	l.Release(taken...)
	if stopped != nil {
		return nil, stopped
	}
	return nil, ErrEmpty
}

// Claim claims a job for one operation and returns its status. It waits for another
// operation on its way to the journal. A job in the status unless is not claimed:
// claiming a pending one would let others pass meanwhile.
func (l *Ledger) Claim(ctx context.Context, id job.ID, unless job.Status) (job.Status, error) {
	for {
		if err := l.shared.Gate.Usable(); err != nil {
			return 0, err
		}
		l.mu.Lock()
		j, ok := l.idx.Job(id)
		if !ok {
			l.mu.Unlock()
			return 0, l.NoJob()
		}
		if l.claim(&j, id, unless) {
			l.mu.Unlock()
			return j.Status, nil
		}
		if err := l.sleep(ctx, id); err != nil {
			return 0, err
		}
	}
}

// Release ends claims without an operation.
func (l *Ledger) Release(ids ...job.ID) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.idx.Unclaim(id)
	}
	l.serve()
	l.watch.Wake(ids...)
}

// Give keeps jobs from being culled while they are on their way to a consumer.
func (l *Ledger) Give(ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line.giving == nil {
		l.line.giving = map[job.ID]int{}
	}
	for _, id := range ids {
		l.line.giving[id]++
	}
}

// Given takes Give back.
func (l *Ledger) Given(ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if l.line.giving[id]--; l.line.giving[id] <= 0 {
			delete(l.line.giving, id)
		}
	}
}

// Giving reports whether the job is on its way to a consumer. Call it within Look or
// Note only.
func (l *Ledger) Giving(id job.ID) bool {
	return len(l.line.giving) > 0 && l.line.giving[id] > 0
}

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
