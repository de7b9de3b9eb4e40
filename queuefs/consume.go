package queuefs

import (
	"context"
	"slices"
	"time"
)

// MaxTake is how many jobs one call may take.
const MaxTake = 1000

// A waiter is a consumer for whom no job was there. Jobs are handed to
// waiters in the order these came.
type waiter struct {
	max   int
	taken []JobID
	ready chan struct{} // closed once taken is filled
}

// Next takes the job at the head of the queue and makes it Consumed (Cutie
// 0.3, 5.6). by is the user agent of the consumer. If no job is pending the
// error is [ErrEmpty]. Of two calls at the same time either may get the older
// job, and either may come first in the order of events.
func (q *Queue) Next(ctx context.Context, by string) (Job, error) {
	jobs, err := q.NextN(ctx, by, 1)
	if err != nil {
		return Job{}, err
	}
	return jobs[0], nil
}

// NextN takes up to max jobs, at most MaxTake and fewer if their sidecars are
// large, from the head of the queue with one sync. If no job is pending the error is [ErrEmpty].
func (q *Queue) NextN(ctx context.Context, by string, max int) ([]Job, error) {
	if err := q.svc.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	ids := q.claim(max)
	q.mu.Unlock()
	if len(ids) == 0 {
		return nil, ErrEmpty
	}
	return q.consume(ids, by)
}

// NextWait is NextN that waits for a job until ctx ends, and then returns
// [ErrEmpty]. Waiters are served in the order they came; one whose ctx has
// ended takes no job.
func (q *Queue) NextWait(ctx context.Context, by string, max int) ([]Job, error) {
	if err := q.svc.usable(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ErrEmpty
	}
	q.mu.Lock()
	if len(q.waiters) == 0 {
		if ids := q.claim(max); len(ids) > 0 {
			q.mu.Unlock()
			return q.consume(ids, by)
		}
	}
	w := &waiter{max: max, ready: make(chan struct{})}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()

	var stopped error
	select {
	case <-w.ready:
		if ctx.Err() == nil {
			return q.consume(w.taken, by)
		}
	case <-ctx.Done():
	case <-q.svc.stopped:
		if stopped = q.svc.usable(); stopped == nil {
			stopped = ErrClosed
		}
	}
	q.mu.Lock()
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	taken := w.taken
	q.mu.Unlock()
	q.release(taken...)
	if stopped != nil {
		return nil, stopped
	}
	return nil, ErrEmpty
}

// claim holds up to max available jobs, lowest number first; q.mu is held.
func (q *Queue) claim(max int) []JobID {
	max = min(max, MaxTake, int(q.idx.avail))
	if max <= 0 {
		return nil
	}
	ids := make([]JobID, 0, max)
	for id := q.idx.head; len(ids) < max; id++ {
		if id = q.idx.first(id); id == 0 {
			break
		}
		p := q.idx.page(id)
		s := p.slot(int(id % PageJobs))
		q.idx.setBusy(p, s)
		ids = append(ids, id)
		q.idx.head = id + 1
	}
	return ids
}

// serve hands available jobs to those who wait; q.mu is held.
func (q *Queue) serve() {
	for len(q.waiters) > 0 && q.idx.avail > 0 {
		w := q.waiters[0]
		q.waiters = slices.Delete(q.waiters, 0, 1)
		w.taken = q.claim(w.max)
		close(w.ready)
	}
}

func (q *Queue) consume(ids []JobID, by string) ([]Job, error) {
	by = cleanLabel(by[:min(len(by), maxLabel)])
	jobs, err := q.transition(ids, Consume, Consumed, func(j *Job, t time.Time) {
		j.Consumed, j.Consumer, j.Deleted = t, by, time.Time{}
	})
	if err == nil {
		q.svc.assist(q, len(ids))
	}
	return jobs, err
}

// Delete takes a pending job out of the queue (Cutie 0.3, 5.8). A job deleted
// before is left as it is; one that was consumed is [ErrNotPending].
func (q *Queue) Delete(ctx context.Context, id JobID) (Job, error) {
	return q.move(ctx, id, Delete, Deleted, func(j *Job, t time.Time) { j.Deleted = t })
}

// Requeue moves a consumed or deleted job back to pending (Cutie 0.3, 3.3).
// It keeps its identifier and so its place. A pending job is left as it is.
func (q *Queue) Requeue(ctx context.Context, id JobID) (Job, error) {
	return q.move(ctx, id, Requeue, Pending, func(j *Job, t time.Time) {
		j.Consumed, j.Consumer, j.Deleted = time.Time{}, "", time.Time{}
		j.Requeued, j.Requeues = t, j.Requeues+1
	})
}

func (q *Queue) move(ctx context.Context, id JobID, kind Kind, to Status, edit func(*Job, time.Time)) (Job, error) {
	if err := ctx.Err(); err != nil {
		return Job{}, err
	}
	from, err := q.take(ctx, id, to)
	if err != nil {
		return Job{}, err
	}
	if from == to {
		return q.Job(id)
	}
	if to == Deleted && from != Pending {
		q.release(id)
		return Job{}, ErrNotPending
	}
	jobs, err := q.transition([]JobID{id}, kind, to, edit)
	if err != nil {
		return Job{}, err
	}
	q.svc.assist(q, 1)
	return jobs[0], nil
}
