package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A Submission is a group of jobs on its way into a queue: committed as a
// whole, or discarded. It is for one goroutine.
type Submission struct {
	to      *Queue
	uploads []*Upload // nil where nothing was put yet
	first   Upload    // most have one job
	budget  budget
	said    int // bytes of descriptions
	group   bool
	done    bool
	former  job.ID // see Replace; 0: none
	key     string // see Key
	again   bool   // see Again
	admit   Admission

	digests digest.Set // wanted by the queue
	verify  bool       // the queue verifies on write
}

// Begin starts a submission. Call Commit or Discard in the end.
//
// The payload of each job is an [Upload], hashed on its way. Commit asks for the limits of
// the user, puts large payloads on stable storage, asks for space, and then appends the
// records of all jobs to the journal at once. A [Submission] is written one job after the
// other, and one of [Queue.Assemble] in any order. A request with a key may come again:
// jobs that are in the queue by their keys are returned in the place of new ones.
func (q *Queue) Begin() *Submission {
	rules := q.info()
	return &Submission{to: q, digests: rules.Digests, verify: rules.VerifyOnWrite,
		budget: budget{inline: q.svc.shared.Inline, free: q.svc.shared.MaxAppend / 2, spool: q.svc.spool}}
}

// An Admission may refuse new jobs: bytes are those of their payloads. done is called
// after the commit.
type Admission func(jobs, bytes int64) (done func(), err error)

// Admit lets Commit ask for admission of the jobs that are not in the queue yet.
func (s *Submission) Admit(a Admission) { s.admit = a }

// Memory makes the submission take its payloads in memory, and its buffers, from the
// account of a request. It is called before Add.
func (s *Submission) Memory(a *buffers.Account) { s.budget.memory = a }

// Key gives the submission a key, unless it is "": a single job has it as the Key of its
// [job.Meta], and job n, from 1 on, of several ones has KEY#n. Jobs may have keys of their
// own instead.
//
// Each owner has keys of his own. A job of the same key, owner and payload that is in the
// queue is returned by Commit in the place of a new one. If the payload differs, or the number
// of jobs of the submission, the error is [ErrKeyUsed] and names the job. Two submissions with
// one key come one after the other; a long wait for the first one ends in [ErrKeyBusy].
func (s *Submission) Key(key string) { s.key = key }

// Again reports, after Commit, whether all of its jobs were in the queue before.
func (s *Submission) Again() bool { return s.again }

// Group makes the jobs of the submission a batch: jobs without a name of a
// batch get one in common; see [job.BatchName].
func (s *Submission) Group() { s.group = true }

// Replace makes the submission take the place of a job on hold for
// [job.NotStarted]. One commit makes the old job Deleted, and it and the first job
// of the submission name each other as in [Queue.RequeueEnd]. If the old job
// was started or deleted meanwhile, Commit changes nothing and returns
// [job.ErrConflict] or [job.ErrNotPending].
func (s *Submission) Replace(id job.ID) { s.former = id }

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

// errOver is the error of a submission or a result that was committed or discarded.
var errOver = errors.New("upload is over")

// Add starts the next job, and ends the payload of the one before. The error
// names the fault in m.
func (s *Submission) Add(m job.Meta) (*Upload, error) {
	if s.done {
		return nil, errOver
	}
	if err := cmp.Or(m.Check(), s.to.original.Refuse()); err != nil {
		return nil, err
	}
	if s.said += 1024 + len(m.Sidecar); s.said > s.to.svc.shared.MaxAppend {
		return nil, fmt.Errorf("%w: submission of more than %d jobs", job.ErrTooBig, len(s.uploads))
	}
	if n := len(s.uploads); n > 0 {
		if err := s.uploads[n-1].end(); err != nil {
			return nil, ledger.StorageError(err)
		}
	}
	d := &s.first
	if d.sub != nil {
		d = new(Upload)
	}
	d.sub, d.meta = s, m
	d.begin(&s.budget)
	d.hash(d.kinds())
	s.uploads = append(s.uploads, d)
	return d, nil
}

// Assemble starts a batch of n jobs, put in any order by [Submission.Put].
func (q *Queue) Assemble(n int) *Submission {
	s := q.Begin()
	s.uploads = make([]*Upload, n)
	s.Group()
	return s
}

// Put moves the one job of part, a submission to the same queue, to number i of a batch of
// [Queue.Assemble], from 0 on, and ends part. The batch needs no more memory than one
// written in order. If the payload has not the digests it should have, the error is
// [digest.ErrMismatch]; after any error part is to be discarded.
func (s *Submission) Put(i int, part *Submission) error {
	switch {
	case s.done || part.done:
		return errOver
	case part.to != s.to || len(part.uploads) != 1 || s.uploads[i] != nil:
		return fmt.Errorf("number %d is not for this submission", i)
	}
	d := part.uploads[0]
	if err := d.Verify(); err != nil {
		return err
	}
	said := s.said + 1024 + len(d.meta.Sidecar)
	if said > s.to.svc.shared.MaxAppend {
		return fmt.Errorf("%w: batch of %d jobs", job.ErrTooBig, len(s.uploads))
	}
	if err := d.move(&s.budget); err != nil {
		return err
	}
	s.said = said
	d.sub, s.uploads[i] = s, d
	part.uploads, part.done = nil, true
	return nil
}

