package rest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// The files in a Checkm manifest become jobs, all of them or none (Cutie 0.3, 5.5; Checkm
// 2009-10-30 and 0.7).
//
// A manifest is read, the manifests it includes ("@") are fetched, one after the other, then
// the files, several at a time and few from one host. Each file is checked against the digest
// and the length in its line. When all are there they become jobs, in the order of the lines.
// One error names every bad line.
//
// A batch is lost when the process ends; then either all of its jobs were submitted or none.

// BatchLimits are the limits of manifests and of running batches. Zero values mean
// the defaults.
type BatchLimits struct {
	Lines    int           // of a manifest and the included ones; 0: 10,000; beyond it 413
	Octets   int64         // of them together; 0: 16 MiB; beyond it 413
	Includes int           // included manifests, at any depth; 0: 100; below 0: none
	Depth    int           // of inclusion; 0: 5
	Parallel int           // files of one batch fetched at a time; 0: 8
	PerHost  int           // of these from one host; 0: 4
	Wait     time.Duration // longest time of a batch with a waiting submitter; 0: 5 min
	Time     time.Duration // longest time of any other; 0: 1 h
	Running  int           // batches at a time; 0: 16; beyond it 503
	PerUser  int           // of these of one caller; 0: a quarter; beyond it 503
	Kept     int           // batches with a state, the newest; 0: 1000
	Keep     time.Duration // time of the state after the end of a batch; 0: 1 h
}

// withDefaults returns the limits with the defaults in the place of zeros.
func (l BatchLimits) withDefaults() BatchLimits {
	l.Lines = cmp.Or(l.Lines, 10_000)
	l.Octets = cmp.Or(l.Octets, 16<<20)
	l.Includes = cmp.Or(l.Includes, 100)
	l.Depth = cmp.Or(l.Depth, 5)
	l.Parallel = cmp.Or(l.Parallel, 8)
	l.PerHost = cmp.Or(l.PerHost, 4)
	l.Wait = cmp.Or(l.Wait, 5*time.Minute)
	l.Time = cmp.Or(l.Time, time.Hour)
	l.Running = cmp.Or(l.Running, 16)
	l.PerUser = cmp.Or(l.PerUser, (l.Running+3)/4)
	l.Kept = cmp.Or(l.Kept, 1000)
	l.Keep = cmp.Or(l.Keep, time.Hour)
	return l
}

// batches are those of a [Handler]. They are safe for concurrent use.
type batches struct {
	o       *Options        // of the Handler
	closing context.Context // ends at close
	end     context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	running int
	of      map[string]int // running, by caller
	kept    []*batch       // the oldest first; those with a waiting submitter, without an id, while they run
}

func newBatches(o *Options) *batches {
	r := &batches{o: o, of: map[string]int{}}
	r.closing, r.end = context.WithCancel(context.Background())
	return r
}

// close ends the running batches without submitting them, and waits for them.
// The error of later calls is [ledger.ErrClosed].
func (r *batches) close() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.all.Wait()
}

// A batch is one manifest with its files on their way. It holds a place until run or start ends.
type batch struct {
	r         *batches
	q         *queuefs.Queue
	id, queue string
	caller    string
	created   time.Time
	sources   []source
	manifest  int64    // octets of the manifest sent
	by        job.Meta // of all jobs
	log       func(error)
	key       string // of the submission; "" for none

	admit queuefs.Admission // of the jobs; nil for all

	lines  atomic.Int64 // of files, as far as manifests are read
	done   atomic.Int64 // files fetched
	octets atomic.Int64 // of files, so far

	// Guarded by batches.mu.
	finished time.Time // zero while the batch runs
	first    job.ID    // of its jobs, with consecutive numbers
	jobs     int
	name     string // of the batch in its jobs
	detail   string
	errors   []string
}

