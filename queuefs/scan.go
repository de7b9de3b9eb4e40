package queuefs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
)

// list returns the status of the wanted jobs by the directories of their job files.
func (q *Queue) list(wanted func(JobID) bool) (map[JobID]Status, error) {
	return q.tree.JobFiles(wanted, func(text []byte) Seq {
		j, err := ParseJob(text)
		if err != nil {
			return 0
		}
		return j.Seq
	})
}

// scan makes pages of the index from job files. The status is the one in the
// last line of the file; if the directory says otherwise reconcile follows. The
// same holds for illegible files: a half rewritten file after a crash belongs
// to a job in the journal.
func (q *Queue) scan(pages map[int]bool) error {
	where, err := q.list(func(id JobID) bool { return pages == nil || pages[int(id/PageJobs)] })
	if err != nil {
		return err
	}
	ids := make([]JobID, 0, len(where))
	for id := range where {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		j, text, err := q.readJob(id, where[id])
		if transient(err) {
			return err
		}
		if err == nil {
			err = q.inReach(&j)
		}
		if err != nil {
			continue
		}
		r := &record.Record{Kind: Update, To: j.Status, Seq: j.Seq, Time: j.Modified().UnixMicro(), Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
		r.Mark(&j)
		r.SetType(j.MediaType)
		r.SetText(text)
		q.payloadSums(r, &j)
		c := r.Change(0, false)
		q.idx.Apply(&c)
		q.idx.SetPayloadFiled(id)
		q.idx.SetFiled(id, where[id])
		q.idx.LastSubmit = max(q.idx.LastSubmit, r.Payload.Submitted)
		if !j.Consumed.IsZero() {
			q.idx.LastConsume = max(q.idx.LastConsume, j.Consumed.UnixMicro())
		}
	}
	return nil
}

// readJob reads a job file where it stands.
func (q *Queue) readJob(id JobID, st Status) (Job, []byte, error) {
	text, err := q.tree.JobFile(id, st, nil)
	if err != nil {
		return Job{}, nil, err
	}
	j, err := ParseJob(text)
	if err == nil && j.ID != id {
		err = fmt.Errorf("it speaks of %s", j.ID)
	}
	return j, text, err
}

// payloadSums gives the record the digests of the payload in the job file. A job
// file of other hands may have no SHA-256: then it is computed.
func (q *Queue) payloadSums(r *record.Record, j *Job) {
	r.Payload.MD5 = j.MD5()
	if sha, err := hex.DecodeString(j.Digest(digest.SHA256).Hex); err == nil && len(sha) == len(r.Payload.SHA256) {
		copy(r.Payload.SHA256[:], sha)
		return
	}
	n, sum, err := q.tree.SumPayload(r.Job)
	if err != nil {
		q.svc.report(Problem{Path: q.tree.Path(tree.Payloads, r.Job.String()), Text: err.Error()})
		return
	}
	r.Payload.Size, r.Payload.SHA256 = n, sum
}

// reconcile makes events of an operator's work while nobody had the home open:
// a job file moved, brought, or taken away. For jobs with files behind the
// journal, the journal rules. Losses of the journal for a fresh queue come in
// the same way; the new events go on after the ones in the files.
func (q *Queue) reconcile(fresh bool) error {
	where, err := q.list(func(id JobID) bool {
		j, _ := q.idx.Known(id)
		return !j.Behind
	})
	if err != nil {
		return err
	}
	for n := range q.Pages() {
		entries, _, _ := q.Page(n, nil)
		for _, e := range entries {
			st, there := where[e.Job]
			j, _ := q.idx.Job(e.Job)
			delete(where, e.Job)
			switch {
			case there && st == e.Status || j.Behind:
			case there:
				err = q.takeMove(e.Job, e.Status, st)
			default:
				err = q.takeLoss(e)
			}
			if err != nil {
				return err
			}
		}
	}
	ids := make([]JobID, 0, len(where))
	for id := range where {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var last Seq
	for i := 0; fresh && i < len(ids); i++ {
		j, _, err := q.readJob(ids[i], where[ids[i]])
		if transient(err) {
			return err
		}
		if err == nil && q.inReach(&j) == nil {
			last = max(last, j.Seq)
		}
	}
	for _, id := range ids {
		if err := q.takeNew(id, where[id], last); err != nil {
			return err
		}
	}
	return nil
}

// maxGap is how many job numbers may be missing before a job brought by hand:
// the index has eight bytes for each page of them.
const maxGap = 1 << 32

// maxYears is how far ahead the dates of a job file may be: later dates count from
// them.
const maxYears = 10

// inReach refuses a job with a number so high that the index would fill the
// memory, or with an event after which none could follow.
func (q *Queue) inReach(j *Job) error {
	switch {
	case j.ID > q.idx.Minted().Job+maxGap:
		return fmt.Errorf("its number is more than %d beyond the highest one, %v", uint64(maxGap), q.idx.Minted().Job)
	case j.Seq > job.MaxSeq:
		return fmt.Errorf("its sequence number %d is out of reach", j.Seq)
	case j.Modified().After(q.svc.opts.Now().AddDate(maxYears, 0, 0)):
		return fmt.Errorf("its dates are more than %d years ahead", maxYears)
	}
	return nil
}

// takeMove makes an event of a moved job file.
func (q *Queue) takeMove(id JobID, from, to Status) error {
	j, _, err := q.readJob(id, to)
	if transient(err) {
		return err
	}
	if err != nil {
		if err := q.tree.SetAside(to, id.String(), err.Error()); err != nil {
			return err
		}
		v, _ := q.view(id)
		j = q.restored(id, &v)
	}
	kind := Update
	switch {
	case to == Pending:
		kind = Requeue
	case from == Pending && to == Consumed:
		kind = Consume
	case from == Pending && to == Deleted:
		kind = Delete
	}
	q.svc.report(Problem{Path: q.tree.Path(to.String(), id.String()), Text: "moved here from " + from.String() + " by other hands; taken as " + kind.String()})
	return q.commit(func() ([]*record.Record, error) {
		k := j
		seq, us := q.next()
		t := micro(us)
		k.Seq = seq
		switch to {
		case Pending:
			k.GoBack(t)
		case Consumed:
			k.Enter(Consumed)
			k.Consumed = t
		case Deleted:
			k.Delete(t)
		}
		q.idx.SetFiled(id, to)
		return []*record.Record{q.recordOf(&k, kind, from, us)}, nil
	})
}

// takeLoss makes an event of a job without its file. If the payload is still
// there, the job stays and its file is written again.
func (q *Queue) takeLoss(e Entry) error {
	path := q.tree.Path(e.Status.String(), e.Job.String())
	v, _ := q.view(e.Job)
	j := q.restored(e.Job, &v)
	kind, to := Update, e.Status
	if _, err := q.tree.StatPayload(e.Job, ""); errors.Is(err, fs.ErrNotExist) {
		kind, to = Cull, Status(0)
		q.svc.report(Problem{Path: path, Text: "job file and payload taken away by other hands; taken as " + kind.String()})
	} else {
		q.svc.report(Problem{Path: path, Text: "job file lost; written again as far as the index knows the job"})
	}
	return q.commit(func() ([]*record.Record, error) {
		k := j
		seq, us := q.next()
		k.Seq, k.Status = seq, to
		q.idx.SetFiled(e.Job, 0)
		r := q.recordOf(&k, kind, e.Status, us)
		return []*record.Record{r}, nil
	})
}

// takeNew takes in a job brought by hand, by an event after number last.
func (q *Queue) takeNew(id JobID, st Status, last Seq) error {
	j, _, err := q.readJob(id, st)
	if transient(err) {
		return err
	}
	if err == nil {
		err = q.inReach(&j)
	}
	if err == nil {
		_, err = q.tree.StatPayload(id, "")
	}
	if err != nil {
		return q.tree.SetAside(st, id.String(), err.Error())
	}
	q.svc.report(Problem{Path: q.tree.Path(st.String(), id.String()), Text: "brought by other hands; taken as " + Submit.String()})
	r := &record.Record{Kind: Submit, To: st, Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
	r.SetType(j.MediaType)
	q.payloadSums(r, &j)
	return q.commit(func() ([]*record.Record, error) {
		q.idx.Skip(index.Numbers{Job: id, Seq: last})
		q.idx.SetPayloadFiled(id)
		q.idx.SetFiled(id, st)
		k := j
		k.Enter(st)
		r.Mark(&k)
		k.Seq, r.Time = q.next()
		r.Seq = k.Seq
		r.SetText(k.AppendText(nil))
		return []*record.Record{r}, nil
	})
}
