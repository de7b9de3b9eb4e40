package queuefs

import (
	"context"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// Conclude ends the lease of a job with the outcome reported by its consumer. After
// a transient failure before the last of MaxAttempts the job is pending again
// instead, with the message, and on hold for RetryIn or as long as the queue says.
// The error is [ErrLease] if token is not, or no longer, the lease's: late and
// second reports change nothing.
func (q *Queue) Conclude(ctx context.Context, id JobID, token string, r Conclusion) (Job, error) {
	if r.Outcome != Completed && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: a consumer reports %v or %v, not %v", ErrBadName, Completed, Failed, r.Outcome)
	}
	if r.Transient && r.Outcome != Failed {
		return Job{}, fmt.Errorf("%w: what was completed has no transient error", ErrBadName)
	}
	if in := r.RetryIn; in != nil && (!r.Transient || *in < 0 || *in > MaxLease) {
		return Job{}, fmt.Errorf("%w: a time until another attempt is of a transient error, and from 0 to %v", ErrBadName, MaxLease)
	}
	var err error
	if r.Message, err = job.CleanText(r.Message); err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		if !r.Transient || q.lastAttempt(j) {
			j.Conclude(t, r)
			return Conclude, nil
		}
		wait := q.info().RetryFailed(j.Attempts)
		if r.RetryIn != nil {
			wait = *r.RetryIn
		}
		j.Retry(t, q.retryAt(wait), r.Message)
		return Requeue, nil
	})
}

// Return gives a job back without an outcome: it is pending again at once,
// however often it was handed out, and keeps the message until it is taken. The
// error is [ErrLease] as for Conclude.
func (q *Queue) Return(ctx context.Context, id JobID, token, message string) (Job, error) {
	message, err := job.CleanText(message)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrLease, func(j *Job, t time.Time) (Kind, error) {
		if err := q.leased(j, token); err != nil {
			return 0, err
		}
		j.GoBack(t)
		j.Message = message
		return Requeue, nil
	})
}

// Abort takes a job out of work: a pending one is Deleted, the lease of a
// consumed one is revoked; the outcome of both is Aborted. Of any other job
// the error is [ErrConflict]. The consumer may still hand in results for
// [LateResults].
func (q *Queue) Abort(ctx context.Context, id JobID, why string) (Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, 0, nil, func(j *Job, t time.Time) (Kind, error) {
		kind := Conclude
		switch {
		case j.Status == Pending:
			kind = Delete
			j.Delete(t)
		case j.Status != Consumed || j.Lease.Ends.IsZero():
			return 0, fmt.Errorf("%w: %v is %v and nobody works on it", ErrConflict, j.ID, j.Status)
		}
		j.Abort(t, why)
		return kind, nil
	})
}

// AbortAttempt is [Queue.Abort] of a job in work since the given instant. If
// the work has ended meanwhile, or began anew, the error is [ErrConflict].
func (q *Queue) AbortAttempt(ctx context.Context, id JobID, since time.Time, why string) (Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrConflict, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Consumed || j.Lease.Ends.IsZero() || !j.Consumed.Equal(since) {
			return 0, fmt.Errorf("%w: nobody works on %v since %s", ErrConflict, j.ID, FormatTime(since))
		}
		j.Abort(t, why)
		return Conclude, nil
	})
}
