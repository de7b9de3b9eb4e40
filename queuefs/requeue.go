package queuefs

import (
	"context"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// Next takes the job at the head of the queue and makes it Consumed (Cutie
// 0.3, 5.6). by is the user agent of the consumer. If no job is pending the
// error is [ledger.ErrEmpty].
func (q *Queue) Next(ctx context.Context, by string) (job.Job, error) {
	jobs, err := q.NextN(ctx, by, 1)
	if err != nil {
		return job.Job{}, err
	}
	return jobs[0], nil
}

// NextN is [Queue.Take] for a consumer without reports: on a queue that wants
// reports the jobs come back when their leases end.
func (q *Queue) NextN(ctx context.Context, by string, max int) ([]job.Job, error) {
	taken, err := q.Take(ctx, Take{By: by, Max: max})
	return jobsOf(taken), err
}

// NextWait is [Queue.TakeWait] for a consumer without reports.
func (q *Queue) NextWait(ctx context.Context, by string, max int) ([]job.Job, error) {
	taken, err := q.TakeWait(ctx, Take{By: by, Max: max})
	return jobsOf(taken), err
}

func jobsOf(taken []Taken) []job.Job {
	if taken == nil {
		return nil
	}
	jobs := make([]job.Job, len(taken))
	for i := range taken {
		jobs[i] = taken[i].Job
	}
	return jobs
}

// Delete takes a pending job out of the queue (Cutie 0.3, 5.8). A deleted job
// is left as it is; for a consumed one the error is [job.ErrNotPending].
func (q *Queue) Delete(ctx context.Context, id job.ID) (job.Job, error) {
	return q.move(ctx, id, job.Delete, job.Deleted, func(j *job.Job, t time.Time) error {
		j.Delete(t)
		return nil
	})
}

// Requeue moves a consumed or deleted job back to pending (Cutie 0.3, 3.3).
// It keeps its identifier and so its place; a failed job has all its attempts
// again. A pending job is left as it is. A job in work is taken from its consumer;
// see [Queue.RequeueIdle].
func (q *Queue) Requeue(ctx context.Context, id job.ID) (job.Job, error) {
	return q.move(ctx, id, job.Requeue, job.Pending, func(j *job.Job, t time.Time) error {
		j.StartOver(t)
		return nil
	})
}

// RequeueIdle is [Queue.Requeue] of a job out of work. The error is
// [job.ErrConflict] while a consumer has a lease of it.
func (q *Queue) RequeueIdle(ctx context.Context, id job.ID) (job.Job, error) {
	return q.move(ctx, id, job.Requeue, job.Pending, func(j *job.Job, t time.Time) error {
		if !j.Lease.Ends.IsZero() {
			return fmt.Errorf("%w: a consumer works on %v until %s; force takes it away", job.ErrConflict, j.ID, job.FormatTime(j.Lease.Ends))
		}
		j.StartOver(t)
		return nil
	})
}

// RequeueAt is [Queue.Requeue] of a consumed job without an event since at. For
// any other the error is [job.ErrConflict].
func (q *Queue) RequeueAt(ctx context.Context, id job.ID, at job.Seq) (job.Job, error) {
	return q.alter(ctx, id, job.Consumed, job.ErrConflict, func(j *job.Job, t time.Time) (job.Kind, error) {
		if j.Status != job.Consumed || j.Seq != at {
			return 0, fmt.Errorf("%w: %v is %v by event %d, not %d", job.ErrConflict, j.ID, j.Status, j.Seq, at)
		}
		j.StartOver(t)
		return job.Requeue, nil
	})
}

func (q *Queue) move(ctx context.Context, id job.ID, kind job.Kind, to job.Status, edit func(*job.Job, time.Time) error) (job.Job, error) {
	if err := q.changeable(ctx); err != nil {
		return job.Job{}, err
	}
	from, err := q.ledger.Claim(ctx, id, to)
	if err != nil {
		return job.Job{}, err
	}
	if from == to {
		return q.content.Job(id)
	}
	if to == job.Deleted && from != job.Pending {
		q.ledger.Release(id)
		return job.Job{}, job.Misplaced(id, from, job.ErrNotPending)
	}
	jobs, err := q.change([]job.ID{id}, func(j *job.Job, t time.Time) (job.Kind, error) {
		if err := edit(j, t); err != nil {
			return 0, err
		}
		return kind, nil
	})
	if err != nil {
		return job.Job{}, err
	}
	q.assist(1)
	return jobs[0], nil
}
