package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/retention"
	"cutie/queuefs/upload"
)

// A Submission is a group of jobs on its way into a queue: committed as a
// whole, or discarded. It is for one goroutine.
type Submission struct {
	q       *Queue
	uploads []*Upload
	budget  upload.Budget
	said    int // bytes of descriptions
	group   bool
	done    bool
	former  JobID  // see Replace; 0: none
	key     string // see Key
	again   bool   // see Again
	admit   Admission

	digests digest.Set // wanted by the queue
	verify  bool       // the queue verifies on write
	taken   bool       // see Accepted
}

// An Admission may refuse new jobs: bytes are those of their payloads. done is called
// after the commit.
type Admission func(jobs, bytes int64) (done func(), err error)

// Admit lets Commit ask for admission of the jobs that are not in the queue yet.
func (s *Submission) Admit(a Admission) { s.admit = a }

var errOver = errors.New("submission is over")

// Begin starts a submission. Call Commit or Discard in the end.
func (q *Queue) Begin() *Submission {
	return &Submission{q: q, digests: q.info().Digests, verify: q.info().VerifyOnWrite,
		budget: upload.Budget{Inline: q.svc.shared.Inline, Free: q.svc.shared.MaxAppend / 2, Spool: q.svc.spool}}
}

// Memory makes the submission take its payloads in memory, and its buffers, from the
// account of a request. It is called before Add.
func (s *Submission) Memory(a *buffers.Account) { s.budget.Memory = a }

// Group makes the jobs of the submission a batch: jobs without a name of a
// batch get one in common; see [ParseBatch].
func (s *Submission) Group() { s.group = true }

// Replace makes the submission take the place of a job on hold for
// [NotStarted]. One commit makes the old job Deleted, and it and the first job
// of the submission name each other as in [Queue.RequeueEnd]. If the old job
// was started or deleted meanwhile, Commit changes nothing and returns
// [ErrConflict] or [ErrNotPending].
func (s *Submission) Replace(id JobID) { s.former, s.taken = id, true }

// NotBefore puts the jobs added so far on hold until t; they are released at once if
// t is past.
func (s *Submission) NotBefore(t time.Time) error {
	for _, d := range s.uploads {
		m := d.meta
		m.NotBefore = t
		if err := d.SetMeta(m); err != nil {
			return err
		}
	}
	return nil
}

// Accepted says: the jobs were accepted before, so a closed queue takes them.
func (s *Submission) Accepted() { s.taken = true }

// Add starts the next job, and ends the payload of the one before. The error
// names the fault in m.
func (s *Submission) Add(m Meta) (*Upload, error) {
	if s.done {
		return nil, errOver
	}
	if err := cmp.Or(m.Check(), s.q.original.Refuse()); err != nil {
		return nil, err
	}
	if s.said += 1024 + len(m.Sidecar); s.said > s.q.svc.shared.MaxAppend {
		return nil, fmt.Errorf("%w: submission of more than %d jobs", ErrTooBig, len(s.uploads))
	}
	if n := len(s.uploads); n > 0 {
		if err := s.uploads[n-1].up.End(); err != nil {
			return nil, storageError(err)
		}
	}
	d := &Upload{sub: s, meta: m, up: upload.New(&s.budget)}
	s.uploads = append(s.uploads, d)
	return d, nil
}

// Commit puts all jobs of the submission at the end of the queue, in the order
// they were added, or none of them (Cutie 0.3, 5.5). They are on stable storage
// when it returns; if the queue verifies on write, the payloads were read again and
// compared. Errors are ErrDigest, ErrTooBig, ErrNoSpace, ErrRefusing,
// ErrNoQueue, ErrFailed, ErrClosed, that of ctx, and those of Replace
// and of keys; see [Submission.Key].
func (s *Submission) Commit(ctx context.Context) ([]Job, error) {
	if s.done {
		return nil, errOver
	}
	if len(s.uploads) == 0 {
		return nil, errors.New("submission has no jobs")
	}
	jobs, err := s.commit(ctx)
	s.discard(err != nil)
	return jobs, err
}

