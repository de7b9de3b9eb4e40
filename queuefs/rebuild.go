package queuefs

import (
	"errors"
	"io/fs"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// rebuild makes pages of the index from the directories, all pages if pages is nil: for a
// table that is lost or damaged, for one of its pages, for a queue in a directory that was
// brought, and for [Options.Rebuild]. The journal follows. The status is the one in the last
// line of a job file; if the directory says otherwise takeIn follows. The same holds for
// illegible files: a half rewritten file after a crash belongs to a job in the journal. Of jobs
// without a legible file, what former pages say is kept; former is nil if there are none.
func (q *Queue) rebuild(pages map[int]bool, former *index.Index) error {
	err := q.dir.Walk(pages, func(s dir.Standing) error {
		if s.Known.Status != 0 {
			return nil
		}
		j, text, err := q.dir.Filed(s.ID, s.Filed)
		if content.Transient(err) {
			return err
		}
		if err == nil {
			err = q.inReach(&j)
		}
		if err != nil {
			return q.recall(former, s.ID, s.Filed)
		}
		r := &record.Record{Kind: job.Update, To: j.Status, Seq: j.Seq, Time: j.Modified().UnixMicro(), Job: s.ID,
			Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
		q.sums(r, &j)
		q.know(r, &j, text, s.Filed)
		return nil
	})
	if former == nil || err != nil {
		return err
	}
	for n := range former.Pages() {
		var lacking []job.ID
		former.EachOf(n, func(id job.ID, _ index.Job) {
			if st, _ := q.ledger.Status(id); st == 0 {
				lacking = append(lacking, id)
			}
		})
		for _, id := range lacking {
			_, err := q.dir.StatPayload(id, "")
			if err == nil {
				err = q.recall(former, id, 0)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// know takes a job into the index that has no record in the journal. Its job file is in st, 0
// for nowhere.
func (q *Queue) know(r *record.Record, j *job.Job, text []byte, st job.Status) {
	r.Mark(j)
	r.SetType(j.MediaType)
	r.SetText(text)
	change := r.Change(0, false)
	q.ledger.Note(func(x *index.Index) {
		x.Apply(&change)
		x.SetPayloadFiled(r.Job)
		x.SetFiled(r.Job, st)
		x.LastSubmit = max(x.LastSubmit, r.Payload.Submitted)
		if !j.Consumed.IsZero() {
			x.LastConsume = max(x.LastConsume, j.Consumed.UnixMicro())
		}
	})
}

// recall keeps what former pages say of a job. Its job file is in st, 0 for nowhere.
func (q *Queue) recall(former *index.Index, id job.ID, st job.Status) error {
	if former == nil {
		return nil
	}
	known, ok := former.Job(id)
	if !ok {
		return nil
	}
	j, err := q.content.Restored(id, &ledger.View{Job: known})
	if err != nil {
		return err
	}
	j.Seq = former.Version(id)
	q.know(&record.Record{Kind: job.Update, To: j.Status, Seq: j.Seq, Time: known.Changed, Job: id,
		Payload: record.Payload{Size: known.Size, Submitted: known.Submitted, SHA256: known.SHA256, MD5: known.MD5}}, &j, j.AppendText(nil), st)
	return nil
}
