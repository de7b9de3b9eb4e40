package queuefs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/upload"
)

var errOver = errors.New("submission is over")

// Begin starts a submission. Call Commit or Discard in the end.
//
// The payload of each job is an [Upload], hashed on its way. Commit asks for the limits of
// the user, puts large payloads on stable storage, asks for space, and then appends the
// records of all jobs to the journal at once. A [Submission] is written one job after the
// other, an [Assembly] in any order and side by side. A request with a key may come again:
// jobs that are in the queue by their keys are returned in the place of new ones.
func (q *Queue) Begin() *Submission {
	rules := q.info()
	return &Submission{to: q, digests: rules.Digests, verify: rules.VerifyOnWrite,
		budget: upload.Budget{Inline: q.svc.shared.Inline, Free: q.svc.shared.MaxAppend / 2, Spool: q.svc.spool}}
}

// A Submission is a group of jobs on its way into a queue: committed as a
// whole, or discarded. It is for one goroutine.
type Submission struct {
	to      *Queue
	uploads []*Upload
	first   Upload // most have one job
	budget  upload.Budget
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

// An Admission may refuse new jobs: bytes are those of their payloads. done is called
// after the commit.
type Admission func(jobs, bytes int64) (done func(), err error)

// Admit lets Commit ask for admission of the jobs that are not in the queue yet.
func (s *Submission) Admit(a Admission) { s.admit = a }

// Memory makes the submission take its payloads in memory, and its buffers, from the
// account of a request. It is called before Add.
func (s *Submission) Memory(a *buffers.Account) { s.budget.Memory = a }

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
		if err := s.uploads[n-1].up.End(); err != nil {
			return nil, ledger.StorageError(err)
		}
	}
	d := &s.first
	if d.sub != nil {
		d = new(Upload)
	}
	d.sub, d.meta = s, m
	d.up.Begin(&s.budget)
	s.uploads = append(s.uploads, d)
	return d, nil
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
	jobs, err := s.storeOnce(ctx)
	s.discard(err != nil)
	return jobs, err
}