// store is Commit of some of the uploads.
func (s *Submission) store(ctx context.Context, uploads []*Upload) ([]Job, error) {
	q := s.q
	jobs := make([]Job, len(uploads))
	recs := make([]*record.Record, len(uploads))
	total, bytes := 0, int64(0)
	for i, d := range uploads {
		if err := d.err(); err != nil {
			return nil, err
		}
		r := &record.Record{Kind: Submit, To: Pending, Verify: s.verify, Payload: record.Payload{Size: d.up.Size(), MediaType: d.meta.MediaType}}
		digests, err := d.digests()
		if err != nil {
			return nil, err
		}
		r.Payload.SHA256 = d.up.SHA256()
		if d.up.Temp() == "" {
			r.Flags = record.Inline
		} else {
			r.Flags, r.Temp = record.InTemp, d.up.Temp()
		}
		m := &d.meta
		m.Extra = job.MarkGiven(m.Extra, digests[1+len(d.kinds()):])
		if retention.Micros(m.NotBefore) <= q.svc.now() {
			m.NotBefore = time.Time{} // its time has come
		}
		jobs[i] = m.Job()
		jobs[i].Queue, jobs[i].Size, jobs[i].Digests = q.ID(), d.up.Size(), digests
		jobs[i].Extra = m.Extra
		r.Payload.MD5 = jobs[i].MD5()
		recs[i] = r
		total += len(d.up.Data()) + 1024 + len(m.Sidecar)
		bytes += d.Size()
	}
	if total > q.svc.shared.MaxAppend {
		return nil, fmt.Errorf("%w: submission of %d jobs", ErrTooBig, len(jobs))
	}
	if s.admit != nil {
		done, err := s.admit(int64(len(jobs)), bytes)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if err := s.syncTemps(ctx, uploads); err != nil {
		return nil, err
	}
	for _, d := range uploads {
		if !s.verify {
			break
		}
		if err := d.readBack(); err != nil {
			return nil, err
		}
	}
	if q.info().Closed && !s.taken {
		return nil, fmt.Errorf("%s: %w", q.ID(), ErrRefusing)
	}
	if err := q.svc.admit(ctx, q, len(jobs), int64(total)); err != nil {
		return nil, err
	}
	var former Job
	var err error
	if s.former != 0 {
		if former, err = q.claimNotStarted(ctx, s.former); err != nil {
			return nil, err
		}
	}
	err = q.commit(func(b *ledger.Batch) error {
		batch := ""
		if s.group {
			batch = job.BatchName(b.Index().Minted().Job+1, len(jobs))
		}
		for i := range jobs {
			j, r := &jobs[i], recs[i]
			if j.Batch = uploads[i].meta.Batch; j.Batch == "" {
				j.Batch = batch
			}
			number, ok := b.Index().MintJob()
			if !ok {
				return q.numberless()
			}
			var seq Seq
			seq, r.Time = b.Next()
			uploads[i].meta.Start(j, number, seq, micro(r.Time))
			r.Seq, r.Job, r.Payload.Submitted = seq, number, r.Time
			if i == 0 && s.former != 0 {
				j.Extra = job.With(j.Extra, job.RequeuedFrom, s.former.String())
			}
			r.Mark(j)
			r.SetText(j.AppendText(make([]byte, 0, 640+len(j.Sidecar))))
			r.Payload.Data = uploads[i].up.Data()
			b.Add(r)
		}
		if s.former == 0 {
			return nil
		}
		k := former
		seq, us := b.Next()
		k.Seq = seq
		k.Delete(micro(us))
		k.GiveWay(jobs[0].ID)
		b.Job(&k, Delete, Pending, us)
		return nil
	})
	if err != nil {
		if s.former != 0 {
			q.ledger.Release(s.former)
		}
		return nil, err
	}
	return jobs, nil
}

// claimNotStarted takes a job waiting for its submitter, and reads it.
func (q *Queue) claimNotStarted(ctx context.Context, id JobID) (Job, error) {
	st, err := q.ledger.Claim(ctx, id, 0)
	if err != nil {
		return Job{}, err
	}
	j, err := q.Job(id)
	switch {
	case err == nil && st != Pending:
		err = misplaced(id, st, ErrNotPending)
	case err == nil && j.HeldFor != NotStarted:
		err = fmt.Errorf("%v: %w: its submitter has started it", id, ErrConflict)
	}
	if err != nil {
		q.ledger.Release(id)
	}
	return j, err
}

// syncTemps puts large payloads on stable storage before the journal speaks
// of them.
func (s *Submission) syncTemps(ctx context.Context, uploads []*Upload) error {
	files := 0
	for _, d := range uploads {
		if d.up.Temp() != "" {
			files++
		}
	}
	if files == 0 {
		return nil
	}
	tmp := s.q.svc.dirs.temp
	for _, d := range uploads {
		if d.up.Temp() == "" {
			continue
		}
		err := error(nil)
		if files > 8 {
			err = d.up.Park() // one sync for all follows
		} else {
			err = d.up.Sync()
		}
		if err != nil {
			return storageError(err)
		}
	}
	sync := tmp.Sync
	if files > 8 {
		sync = tmp.SyncFS
	}
	err := sync()
	for _, d := range uploads {
		if err == nil && d.up.Temp() != "" {
			err = s.q.svc.stored.Keep(ctx, d.up.Temp())
		}
	}
	return storageError(err)
}

// Discard lets go of the submission. After Commit it does nothing.
func (s *Submission) Discard() { s.discard(true) }

func (s *Submission) discard(remove bool) {
	if s.done {
		return
	}
	s.done = true
	for _, d := range s.uploads {
		// After a failed commit the journal may speak of the file all the same;
		// opening the home settles it.
		temp := d.up.Temp()
		d.up.Close()
		if temp != "" && (remove || d.known) && s.q.svc.Err() == nil {
			s.q.svc.dirs.temp.Remove(temp)
		}
	}
}
