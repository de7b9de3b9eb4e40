package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// RequeueEnd puts the payload of a consumed or deleted job into the queue
// again, as a new job at its end, and returns the new job. The old job stays as
// it is and names the new one; both are on stable storage, or neither is. For a
// job that is pending, in work, or already put at the end the error is
// [job.ErrConflict]. The old job is culled after the new one.
func (q *Queue) RequeueEnd(ctx context.Context, id job.ID) (job.Job, error) {
	if err := cmp.Or(ctx.Err(), q.original.Refuse()); err != nil {
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
	temp, linked, err := q.tree.LinkPayload(id, v.Temp)
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
