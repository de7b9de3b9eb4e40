package queuefs

import (
	"context"
	"fmt"
	"time"
)

// Leased returns the jobs on lease, in no order, from memory.
func (q *Queue) Leased() []JobID {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.Leases.Jobs()
}

// AbortAttempt is [Queue.Abort] of a job that somebody works on since the given
// instant. If the work has ended meanwhile, or began anew, the error is
// [ErrConflict].
func (q *Queue) AbortAttempt(ctx context.Context, id JobID, since time.Time, why string) (Job, error) {
	why, err := cleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("message: %w", err)
	}
	return q.alter(ctx, id, Consumed, ErrConflict, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Consumed || j.Lease.Ends.IsZero() || !j.Consumed.Equal(since) {
			return 0, fmt.Errorf("%w: nobody works on %v since %s", ErrConflict, j.ID, FormatTime(since))
		}
		j.conclude(t, Conclusion{Outcome: Aborted, Message: why})
		return Conclude, nil
	})
}

// DropResults removes the results of a job that nobody works on. Of another
// the error is [ErrConflict]; a job without results is left as it is.
func (q *Queue) DropResults(ctx context.Context, id JobID) (Job, error) {
	return q.alter(ctx, id, 0, nil, func(j *Job, _ time.Time) (Kind, error) {
		switch {
		case !j.Lease.Ends.IsZero():
			return 0, fmt.Errorf("%w: a consumer works on %v", ErrConflict, id)
		case len(j.Results) == 0:
			return 0, nil
		}
		j.Results = nil
		return Update, nil
	})
}