// Commit puts all jobs of the submission at the end of the queue, in the order
// they were added, or none of them (Cutie 0.3, 5.5). They are on stable storage
// when it returns; if the queue verifies on write, the payloads were read again and
// compared. Errors are digest.ErrMismatch, job.ErrTooBig, ledger.ErrNoSpace, ErrRefusing,
// ledger.ErrNoQueue, ledger.ErrFailed, ledger.ErrClosed, that of ctx, and those of Replace
// and of keys; see [Submission.Key].
func (s *Submission) Commit(ctx context.Context) ([]job.Job, error) {
	if s.done {
		return nil, errOver
	}
	if len(s.uploads) == 0 {
		return nil, errors.New("submission has no jobs")
	}
	if slices.Contains(s.uploads, nil) {
		return nil, errors.New("batch is not complete")
	}
	var jobs []job.Job
	var err error
	if s.hasKeys() {
		jobs, err = s.storeOnce(ctx)
	} else {
		jobs, err = s.store(ctx, s.uploads)
	}
	s.discard(err != nil)
	return jobs, err
}

// hasKeys reports whether the submission or one of its jobs has a key.
func (s *Submission) hasKeys() bool {
	return s.key != "" || slices.ContainsFunc(s.uploads, func(d *Upload) bool { return d.meta.Key != "" })
}

