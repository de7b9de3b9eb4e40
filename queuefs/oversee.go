package queuefs

import (
	"context"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// Leased returns the jobs on lease, in no order, from memory.
func (q *Queue) Leased() []JobID {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.Leases.Jobs()
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
		j.Conclude(t, Conclusion{Outcome: Aborted, Message: why})
		return Conclude, nil
	})
}
