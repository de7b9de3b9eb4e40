package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
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
			if err := q.dir.SetAside(j.Status, j.ID.String(), lostFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	q.svc.report(q.dir.Path(job.Pending.String(), id.String()), err.Error()+"; consumers pass over the job until it can be read")
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

// changeable returns the error of ctx, or [replay.ErrMirror].
func (q *Queue) changeable(ctx context.Context) error {
	return cmp.Or(ctx.Err(), q.original.Refuse())
}

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
	if !until.IsZero() && (until.UnixMicro() <= q.svc.now() || until.Year() > 9999) {
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
	if err := q.makeRoom(ctx, 1, int64(len(m.Sidecar))); err != nil {
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

// RequeueEnd puts the payload of a consumed or deleted job into the queue
// again, as a new job at its end, and returns the new job. The old job stays as
// it is and names the new one; both are on stable storage, or neither is. For a
// job that is pending, in work, or already put at the end the error is
// [job.ErrConflict]. The old job is culled after the new one.
func (q *Queue) RequeueEnd(ctx context.Context, id job.ID) (job.Job, error) {
	if err := q.changeable(ctx); err != nil {
		return job.Job{}, err
	}
	if err := q.makeRoom(ctx, 1, int64(q.svc.shared.Inline)); err != nil {
		return job.Job{}, err
	}
	if st, _ := q.ledger.Status(id); st == job.Pending {
		return job.Job{}, fmt.Errorf("%w: %v is %v", job.ErrConflict, id, st)
	}
	if _, err := q.ledger.Claim(ctx, id, 0); err != nil {
		return job.Job{}, err
	}
	j, err := q.requeueEnd(id)
	if err != nil {
		q.ledger.Release(id)
	}
	return j, err
}

func (q *Queue) requeueEnd(id job.ID) (job.Job, error) {
	old, err := q.content.Job(id)
	if err != nil {
		return job.Job{}, err
	}
	switch as := old.Extra.Value(job.RequeuedAs); {
	case old.Status == job.Pending:
		return job.Job{}, fmt.Errorf("%w: %v is %v", job.ErrConflict, id, job.Pending)
	case !old.Lease.Ends.IsZero():
		return job.Job{}, fmt.Errorf("%w: a consumer works on %v", job.ErrConflict, id)
	case as != "":
		return job.Job{}, fmt.Errorf("%w: %v is in the queue again as %s", job.ErrConflict, id, as)
	}
	sub := &record.Record{Kind: job.Submit, Payload: record.Payload{Size: old.Size}}
	sub.SetType(old.MediaType)
	if sub.Payload.Data, sub.Temp, err = q.payloadAgain(id); err != nil {
		return job.Job{}, err
	}
	sub.Flags = record.Inline
	if sub.Temp != "" {
		sub.Flags = record.InTemp
	}
	inline := sub.Payload.Data
	var again job.Job
	err = q.commit(func(b *ledger.Batch) error {
		number, err := q.mint(b)
		if err != nil {
			return err
		}
		sub.Sums(b.Index(), id)
		var seq job.Seq
		seq, sub.Time = b.Next()
		again = old.Again(number, seq, job.Instant(sub.Time))
		sub.Seq, sub.Job, sub.Payload.Submitted, sub.Payload.Data = again.Seq, again.ID, sub.Time, inline
		sub.Mark(&again)
		sub.SetText(again.AppendText(nil))
		b.Add(sub)

		k := old
		seq, us := b.Next()
		k.Seq, k.Updated = seq, job.Instant(us)
		k.GiveWay(again.ID)
		b.Job(&k, job.Update, old.Status, us)
		return nil
	})
	if err != nil {
		q.svc.dropTemp(sub.Temp)
		return job.Job{}, err
	}
	return again, nil
}

// payloadAgain returns the payload of a job for another one: its octets if they
// may travel in the journal, else the name of a temporary file on stable
// storage: a second name of the payload's file, if there is a file.
func (q *Queue) payloadAgain(id job.ID) (data []byte, temp string, err error) {
	p, err := q.content.Payload(id)
	if err != nil {
		return nil, "", err
	}
	defer p.Close()
	if p.Size() <= int64(q.svc.shared.Inline) {
		data, err = io.ReadAll(p)
		return data, "", err
	}
	v, _ := q.ledger.View(id)
	temp, linked, err := q.dir.LinkPayload(id, v.Temp)
	if err == nil && !linked {
		temp, err = q.copyPayload(p)
	}
	if err != nil {
		return nil, "", ledger.StorageError(err)
	}
	if err = q.svc.dirs.temp.Sync(); err == nil {
		temp, err = q.svc.stored.Keep(context.Background(), temp, v.SHA256)
	}
	if err != nil {
		q.svc.dirs.temp.Remove(temp)
		return nil, "", ledger.StorageError(err)
	}
	return nil, temp, nil
}

// copyPayload copies a payload to a temporary file, from the journal or on a
// file system without links.
func (q *Queue) copyPayload(p io.Reader) (temp string, err error) {
	f, err := q.svc.spool()
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			q.svc.dirs.temp.Remove(f.Name())
		}
	}()
	if _, err := io.Copy(f, struct{ io.Reader }{p}); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}