// open reads and checks a manifest. caller tells submitters apart; "" has no
// limit of its own. log is called with errors hidden from the submitter, if it is
// not nil. key is for [queuefs.Submission.Key]. End the batch with run or start.
func (r *batches) open(q *queuefs.Queue, manifest *queuefs.Upload, key, caller string, log func(error)) (*batch, error) {
	if err := r.enter(caller); err != nil {
		return nil, err
	}
	b := &batch{r: r, q: q, queue: q.ID(), created: r.o.Now(), caller: caller, by: manifest.Meta(), manifest: manifest.Size(), log: log}
	b.key = cmp.Or(key, b.by.Key)
	b.by.Filename, b.by.MediaType, b.by.Expect, b.by.Key = "", "", nil, ""
	if err := b.readSubmitted(manifest); err != nil {
		r.leave(b)
		return nil, err
	}
	b.count()
	return b, nil
}

// enter takes a place. A batch can last long if a server hangs, so no caller gets
// all places.
func (r *batches) enter(caller string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing.Err() != nil:
		return ledger.ErrClosed
	case r.running >= r.o.Batch.Running:
		return web.Errorf(http.StatusServiceUnavailable, "too many batches are on their way")
	case caller != "" && r.of[caller] >= r.o.Batch.PerUser:
		return web.Errorf(http.StatusServiceUnavailable, "%d batches of yours are on their way already", r.o.Batch.PerUser)
	}
	r.running++
	r.of[caller]++
	r.all.Add(1)
	return nil
}

func (r *batches) leave(b *batch) {
	r.mu.Lock()
	r.running--
	r.kept = slices.DeleteFunc(r.kept, func(o *batch) bool { return o == b && b.id == "" })
	if r.of[b.caller]--; r.of[b.caller] == 0 {
		delete(r.of, b.caller)
	}
	r.mu.Unlock()
	r.all.Done()
}

// readSubmitted reads the manifest of a submission.
func (b *batch) readSubmitted(manifest *queuefs.Upload) error {
	switch {
	case b.by.Sidecar != "":
		return web.BadRequest("a sidecar belongs to a single job, not to a batch manifest")
	case b.manifest > b.r.o.Batch.Octets:
		return tooLarge("batch manifest has more than %d octets", b.r.o.Batch.Octets)
	}
	if err := manifest.Verify(); err != nil {
		return err
	}
	in, err := manifest.Reader()
	if err != nil {
		return err
	}
	b.sources, err = b.readManifest(in)
	return err
}

// run submits the batch and returns its jobs; again reports whether all of them were in
// the queue before, by the key. If ctx ends first, or the time
// [BatchLimits].Wait is over, nothing is submitted.
func (b *batch) run(ctx context.Context) (jobs []job.Job, again bool, err error) {
	defer b.r.leave(b)
	b.r.keep(b)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.r.closing, cancel)()
	jobs, again, err = b.fetch(inner, b.r.o.Batch.Wait)
	if err != nil && ctx.Err() == nil && b.r.closing.Err() != nil {
		err = ledger.ErrClosed
	}
	return jobs, again, err
}

// start submits the batch in the background; its state shows its progress.
func (b *batch) start() state.Batch {
	r := b.r
	b.id, b.created = rand.Text(), r.o.Now()
	r.keep(b)
	go func() {
		defer r.leave(b)
		jobs, _, err := b.fetch(r.closing, r.o.Batch.Time)
		b.finish(jobs, err)
	}()
	return b.state()
}

// keep lists a batch, and drops the oldest that have ended if there are too many.
func (r *batches) keep(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(b.created)
	r.kept = append(r.kept, b)
	over := len(r.kept) - r.o.Batch.Kept
	r.kept = slices.DeleteFunc(r.kept, func(o *batch) bool {
		gone := over > 0 && !o.finished.IsZero()
		if gone {
			over--
		}
		return gone
	})
}

// unsubmitted returns the states of the batches of a queue on their way, and of kept ones
// that have failed, the newest first. A batch with a waiting submitter has no ID.
func (r *batches) unsubmitted(queue string) (all []state.Batch) {
	r.mu.Lock()
	r.drop(r.o.Now())
	batches := slices.Clone(r.kept)
	r.mu.Unlock()
	for _, b := range batches {
		if b.queue != queue {
			continue
		}
		if s := b.state(); s.Status != state.BatchDone {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b state.Batch) int { return b.Created.Compare(a.Created) })
	return all
}

// drop forgets batches that ended long ago; r.mu is held.
func (r *batches) drop(now time.Time) {
	r.kept = slices.DeleteFunc(r.kept, func(b *batch) bool {
		return !b.finished.IsZero() && now.Sub(b.finished) >= r.o.Batch.Keep
	})
}

