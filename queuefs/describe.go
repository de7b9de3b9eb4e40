package queuefs

import (
	"context"
	"fmt"
	"time"
)

// Amend changes a job file for the rooms above the queue: edit may set
// Destruction and Extra, and drop Results. The job may have any status. edit
// gets the job while nobody else is busy with it; if it returns an error,
// nothing changes and Amend returns the error. It must not block.
func (q *Queue) Amend(ctx context.Context, id JobID, edit func(*Job) error) (Job, error) {
	return q.alter(ctx, id, 0, nil, func(j *Job, t time.Time) (Kind, error) {
		if err := edit(j); err != nil {
			return 0, err
		}
		j.Updated = t
		return Update, nil
	})
}

// A Description is a change of a waiting job. A nil field stays as it is.
type Description struct {
	Filename *string // a label; only the part after the last slash is kept
	Sidecar  *string // text, at most MaxSidecar octets
}

// Describe changes the description of a pending job, on hold or not; its
// payload and its place stay. It refuses the same as [Submission.Add], with the
// same errors. If nothing changes there is no event. For a job that is not
// pending the error is [ErrNotPending].
func (q *Queue) Describe(ctx context.Context, id JobID, d Description) (Job, error) {
	var m Meta
	if d.Filename != nil {
		m.Filename = *d.Filename
	}
	if d.Sidecar != nil {
		m.Sidecar = *d.Sidecar
	}
	if err := m.Check(); err != nil {
		return Job{}, fmt.Errorf("%v: %w", id, err)
	}
	// A sidecar is as large as a payload may be.
	if err := q.svc.catchUpFiles(ctx, q, 1); err != nil {
		return Job{}, err
	}
	if err := q.svc.makeFit(1, int64(len(m.Sidecar))); err != nil {
		return Job{}, err
	}
	return q.alter(ctx, id, Pending, ErrNotPending, func(j *Job, t time.Time) (Kind, error) {
		if j.Status != Pending {
			return 0, misplaced(id, j.Status, ErrNotPending)
		}
		was := *j
		if d.Filename != nil {
			j.Filename = m.Filename
		}
		if d.Sidecar != nil {
			j.Sidecar = m.Sidecar
		}
		if j.Filename == was.Filename && j.Sidecar == was.Sidecar {
			return 0, nil
		}
		j.Updated = t
		return Update, nil
	})
}