// store is Commit of some of the uploads.
func (s *Submission) store(ctx context.Context, uploads []*Upload) ([]job.Job, error) {
	jobs := make([]job.Job, len(uploads))
	total, bytes := 0, int64(0)
	for i, d := range uploads {
		if err := d.describe(&jobs[i]); err != nil {
			return nil, err
		}
		total += len(d.up.Data()) + 1024 + len(d.meta.Sidecar)
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
		r.Payload.Data = uploads[i].up.Data()
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

// secure puts large payloads on stable storage before the journal speaks of them, and
// reads them again if the queue verifies on write.
func (s *Submission) secure(ctx context.Context, uploads []*Upload) error {
	var files []*Upload
	for _, d := range uploads {
		if d.up.Temp() != "" {
			files = append(files, d)
		}
	}
	if len(files) == 0 {
		return nil
	}
	put, sync := (*upload.Upload).Sync, s.to.svc.dirs.temp.Sync
	if len(files) > 8 {
		put, sync = (*upload.Upload).Park, s.to.svc.dirs.temp.SyncFS // one sync for all
	}
	for _, d := range files {
		if err := put(&d.up); err != nil {
			return ledger.StorageError(err)
		}
	}
	if err := sync(); err != nil {
		return ledger.StorageError(err)
	}
	for _, d := range files {
		if err := d.keep(ctx); err != nil {
			return ledger.StorageError(err)
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

// Discard lets go of the submission. After Commit it does nothing.
func (s *Submission) Discard() { s.discard(true) }

func (s *Submission) discard(remove bool) {
	if s.done {
		return
	}
	s.done = true
	for _, d := range s.uploads {
		temp := d.up.Temp()
		d.up.Close()
		if remove || d.known {
			s.to.svc.dropTemp(temp)
		}
	}
}

// An Upload is the payload of one job of a [Submission]. Small payloads are kept in
// memory. Payloads above 128 KiB, or beyond the limit of the whole submission, go
// to a temporary file on the way.
type Upload struct {
	sub  *Submission
	meta job.Meta
	up   upload.Upload
	rec  record.Record // see describe

	known bool // the job is in the queue already, by its key
}

// SetMeta replaces the metadata of the job, also after its payload was written.
func (d *Upload) SetMeta(m job.Meta) error {
	if err := m.Check(); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Meta returns the metadata of the job.
func (d *Upload) Meta() job.Meta { return d.meta }

// Size returns the octets written so far.
func (d *Upload) Size() int64 { return d.up.Size() }

// Write adds to the payload.
func (d *Upload) Write(p []byte) (int, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	n, err := d.up.Write(p)
	return n, ledger.StorageError(err)
}

// ReadFrom adds the rest of src to the payload, read straight into its buffer and
// hashed in large pieces.
func (d *Upload) ReadFrom(src io.Reader) (int64, error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	n, err := d.up.ReadFrom(src)
	if d.up.Err() != nil {
		err = d.err()
	}
	return n, err
}

// begin prepares for more octets.
func (d *Upload) begin() error {
	if d.sub.done {
		return errOver
	}
	if err := d.err(); err != nil {
		return err
	}
	d.up.Hash(d.kinds)
	return nil
}

// err returns the error of storage that has ended the upload.
func (d *Upload) err() error { return ledger.StorageError(d.up.Err()) }

// Verify compares the complete payload with the digests from the submitter, if the
// queue verifies on write. Commit does so too; the error is digest.ErrMismatch.
func (d *Upload) Verify() error {
	if err := d.err(); err != nil {
		return err
	}
	_, err := d.digests()
	return err
}

// Reader returns a reader of the payload so far, for use before the end of the
// submission.
func (d *Upload) Reader() (io.Reader, error) {
	if d.sub.done {
		return nil, errOver
	}
	r, err := d.up.Reader()
	return r, ledger.StorageError(err)
}

// kinds returns the digests beside SHA-256: those of the queue, then others of the
// submitter.
func (d *Upload) kinds() []digest.Type {
	kinds := d.sub.digests.Types()
	for _, e := range d.meta.Expect {
		if e.Type != digest.SHA256 && !slices.Contains(kinds, e.Type) {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}

// digests returns the digests of the payload, the SHA-256 first. The error is digest.ErrMismatch if
// the submitter gave another one.
func (d *Upload) digests() ([]digest.Value, error) {
	all, err := d.up.Digests(d.kinds(), d.meta.Expect)
	return all, ledger.StorageError(err)
}

// describe describes the job in j and in the record of the upload, both without the facts
// of its event.
func (d *Upload) describe(j *job.Job) error {
	if err := d.err(); err != nil {
		return err
	}
	digests, err := d.digests()
	if err != nil {
		return err
	}
	m, to := &d.meta, d.sub.to
	if !m.NotBefore.IsZero() && m.NotBefore.UnixMicro() <= to.svc.now() {
		m.NotBefore = time.Time{} // its time has come
	}
	*j = m.Job()
	j.Queue, j.Size, j.Digests = to.ID(), d.up.Size(), digests
	d.rec = record.Record{Kind: job.Submit, To: job.Pending, Verify: d.sub.verify, Flags: record.Inline, Temp: d.up.Temp(),
		Payload: record.Payload{Size: j.Size, MediaType: m.MediaType, SHA256: d.up.SHA256(), MD5: j.MD5()}}
	if d.rec.Temp != "" {
		d.rec.Flags = record.InTemp
	}
	return nil
}

// readBack compares the payload with its temporary file, which is synced, on the disk.
func (d *Upload) readBack() error {
	r, err := d.up.Reader()
	if err != nil {
		return ledger.StorageError(err)
	}
	d.up.Uncache()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return ledger.StorageError(err)
	}
	if [sha256.Size]byte(h.Sum(nil)) != d.up.SHA256() {
		return fmt.Errorf("%s: %w", d.up.Temp(), errReadBack)
	}
	return nil
}

var errReadBack = errors.New("the payload was not stored as it came")

// keep puts the temporary file of an upload where the home is, before a record names it.
func (d *Upload) keep(ctx context.Context) error {
	name, err := d.sub.to.svc.stored.Keep(ctx, d.up.Temp(), d.up.SHA256())
	d.up.Named(name)
	d.rec.Temp = name
	return err
}

// dropTemp removes a temporary file. After a failed commit the journal may speak of it
// all the same; opening the home settles it.
func (s *Service) dropTemp(temp string) {
	if temp != "" && s.shared.Gate.Err() == nil {
		s.dirs.temp.Remove(temp)
	}
}

// An Assembly is a batch with payloads at the same time and in any order: each is
// written as a [Submission] of its own and then joins the others. It needs no
// more memory than a Submission, and is committed as a whole, or discarded. Put
// is safe for concurrent use.
type Assembly struct {
	mu      sync.Mutex
	sub     *Submission
	uploads []*Upload // nil where nothing was put yet
}

// Assemble starts a batch of n jobs. Call Commit or Discard in the end.
func (q *Queue) Assemble(n int) *Assembly {
	s := &Assembly{sub: q.Begin(), uploads: make([]*Upload, n)}
	s.sub.Group()
	return s
}

// Put moves the one job of part, a submission to the same queue, to number i,
// from 0 on, and ends part. If the payload has not the digests it should have,
// the error is digest.ErrMismatch; after any error part is to be discarded.
func (s *Assembly) Put(i int, part *Submission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sub.done || part.done:
		return errOver
	case part.to != s.sub.to || len(part.uploads) != 1 || s.uploads[i] != nil:
		return fmt.Errorf("number %d is not for this submission", i)
	}
	d := part.uploads[0]
	if err := d.Verify(); err != nil {
		return err
	}
	said := s.sub.said + 1024 + len(d.meta.Sidecar)
	if said > s.sub.to.svc.shared.MaxAppend {
		return fmt.Errorf("%w: batch of %d jobs", job.ErrTooBig, len(s.uploads))
	}
	if err := d.up.Move(&s.sub.budget); err != nil {
		return ledger.StorageError(err)
	}
	s.sub.said = said
	d.sub, s.uploads[i] = s.sub, d
	part.uploads, part.done = nil, true
	return nil
}

// Key is [Submission.Key].
func (s *Assembly) Key(key string) { s.sub.Key(key) }

// Admit is [Submission.Admit].
func (s *Assembly) Admit(a Admission) { s.sub.Admit(a) }

// Again is [Submission.Again].
func (s *Assembly) Again() bool { return s.sub.Again() }

// Commit puts the jobs at the end of the queue in the order of their numbers;
// see [Submission.Commit]. All must have been put.
func (s *Assembly) Commit(ctx context.Context) ([]job.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.uploads, nil) {
		return nil, errors.New("batch is not complete")
	}
	s.sub.uploads = s.uploads
	return s.sub.Commit(ctx)
}

// Discard lets go of the batch. After Commit it does nothing.
func (s *Assembly) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub.done {
		return
	}
	s.sub.uploads = slices.DeleteFunc(s.uploads, func(d *Upload) bool { return d == nil })
	s.sub.Discard()
}

// A key names a submission for a client without an answer: it asks again with the key, and
// nothing happens twice. The key is in the job file and in the index, as long as the job
// is known. So it outlives a crash, a rebuild and a promotion.

// Key gives the submission a key, unless it is "": a single job has it as the Key of its
// [job.Meta], and job n, from 1 on, of several ones has KEY#n. Jobs may have keys of their
// own instead.
//
// Each owner has keys of his own. A job of the same key, owner and payload that is in the
// queue is returned by Commit in the place of a new one. If the payload differs, or the number
// of jobs of the submission, the error is [ErrKeyUsed] and names the job. Two submissions with a key
// come one after the other; a long wait for the first one ends in [queuefs.ErrBusy].
func (s *Submission) Key(key string) { s.key = key }

// Again reports, after Commit, whether all of its jobs were in the queue before.
func (s *Submission) Again() bool { return s.again }

// storeOnce is store, but for jobs whose keys are in the queue already: these are returned.
func (s *Submission) storeOnce(ctx context.Context) ([]job.Job, error) {
	sums, err := s.giveKeys()
	if err != nil {
		return nil, err
	}
	if len(sums) == 0 {
		return s.store(ctx, s.uploads)
	}
	release, err := s.to.keyed.claim(ctx, sums, s.to.svc.shared.Gate.Sleep)
	if err != nil {
		return nil, err
	}
	defer release()
	jobs, err := s.known()
	if err != nil {
		return nil, err
	}
	var fresh []*Upload
	for i, d := range s.uploads {
		if d.known = jobs[i].ID != 0; !d.known {
			fresh = append(fresh, d)
		}
	}
	if s.again = len(fresh) == 0; s.again {
		return jobs, nil
	}
	stored, err := s.store(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for i, d := range s.uploads {
		if !d.known {
			jobs[i], stored = stored[0], stored[1:]
		}
	}
	return jobs, nil
}

// giveKeys gives the jobs their keys, and returns the sums of all keys to claim.
func (s *Submission) giveKeys() (sums []job.KeySum, err error) {
	if s.key != "" {
		if err := job.CheckKey(s.key); err != nil {
			return nil, err
		}
		// Claimed beside those of the jobs, so that submissions of other numbers of
		// jobs wait, too.
		sums = append(sums, job.SumOfKey(s.owner(), s.key))
	}
	for i, d := range s.uploads {
		m := &d.meta
		if s.key != "" {
			if m.Key != "" {
				return nil, fmt.Errorf("%w: key %q beside the key of the submission", job.ErrBadName, m.Key)
			}
			m.Key = s.key
			if len(s.uploads) > 1 {
				m.Key = job.PartKey(s.key, i+1)
			}
			if err := job.CheckKey(m.Key); err != nil {
				return nil, err
			}
		}
		if m.Key != "" && m.Key != s.key {
			sums = append(sums, job.SumOfKey(m.Owner, m.Key))
		}
	}
	slices.Sort(sums)
	if len(slices.Compact(slices.Clone(sums))) < len(sums) {
		return nil, fmt.Errorf("%w: two jobs of a submission have one key", job.ErrBadName)
	}
	return sums, nil
}

// known returns the jobs of the submission that are in the queue, by their keys; the
// others are zero.
func (s *Submission) known() ([]job.Job, error) {
	jobs := make([]job.Job, len(s.uploads))
	n := 0
	for i, d := range s.uploads {
		if d.meta.Key == "" {
			continue
		}
		j, err := s.to.submitted(d.meta.Owner, d.meta.Key)
		if err != nil {
			return nil, err
		}
		if j.ID == 0 {
			continue
		}
		if err := d.matches(&j); err != nil {
			return nil, err
		}
		jobs[i], n = j, n+1
	}
	if s.key == "" {
		return jobs, nil
	}
	return jobs, s.whole(jobs, n)
}

// whole refuses a submission if its key was used for another number of jobs; n of jobs
// are known.
func (s *Submission) whole(jobs []job.Job, n int) error {
	const why = "is of another number of jobs"
	others := []string{job.PartKey(s.key, 1)}
	if len(jobs) > 1 {
		others = []string{s.key, job.PartKey(s.key, len(jobs)+1)}
		if i := slices.IndexFunc(jobs, func(j job.Job) bool { return j.ID != 0 }); i >= 0 && n < len(jobs) {
			return usedKey(&jobs[i], s.key, why)
		}
	}
	for _, key := range others {
		if j, err := s.to.submitted(s.owner(), key); err != nil || j.ID != 0 {
			return cmp.Or(err, usedKey(&j, s.key, why))
		}
	}
	return nil
}

// owner is the user of the submission: all its jobs have one.
func (s *Submission) owner() string {
	if len(s.uploads) == 0 {
		return ""
	}
	return s.uploads[0].meta.Owner
}

// submitted returns the job a user submitted with a key, zero if there is none.
func (q *Queue) submitted(owner, key string) (job.Job, error) {
	var id job.ID
	q.ledger.Look(func(x *index.Index) { id, _ = x.JobOf(job.SumOfKey(owner, key)) })
	if id == 0 {
		return job.Job{}, nil
	}
	j, err := q.content.Job(id)
	switch {
	case errors.Is(err, ledger.ErrNoJob): // culled meanwhile
		return job.Job{}, nil
	case err != nil:
		return job.Job{}, err
	case j.Key != key || j.Owner != owner: // the job may be somebody else's
		return job.Job{}, fmt.Errorf("%w: key %q cannot be told from another one by its sum, take another key", ErrKeyUsed, key)
	}
	return j, nil
}

// matches refuses a job that is not the one of the upload.
func (d *Upload) matches(j *job.Job) error {
	if _, err := d.digests(); err != nil {
		return err
	}
	sum := d.up.SHA256()
	if j.Size != d.Size() || j.Digest(digest.SHA256) != digest.NewValue(digest.SHA256, sum[:]) {
		return usedKey(j, d.meta.Key, "has another payload")
	}
	return nil
}

func usedKey(j *job.Job, key, why string) error {
	return fmt.Errorf("%w: %v of key %q %s", ErrKeyUsed, j.ID, key, why)
}