// store is Commit of some of the uploads.
func (s *Submission) store(ctx context.Context, uploads []*Upload) ([]job.Job, error) {
	jobs := make([]job.Job, len(uploads))
	total, bytes := 0, int64(0)
	for i, d := range uploads {
		if err := d.describe(&jobs[i]); err != nil {
			return nil, err
		}
		total += len(d.buf) + 1024 + len(d.meta.Sidecar)
		bytes += d.Size()
	}
	if total > s.to.svc.shared.MaxAppend {
		return nil, fmt.Errorf("%w: submission of %d jobs", job.ErrTooBig, len(jobs))
	}
	if s.admit != nil {
		done, err := s.admit(int64(len(jobs)), bytes)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if err := s.secure(ctx, uploads); err != nil {
		return nil, err
	}
	if s.to.ledger.Settings().Rules().Closed && s.former == 0 {
		return nil, fmt.Errorf("%s: %w", s.to.ID(), ErrRefusing)
	}
	if err := s.to.makeRoom(ctx, len(jobs), int64(total)); err != nil {
		return nil, err
	}
	var former *job.Job
	if s.former != 0 {
		j, err := s.to.claimNotStarted(ctx, s.former)
		if err != nil {
			return nil, err
		}
		former = &j
	}
	err := s.to.commit(func(b *ledger.Batch) error { return s.build(b, uploads, jobs, former) })
	if err != nil {
		if s.former != 0 {
			s.to.ledger.Release(s.former)
		}
		return nil, err
	}
	return jobs, nil
}

// secure puts large payloads on stable storage before the journal speaks of them, and
// reads them again if the queue verifies on write.
func (s *Submission) secure(ctx context.Context, uploads []*Upload) error {
	var files []*Upload
	for _, d := range uploads {
		if d.file != nil {
			files = append(files, d)
		}
	}
	if len(files) == 0 {
		return nil
	}
	put, sync := (*durable.Spool).Sync, s.to.svc.dirs.temp.Sync
	if len(files) > 8 {
		put, sync = (*durable.Spool).Park, s.to.svc.dirs.temp.SyncFS // one sync for all
	}
	for _, d := range files {
		if err := put(d.file); err != nil {
			return ledger.StorageError(err)
		}
	}
	if err := sync(); err != nil {
		return ledger.StorageError(err)
	}
	for _, d := range files {
		if err := d.keep(ctx); err != nil {
			return err
		}
	}
	for _, d := range files {
		if !s.verify {
			break
		}
		if err := d.readBack(); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom holds a submission back while the files are too far behind. When
// they cannot be written for lack of space it is refused.
func (q *Queue) makeRoom(ctx context.Context, n int, bytes int64) error {
	if err := q.catchUp(ctx, n); err != nil {
		return err
	}
	return q.svc.makeFit(n, bytes)
}

// catchUp writes as many files as n jobs cause if the files are behind,
// and waits while they are too far behind.
func (q *Queue) catchUp(ctx context.Context, n int) error {
	s := q.svc
	if s.space.Full() {
		return ledger.ErrNoSpace
	}
	q.assist(n)
	for s.space.TooFar() {
		if !s.space.InTime() {
			return ledger.ErrClosed
		}
		if s.space.Full() {
			return ledger.ErrNoSpace
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.checkpointIfTooFar(); err != nil {
			return err
		}
	}
	return nil
}

// makeFit returns [ledger.ErrNoSpace] unless there is free space for the files of n jobs with
// so many bytes. If few files are to be written it writes them first: then their true
// size is known.
func (s *Service) makeFit(n int, bytes int64) error {
	if s.space.Fits(n, bytes) {
		return nil
	}
	if s.space.Hopeless() {
		return ledger.ErrNoSpace
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if s.space.Fits(n, bytes) {
		return nil
	}
	if err := s.shed(); err != nil {
		return ledger.StorageError(err)
	}
	if err := s.checkpointLocked(allFiles); err != nil && !errors.Is(err, ledger.ErrNoSpace) {
		return err
	}
	if s.space.Fits(n, bytes) {
		return nil
	}
	s.space.NoGrowth()
	return ledger.ErrNoSpace
}

// commit is [ledger.Ledger.Commit] for a queue that is no mirror.
func (q *Queue) commit(build func(b *ledger.Batch) error) error {
	return q.record(func(b *ledger.Batch) error {
		if err := q.original.Refuse(); err != nil {
			return err
		}
		return build(b)
	})
}

// record is [ledger.Ledger.Commit]. Without storage for the records it makes some by a
// checkpoint.
func (q *Queue) record(build func(b *ledger.Batch) error) error {
	if err := q.svc.begin(); err != nil {
		return err
	}
	defer q.svc.end()
	for {
		err := q.ledger.Commit(build)
		var reserve *ledger.ReserveError
		if !errors.As(err, &reserve) {
			return err
		}
		full := errors.Is(err, ledger.ErrNoSpace)
		if full && q.svc.relieve() {
			continue
		}
		if full {
			q.svc.space.NoGrowth() // Maintain makes some
		}
		return reserve.Err
	}
}

// build makes the records of jobs, and of the former job whose place they take; nil: of
// none.
func (s *Submission) build(b *ledger.Batch, uploads []*Upload, jobs []job.Job, former *job.Job) error {
	batch := ""
	if s.group {
		batch = job.BatchName(b.Index().Minted().Job+1, len(jobs))
	}
	for i := range jobs {
		j, r := &jobs[i], &uploads[i].rec
		if j.Batch = uploads[i].meta.Batch; j.Batch == "" {
			j.Batch = batch
		}
		number, err := s.to.mint(b)
		if err != nil {
			return err
		}
		var seq job.Seq
		seq, r.Time = b.Next()
		uploads[i].meta.Start(j, number, seq, job.Instant(r.Time))
		r.Seq, r.Job, r.Payload.Submitted = seq, number, r.Time
		if i == 0 && former != nil {
			j.Extra = job.With(j.Extra, job.RequeuedFrom, s.former.String())
		}
		r.Mark(j)
		r.SetText(j.AppendText(make([]byte, 0, 640+len(j.Sidecar))))
		r.Payload.Data = uploads[i].buf
		b.Add(r)
	}
	if former == nil {
		return nil
	}
	k := *former
	seq, us := b.Next()
	k.Seq = seq
	k.Delete(job.Instant(us))
	k.GiveWay(jobs[0].ID)
	b.Job(&k, job.Delete, job.Pending, us)
	return nil
}

// mint gives out the next job number.
func (q *Queue) mint(b *ledger.Batch) (job.ID, error) {
	number, ok := b.Index().MintJob()
	if !ok {
		return 0, fmt.Errorf("%w: queue %s has given out all job identifiers", ledger.ErrNoSpace, q.ID())
	}
	return number, nil
}

// claimNotStarted takes a job waiting for its submitter, and reads it.
func (q *Queue) claimNotStarted(ctx context.Context, id job.ID) (job.Job, error) {
	st, err := q.ledger.Claim(ctx, id, 0)
	if err != nil {
		return job.Job{}, err
	}
	j, err := q.content.Job(id)
	switch {
	case err == nil && st != job.Pending:
		err = job.Misplaced(id, st, job.ErrNotPending)
	case err == nil && j.HeldFor != job.NotStarted:
		err = fmt.Errorf("%v: %w: its submitter has started it", id, job.ErrConflict)
	}
	if err != nil {
		q.ledger.Release(id)
	}
	return j, err
}

// Discard lets go of the submission. After Commit it does nothing.
func (s *Submission) Discard() { s.discard(true) }

func (s *Submission) discard(remove bool) {
	if s.done {
		return
	}
	s.done = true
	for _, d := range s.uploads {
		if d == nil {
			continue
		}
		temp := d.temp()
		d.close()
		if remove || d.known {
			s.to.svc.dropTemp(temp)
		}
	}
}
