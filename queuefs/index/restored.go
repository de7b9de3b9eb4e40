package index

import (
	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// Restored returns the job as far as the index knows it, for a lost job file. Nobody can
// prove the possession of its lease, so the lease is over.
func (j *Job) Restored(id job.ID) job.Job {
	r := job.Job{ID: id, Status: j.Status, MediaType: j.MediaType, Size: j.Size, Submitted: job.Instant(j.Submitted),
		Digests: []digest.Value{digest.NewValue(digest.SHA256, j.SHA256[:])},
		Extra:   anvl.Record{{Name: "note", Value: job.LostNote}}}
	if j.MD5 != ([16]byte{}) {
		r.Digests = append(r.Digests, digest.NewValue(digest.MD5, j.MD5[:]))
	}
	at := job.Instant(j.Changed)
	switch j.Status {
	case job.Pending:
		if j.Held {
			r.Held = at
			if j.HoldEnds != 0 {
				r.HeldUntil = job.Instant(j.HoldEnds)
			}
		}
	case job.Consumed:
		r.Consumed = at
		if j.Leased {
			r.Lease.Ends = at
		}
	case job.Deleted:
		r.Deleted = at
	}
	if r.Outcome = j.Outcome; r.Outcome != 0 {
		r.Finished = at
	}
	return r
}
