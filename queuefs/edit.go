package queuefs

import (
	"context"
	"fmt"
	"time"

	"cutie/queuefs/job"
)

// Hold makes consumers pass over a pending job until it is released. A job on
// hold keeps its date; its reason becomes why, unless why is empty. If the job
// is not pending the error is [job.ErrNotPending].
func (q *Queue) Hold(ctx context.Context, id job.ID, why string) (job.Job, error) {
	return q.HoldUntil(ctx, id, why, time.Time{})
}

// HoldUntil is [Queue.Hold] up to a time, in the future: then [Service.Expire]
// releases the job. Of a job on hold it changes the end; the zero time takes it
// away.
func (q *Queue) HoldUntil(ctx context.Context, id job.ID, why string, until time.Time) (job.Job, error) {
	until = until.Truncate(time.Microsecond).UTC()
	if !until.IsZero() && (until.UnixMicro() <= q.svc.shared.Micro() || until.Year() > 9999) {
		return job.Job{}, fmt.Errorf("%w: a hold until %s is over before it begins, or after the year 9999", job.ErrBadName, job.FormatTime(until))
	}
	return q.holdIf(ctx, id, why, until, func(*job.Job) error { return nil })
}

// HoldAt is [Queue.Hold] of a job without an event since at. For any other the
// error is [job.ErrConflict], or [job.ErrNotPending].
func (q *Queue) HoldAt(ctx context.Context, id job.ID, at job.Seq, why string) (job.Job, error) {
	return q.holdIf(ctx, id, why, time.Time{}, func(j *job.Job) error {
		if j.Seq != at {
			return fmt.Errorf("%w: %v is %v by event %d, not %d", job.ErrConflict, j.ID, j.Status, j.Seq, at)
		}
		return nil
	})
}

// holdIf holds a pending job unless refuse returns an error.
func (q *Queue) holdIf(ctx context.Context, id job.ID, why string, until time.Time, refuse func(*job.Job) error) (job.Job, error) {
	why, err := job.CleanText(why)
	if err != nil {
		return job.Job{}, fmt.Errorf("reason: %w", err)
	}
	return q.alter(ctx, id, job.Pending, job.ErrNotPending, func(j *job.Job, t time.Time) (job.Kind, error) {
		if j.Status != job.Pending {
			return 0, job.Misplaced(id, j.Status, job.ErrNotPending)
		}
		if err := refuse(j); err != nil {
			return 0, err
		}
		if !j.Hold(t, why, until) {
			return 0, nil
		}
		return job.Hold, nil
	})
}

// Release ends the hold of a pending job, so it has its place again. A job that
// is not on hold is left as it is; if it is not pending the error is
// [job.ErrNotPending].
func (q *Queue) Release(ctx context.Context, id job.ID) (job.Job, error) {
	return q.alter(ctx, id, job.Pending, job.ErrNotPending, func(j *job.Job, t time.Time) (job.Kind, error) {
		if j.Status != job.Pending {
			return 0, job.Misplaced(id, j.Status, job.ErrNotPending)
		}
		if !j.Unhold() {
			return 0, nil
		}
		return job.Release, nil
	})
}

// Amend changes a job file for the rooms above the queue: edit may set Destruction and
// Extra, and drop Results and the key of a lease that is over. The job may have any status.
// edit gets the job while nobody else is busy with it; if it returns an error, nothing
// changes and Amend returns the error. It must not block.
func (q *Queue) Amend(ctx context.Context, id job.ID, edit func(*job.Job) error) (job.Job, error) {
	return q.alter(ctx, id, 0, nil, func(j *job.Job, t time.Time) (job.Kind, error) {
		if err := edit(j); err != nil {
			return 0, err
		}
		j.Updated = t
		return job.Update, nil
	})
}

// A Description is a change of a waiting job. A nil field stays as it is.
type Description struct {
	Filename *string // a label; only the part after the last slash is kept
	Sidecar  *string // text, at most MaxSidecar octets
}

// Describe changes the description of a pending job, on hold or not; its
// payload and its place stay. It refuses the same as [queuefs.Submission.Add], with the
// same errors. If nothing changes there is no event. For a job that is not
// pending the error is [job.ErrNotPending].
func (q *Queue) Describe(ctx context.Context, id job.ID, d Description) (job.Job, error) {
	var m job.Meta
	if d.Filename != nil {
		m.Filename = *d.Filename
	}
	if d.Sidecar != nil {
		m.Sidecar = *d.Sidecar
		if err := job.CheckText(m.Sidecar); err != nil {
			return job.Job{}, fmt.Errorf("%v: %w", id, err)
		}
	}
	if err := m.Check(); err != nil {
		return job.Job{}, fmt.Errorf("%v: %w", id, err)
	}
	// A sidecar is as large as a payload may be.
	if err := q.catchUp(ctx, 1); err != nil {
		return job.Job{}, err
	}
	if err := q.svc.makeFit(1, int64(len(m.Sidecar))); err != nil {
		return job.Job{}, err
	}
	return q.alter(ctx, id, job.Pending, job.ErrNotPending, func(j *job.Job, t time.Time) (job.Kind, error) {
		if j.Status != job.Pending {
			return 0, job.Misplaced(id, j.Status, job.ErrNotPending)
		}
		was := *j
		if d.Filename != nil {
			j.Filename = m.Filename
		}
		if d.Sidecar != nil {
			j.Sidecar, j.EmptySidecar = m.Sidecar, false
		}
		if j.Filename == was.Filename && j.Sidecar == was.Sidecar {
			return 0, nil
		}
		j.Updated = t
		return job.Update, nil
	})
}
