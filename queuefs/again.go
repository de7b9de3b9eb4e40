package queuefs

import (
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
// [ErrConflict]. The old job is culled after the new one.
func (q *Queue) RequeueEnd(ctx context.Context, id JobID) (Job, error) {
	if err := q.changeable(ctx); err != nil {
		return Job{}, err
	}
	if err := q.svc.catchUp(ctx, q, 1); err != nil {
		return Job{}, err
	}
	if err := q.svc.makeFit(1, int64(q.svc.shared.Inline)); err != nil {
		return Job{}, err
	}
	if st, _ := q.Status(id); st == Pending {
		return Job{}, fmt.Errorf("%w: %v is %v", ErrConflict, id, st)
	}
	if _, err := q.ledger.Claim(ctx, id, 0); err != nil {
		return Job{}, err
	}
	j, err := q.requeueEnd(id)
	if err != nil {
		q.ledger.Release(id)
	}
	return j, err
}

func (q *Queue) requeueEnd(id JobID) (Job, error) {
	old, err := q.Job(id)
	if err != nil {
		return Job{}, err
	}
	switch as := old.Extra.Value(job.RequeuedAs); {
	case old.Status == Pending:
		return Job{}, fmt.Errorf("%w: %v is %v", ErrConflict, id, Pending)
	case !old.Lease.Ends.IsZero():
		return Job{}, fmt.Errorf("%w: a consumer works on %v", ErrConflict, id)
	case as != "":
		return Job{}, fmt.Errorf("%w: %v is in the queue again as %s", ErrConflict, id, as)
	}
	sub := &record.Record{Kind: Submit, Payload: record.Payload{Size: old.Size}}
	sub.SetType(old.MediaType)
	if sub.Payload.Data, sub.Temp, err = q.payloadAgain(id); err != nil {
		return Job{}, err
	}
	sub.Flags = record.Inline
	if sub.Temp != "" {
		sub.Flags = record.InTemp
	}
	inline := sub.Payload.Data
	var again Job
	err = q.commit(func(b *ledger.Batch) error {
		number, ok := b.Index().MintJob()
		if !ok {
			return q.numberless()
		}
		sub.Sums(b.Index(), id)
		var seq Seq
		seq, sub.Time = b.Next()
		again = old.Again(number, seq, micro(sub.Time))
		sub.Seq, sub.Job, sub.Payload.Submitted, sub.Payload.Data = again.Seq, again.ID, sub.Time, inline
		sub.Mark(&again)
		sub.SetText(again.AppendText(nil))
		b.Add(sub)

		k := old
		seq, us := b.Next()
		k.Seq, k.Updated = seq, micro(us)
		k.GiveWay(again.ID)
		b.Job(&k, Update, old.Status, us)
		return nil
	})
	if err != nil {
		// After a failed commit the journal may speak of the file all the same.
		if sub.Temp != "" && q.svc.Err() == nil {
			q.svc.dirs.temp.Remove(sub.Temp)
		}
		return Job{}, err
	}
	return again, nil
}

// payloadAgain returns the payload of a job for another one: its octets if they
// may travel in the journal, else the name of a temporary file on stable
// storage: a second name of the payload's file, if there is a file.
func (q *Queue) payloadAgain(id JobID) (data []byte, temp string, err error) {
	p, err := q.Payload(id)
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
		return nil, "", storageError(err)
	}
	if err = q.svc.dirs.temp.Sync(); err == nil {
		err = q.svc.stored.Keep(context.Background(), temp)
	}
	if err != nil {
		q.svc.dirs.temp.Remove(temp)
		return nil, "", storageError(err)
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