// finish records the outcome of a batch.
func (b *batch) finish(jobs []job.Job, err error) {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	b.finished, b.sources, b.q = r.o.Now(), nil, nil
	var lines *manifestError
	switch {
	case errors.As(err, &lines):
		b.detail, b.errors = "manifest could not be submitted", lines.lines
	case err != nil && r.closing.Err() != nil:
		b.detail = ledger.ErrClosed.Error()
	case err != nil:
		e, hidden := web.ErrorOf(err)
		b.detail = cmp.Or(e.Message, "service error")
		if hidden && b.log != nil {
			b.log(err)
		}
	default:
		b.first, b.jobs, b.name = jobs[0].ID, len(jobs), jobs[0].Batch
	}
}

func (b *batch) state() state.Batch {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	s := state.Batch{ID: b.id, Queue: b.queue, Status: state.BatchFetching, Created: b.created, Finished: b.finished,
		Lines: b.lines.Load(), Fetched: b.done.Load(), Octets: b.octets.Load(), Name: b.name, Detail: b.detail, Errors: b.errors}
	switch {
	case b.finished.IsZero():
	case b.jobs == 0:
		s.Status = state.BatchFailed
	default:
		s.Status = state.BatchDone
		for i := range b.jobs {
			s.Submitted = append(s.Submitted, b.first+job.ID(i))
		}
	}
	return s
}

// stateOf returns the state of a batch of a queue. It is kept for [BatchLimits].Keep
// after the end of the batch.
func (r *batches) stateOf(queue, id string) (state.Batch, error) {
	r.mu.Lock()
	r.drop(r.o.Now())
	i := slices.IndexFunc(r.kept, func(b *batch) bool { return b.id == id && b.queue == queue })
	var b *batch
	if i >= 0 {
		b = r.kept[i]
	}
	r.mu.Unlock()
	if b == nil {
		return state.Batch{}, web.Errorf(http.StatusNotFound, "batch not found; its state is kept for %v and until the service stops", r.o.Batch.Keep)
	}
	return b.state(), nil
}

// Close ends the batches on their way, without submitting them, and waits for
// them. Their submitters, and those of later batches, are answered with 503.
func (h *Handler) Close() { h.batches.close() }

// Batches returns the states of batches of a queue without jobs: on their way, or failed.
func (h *Handler) Batches(queue string) []state.Batch { return h.batches.unsubmitted(queue) }

// submitBatch submits the files of a manifest (Cutie 5.5). sub, with the manifest
// as its one job, is discarded.
func (h *Handler) submitBatch(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, sub *queuefs.Submission, manifest *queuefs.Upload, key string) error {
	b, err := h.batches.open(q, manifest, key, callerOf(r.Request), func(err error) {
		if h.o.Log != nil {
			h.o.Log(r.Request, err)
		}
	})
	if err != nil {
		if e, _ := web.ErrorOf(err); e.Status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "10")
		}
		return err
	}
	sub.Discard()
	b.admit = h.o.Quota.Admission(r.Context(), q, UserOf(r.Context()))
	if !prefersAsync(r.Header) {
		ctx, cancel := web.While(r.Context())
		defer cancel()
		jobs, again, err := b.run(ctx)
		if err != nil {
			return keyBusy(w, err)
		}
		return h.answerSeveral(w, r, replayed(w, again, http.StatusCreated), form, q, jobs)
	}
	s := b.start()
	d := state.OfBatch(h.base(r.Request), &s)
	header := w.Header()
	header["Location"] = []string{d.Subject}
	header.Set("Preference-Applied", "respond-async")
	header["Cache-Control"] = noStore
	h.answer(w, http.StatusAccepted, form, &d)
	return nil
}

// prefersAsync reports whether the client asks not to wait (RFC 7240,
// 4.1).
func prefersAsync(header http.Header) bool {
	for _, value := range header["Prefer"] {
		for preference := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// batchState answers with the progress of a batch.
func (h *Handler) batchState(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	s, err := h.batches.stateOf(q.ID(), r.PathValue("batch"))
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = noStore
	d := state.OfBatch(h.base(r.Request), &s)
	h.answer(w, http.StatusOK, form, &d)
	return nil
}
