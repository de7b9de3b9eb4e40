package queuefs

import (
	"context"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// Hold makes consumers pass over a pending job until it is released. A job on
// hold keeps its date; its reason becomes why, unless why is empty. If the job
// is not pending the error is [ErrNotPending].
func (q *Queue) Hold(ctx context.Context, id JobID, why string) (Job, error) {
	return q.holdIf(ctx, id, why, func(*Job) error { return nil })
}

// HoldAt is [Queue.Hold] of a job without an event since at. For any other the
// error is [ErrConflict], or [ErrNotPending].
func (q *Queue) HoldAt(ctx context.Context, id JobID, at Seq, why string) (Job, error) {
	return q.holdIf(ctx, id, why, func(j *Job) error {
		if j.Seq != at {
			return fmt.Errorf("%w: %v is %v by event %d, not %d", ErrConflict, j.ID, j.Status, j.Seq, at)
		}
		return nil
	})
}

// holdIf holds a pending job unless refuse returns an error.
func (q *Queue) holdIf(ctx context.Context, id JobID, why string, refuse func(*Job) error) (Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return Job{}, fmt.Errorf("reason: %w", err)
	}
	return q.alter(ctx, id, Pending, ErrNotPending, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Pending {
			return 0, misplaced(id, j.Status, ErrNotPending)
		}
		if err := refuse(j); err != nil {
			return 0, err
		}
		if !j.Hold(t, why) {
			return 0, nil
		}
		return Hold, nil
	})
}

// Release ends the hold of a pending job, so it has its place again. A job that
// is not on hold is left as it is; if it is not pending the error is
// [ErrNotPending].
func (q *Queue) Release(ctx context.Context, id JobID) (Job, error) {
	return q.alter(ctx, id, Pending, ErrNotPending, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Pending {
			return 0, misplaced(id, j.Status, ErrNotPending)
		}
		if !j.Unhold() {
			return 0, nil
		}
		return Release, nil
	})
}
