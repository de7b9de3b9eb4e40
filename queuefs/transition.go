package queuefs

import (
	"errors"
	"slices"
	"time"

	"cutie/queuefs/journal"
	"cutie/queuefs/record"
)

// transition journals one event of kind for each of the claimed jobs. edit gets
// the present job and makes the change. Jobs with files too large for one
// record are given back, the last ones first.
func (q *Queue) transition(ids []JobID, kind Kind, to Status, edit func(j *Job, t time.Time)) ([]Job, error) {
	return q.change(ids, func(j *Job, t time.Time) (Kind, error) {
		j.Status = to
		edit(j, t)
		return kind, nil
	})
}

// change is transition for edits that decide the event: kind 0 leaves the job
// as it is, and an error of one leaves them all. edit runs with q.mu held, and
// again from the start when the journal was not ready; it must not write to
// slices of a Job.
func (q *Queue) change(ids []JobID, edit func(j *Job, t time.Time) (Kind, error)) ([]Job, error) {
	jobs, _, err := q.fetch(ids, false)
	if err != nil {
		q.release(ids...)
		return nil, err
	}
	return q.enact(jobs, edit)
}

// enact is change for jobs already read. It returns all of them in their order,
// or, if they are too many for one record, the first ones and gives the others
// back.
func (q *Queue) enact(from []Job, edit func(j *Job, t time.Time) (Kind, error)) ([]Job, error) {
	jobs := slices.Clone(from)
	ids := make([]JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	var recs []*record.Record
	var still []JobID // as they were
	err := q.commit(func() ([]*record.Record, error) {
		recs, still = make([]*record.Record, 0, len(jobs)), nil
		for i := range jobs {
			jobs[i] = from[i]
			j, before := &jobs[i], q.idx.Minted()
			seq, us := q.next()
			kind, err := edit(j, micro(us))
			switch {
			case err != nil:
				return nil, err
			case kind == 0:
				jobs[i] = from[i]
				q.idx.Unmint(before)
				still = append(still, j.ID)
				continue
			}
			j.Seq = seq
			recs = append(recs, q.recordOf(j, kind, from[i].Status, us))
		}
		return recs, nil
	})
	if half := len(ids) / 2; half > 0 && errors.Is(err, journal.ErrTooLarge) {
		q.release(ids[half:]...)
		return q.enact(from[:half], edit)
	}
	if err != nil {
		q.release(ids...)
		return nil, err
	}
	if len(still) > 0 {
		q.release(still...)
	}
	return jobs, nil
}

// recordOf returns the journal record with the state j; the facts of the
// payload are from the index. q.mu is held.
func (q *Queue) recordOf(j *Job, kind Kind, from Status, us int64) *record.Record {
	r := &record.Record{Kind: kind, From: from, Seq: j.Seq, Time: us, Job: j.ID, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
	r.Mark(j)
	r.SetType(j.MediaType)
	r.Sums(q.idx, j.ID)
	r.SetText(j.AppendText(make([]byte, 0, 640+len(j.Sidecar))))
	return r
}
