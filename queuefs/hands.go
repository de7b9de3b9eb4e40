package queuefs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/dir"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// After a stop in order the directories rule: what was done to them by hand while nobody had
// the home open becomes an event, or, if it makes no sense, is moved to corrupt/ and reported.
// After a crash the journal rules.

// takeIn makes events of job files that were moved, brought, or taken away. For a fresh
// queue the journal has all jobs; its losses come in the same way, and the new events go on
// after the ones in the files.
func (q *Queue) takeIn(fresh bool) error {
	var brought []dir.Standing
	err := q.dir.Walk(nil, func(s dir.Standing) error {
		switch {
		case s.Known.Behind || s.Filed == s.Known.Status:
			return nil
		case s.Known.Status == 0:
			brought = append(brought, s)
			return nil
		case s.Filed == 0:
			return q.takeLoss(s.ID, s.Known.Status)
		}
		return q.takeMove(s.ID, s.Known.Status, s.Filed)
	})
	if err != nil {
		return err
	}
	var last job.Seq
	if fresh {
		if last, err = q.lastOf(brought); err != nil {
			return err
		}
	}
	for _, s := range brought {
		if err := q.takeNew(s.ID, s.Filed, last); err != nil {
			return err
		}
	}
	return nil
}

// lastOf returns the highest event in job files.
func (q *Queue) lastOf(some []dir.Standing) (last job.Seq, err error) {
	for _, s := range some {
		j, _, err := q.dir.Filed(s.ID, s.Filed)
		if content.Transient(err) {
			return 0, err
		}
		if err == nil && q.inReach(&j) == nil {
			last = max(last, j.Seq)
		}
	}
	return last, nil
}

// takeMove makes an event of a moved job file.
func (q *Queue) takeMove(id job.ID, from, to job.Status) error {
	j, _, err := q.dir.Filed(id, to)
	if content.Transient(err) {
		return err
	}
	if err != nil {
		if err := q.dir.SetAside(to, id.String(), err.Error()); err != nil {
			return err
		}
		v, _ := q.ledger.View(id)
		if j, err = q.content.Restored(id, &v); err != nil {
			return err
		}
	}
	kind := job.Update
	switch {
	case to == job.Pending:
		kind = job.Requeue
	case from == job.Pending && to == job.Consumed:
		kind = job.Consume
	case from == job.Pending && to == job.Deleted:
		kind = job.Delete
	}
	q.svc.report(q.dir.Path(to.String(), id.String()),
		"moved here from "+from.String()+" by other hands; taken as "+kind.String())
	return q.commit(func(b *ledger.Batch) error {
		k := j
		seq, us := b.Next()
		t := job.Instant(us)
		k.Seq = seq
		switch to {
		case job.Pending:
			k.StartOver(t)
			if j.Lost() {
				holdLost(&k, t)
			}
		case job.Consumed:
			k.Enter(job.Consumed)
			k.Consumed = t
		case job.Deleted:
			k.Delete(t)
		}
		b.Index().SetFiled(id, to)
		b.Job(&k, kind, from, us).SetResults(j.Results, k.Results)
		return nil
	})
}

// takeLoss makes an event of a job without its file. If the payload is still there, the
// job stays and its file is written again.
func (q *Queue) takeLoss(id job.ID, st job.Status) error {
	path := q.dir.Path(st.String(), id.String())
	v, _ := q.ledger.View(id)
	j, err := q.content.Restored(id, &v)
	if err != nil {
		return err
	}
	kind, to := job.Update, st
	if _, err := q.dir.StatPayload(id, ""); errors.Is(err, fs.ErrNotExist) {
		kind, to = job.Cull, job.Status(0)
		q.svc.report(path, "job file and payload taken away by other hands; taken as "+kind.String())
	} else {
		q.svc.report(path, "job file lost; written again as far as the index knows the job")
	}
	return q.commit(func(b *ledger.Batch) error {
		k := j
		seq, us := b.Next()
		if to != 0 {
			kind = holdLost(&k, job.Instant(us))
			to = k.Status
		} else {
			k.Results = nil
		}
		k.Seq, k.Status = seq, to
		b.Index().SetFiled(id, 0)
		b.Job(&k, kind, st, us).SetResults(j.Results, k.Results)
		return nil
	})
}

// holdLost puts a job without its job file on hold, and returns the kind of the event. A job in
// work is pending then: its lease is lost, too, and nobody knows how many attempts it had.
func holdLost(j *job.Job, t time.Time) job.Kind {
	kind := job.Update
	if j.Status == job.Consumed && !j.Lease.Ends.IsZero() {
		kind = job.Requeue
		j.GoBack(t)
	}
	if j.Status == job.Pending && j.Held.IsZero() {
		j.Hold(t, lostFile, time.Time{})
	}
	return kind
}

// takeNew takes in a job brought by hand, by an event after number last.
func (q *Queue) takeNew(id job.ID, st job.Status, last job.Seq) error {
	j, _, err := q.dir.Filed(id, st)
	if err == nil {
		err = q.inReach(&j)
	}
	if err == nil {
		_, err = q.dir.StatPayload(id, "")
	}
	if content.Transient(err) {
		return err
	}
	if err != nil {
		return q.dir.SetAside(st, id.String(), err.Error())
	}
	q.svc.report(q.dir.Path(st.String(), id.String()), "brought by other hands; taken as "+job.Submit.String())
	r := &record.Record{Kind: job.Submit, To: st, Job: id,
		Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
	r.SetType(j.MediaType)
	q.sums(r, &j)
	return q.commit(func(b *ledger.Batch) error {
		x := b.Index()
		x.Skip(index.Numbers{Job: id, Seq: last})
		x.SetPayloadFiled(id)
		x.SetFiled(id, st)
		k := j
		k.Enter(st)
		r.Mark(&k)
		k.Seq, r.Time = b.Next()
		r.Seq = k.Seq
		r.SetText(k.AppendText(nil))
		r.SetResults(nil, k.Results)
		b.Add(r)
		return nil
	})
}

// maxGap is how many job numbers may be missing before a job brought by hand: the index
// has eight bytes for each page of them.
const maxGap = 1 << 32

// maxYears is how far ahead the dates of a job file may be: later dates count from
// them.
const maxYears = 10

// inReach refuses a job with a number so high that the index would fill the memory, or
// with an event after which none could follow.
func (q *Queue) inReach(j *job.Job) error {
	last := q.ledger.Numbers().Job
	switch {
	case j.ID > last+maxGap:
		return fmt.Errorf("its number is more than %d beyond the highest one, %v", uint64(maxGap), last)
	case j.Seq > job.MaxSeq:
		return fmt.Errorf("its sequence number %d is out of reach", j.Seq)
	case j.Modified().After(q.svc.opts.Now().AddDate(maxYears, 0, 0)):
		return fmt.Errorf("its dates are more than %d years ahead", maxYears)
	}
	return nil
}

// sums gives the record the digests of the payload in the job file. A job file of other
// hands may have no SHA-256: then it is computed.
func (q *Queue) sums(r *record.Record, j *job.Job) {
	r.Payload.MD5 = j.MD5()
	if sha, err := hex.DecodeString(j.Digest(digest.SHA256).Hex); err == nil && len(sha) == len(r.Payload.SHA256) {
		copy(r.Payload.SHA256[:], sha)
		return
	}
	n, sum, err := q.dir.SumPayload(r.Job)
	if err != nil {
		q.svc.report(q.dir.Path(dir.Payloads, r.Job.String()), err.Error())
		return
	}
	r.Payload.Size, r.Payload.SHA256 = n, sum
}
