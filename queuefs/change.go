package queuefs

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// An edit changes a job at the time of its event, and returns the kind of the event;
// with kind 0 the job stays as it is. It runs with the lock of the ledger held, and again
// from the start when the journal was not ready. It must not write to slices of the job.
type edit func(j *job.Job, t time.Time) (job.Kind, error)

// alter makes one event of one job in st, or in any status if st is 0; for
// another the error is refusal.
func (q *Queue) alter(ctx context.Context, id job.ID, st job.Status, refusal error, do edit) (job.Job, error) {
	if err := q.changeable(ctx); err != nil {
		return job.Job{}, err
	}
	// Asked before the job is claimed: while a pending one is, others would pass
	// it for nothing.
	if is, _ := q.ledger.Status(id); is != 0 && st != 0 && is != st {
		return job.Job{}, job.Misplaced(id, is, refusal)
	}
	if _, err := q.ledger.Claim(ctx, id, 0); err != nil {
		return job.Job{}, err
	}
	jobs, err := q.change([]job.ID{id}, do)
	if err != nil {
		return job.Job{}, err
	}
	q.assist(1)
	return jobs[0], nil
}

// change makes an event of each of the claimed jobs. An error of one leaves them all.
// Jobs with files too large for one batch of the journal are given back, the last ones
// first.
func (q *Queue) change(ids []job.ID, do edit) ([]job.Job, error) {
	jobs, _, err := q.content.Fetch(ids, false)
	if err != nil {
		q.putOff(ids, err)
		return nil, err
	}
	if do, err = q.saving(jobs, do); err != nil {
		q.ledger.Release(ids...)
		return nil, err
	}
	return q.enact(jobs, do)
}

// saving returns the edit for jobs of which some have lost their job files: it puts
// these on hold when they are pending afterwards. A damaged file is moved to corrupt/
// before another takes its place.
func (q *Queue) saving(jobs []job.Job, do edit) (edit, error) {
	lost := map[job.ID]bool{}
	for i := range jobs {
		if j := &jobs[i]; j.Lost() {
			lost[j.ID] = true
			if err := q.tree.SetAside(j.Status, j.ID.String(), lostFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, ledger.StorageError(err)
			}
		}
	}
	if len(lost) == 0 {
		return do, nil
	}
	return func(j *job.Job, t time.Time) (job.Kind, error) {
		was := lost[j.ID]
		kind, err := do(j, t)
		if was && kind != 0 && kind != job.Release && j.Status == job.Pending && (j.Held.IsZero() || !j.HeldUntil.IsZero()) {
			j.Hold(t, lostFile, time.Time{})
		}
		return kind, err
	}, nil
}

// lostFile is why a job is on hold without its job file.
const lostFile = "job file lost or damaged; the index knows less of the job"

// putOff gives claimed jobs back; consumers pass for a while over the one that could
// not be read.
func (q *Queue) putOff(ids []job.ID, err error) {
	if u, ok := errors.AsType[*content.UnreadError](err); ok && slices.Contains(ids, u.Job) {
		q.rest(u.Job, err)
		ids = slices.DeleteFunc(slices.Clone(ids), func(id job.ID) bool { return id == u.Job })
	}
	q.ledger.Release(ids...)
}

// rest lets consumers pass over a claimed job for a while.
func (q *Queue) rest(id job.ID, err error) {
	q.svc.report(q.tree.Path(job.Pending.String(), id.String()), err.Error()+"; consumers pass over the job until it can be read")
	q.ledger.Rest(id)
}

// enact is change for jobs already read. It returns all of them in their order,
// or, if they are too many for one batch, the first ones and gives the others
// back.
func (q *Queue) enact(from []job.Job, do edit) ([]job.Job, error) {
	jobs := slices.Clone(from)
	ids := make([]job.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	var still []job.ID // as they were
	err := q.commit(func(b *ledger.Batch) error {
		still = nil
		for i := range jobs {
			jobs[i] = from[i]
			j, before := &jobs[i], b.Index().Minted()
			seq, us := b.Next()
			kind, err := do(j, job.Instant(us))
			switch {
			case err != nil:
				return err
			case kind == 0:
				jobs[i] = from[i]
				b.Index().Unmint(before)
				still = append(still, j.ID)
				continue
			}
			j.Seq = seq
			b.Job(j, kind, from[i].Status, us).SetResults(from[i].Results, j.Results)
		}
		return nil
	})
	if half := len(ids) / 2; half > 0 && errors.Is(err, journal.ErrTooLarge) {
		q.ledger.Release(ids[half:]...)
		return q.enact(from[:half], do)
	}
	if err != nil {
		q.ledger.Release(ids...)
		return nil, err
	}
	q.ledger.Release(still...)
	for i := range jobs {
		q.takes.follow(&from[i], &jobs[i])
	}
	return jobs, nil
}
