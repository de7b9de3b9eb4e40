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
	"time"

	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// BatchOptions are the limits of batch manifests. Zero values mean the
// defaults.
type BatchOptions struct {
	Lines    int           // of a manifest and those that it includes; 0: 10,000; beyond it 413
	Octets   int64         // of them together; 0: 16 MiB; beyond it 413
	Includes int           // manifests that one includes, with those that they include; 0: 100; below 0: none
	Depth    int           // of manifests that include one another; 0: 5
	Parallel int           // files of one batch that are fetched at a time; 0: 8
	PerHost  int           // of these from one host; 0: 4
	Wait     time.Duration // longest time of a batch that the submitter waits for; 0: 5 min
	Time     time.Duration // longest time of one with Prefer: respond-async; 0: 1 h
	Running  int           // batches at a time; 0: 16; beyond it 503
	PerUser  int           // of these of one user, or of one address without a user; 0: a quarter; beyond it 503
	Kept     int           // batches whose state is kept, the newest; 0: 1000
	Keep     time.Duration // how long the state is kept when a batch has ended; 0: 1 h
	Now      func() time.Time
}

func (o *Options) setBatch() {
	b := &o.Batch
	b.Lines = cmp.Or(b.Lines, 10_000)
	b.Octets = cmp.Or(b.Octets, 16<<20)
	b.Includes = cmp.Or(b.Includes, 100)
	b.Depth = cmp.Or(b.Depth, 5)
	b.Parallel = cmp.Or(b.Parallel, 8)
	b.PerHost = cmp.Or(b.PerHost, 4)
	b.Wait = cmp.Or(b.Wait, 5*time.Minute)
	b.Time = cmp.Or(b.Time, time.Hour)
	b.Running = cmp.Or(b.Running, 16)
	b.PerUser = cmp.Or(b.PerUser, (b.Running+3)/4)
	b.Kept = cmp.Or(b.Kept, 1000)
	b.Keep = cmp.Or(b.Keep, time.Hour)
	if b.Now == nil {
		b.Now = time.Now
	}
	if o.Fetch == nil {
		o.Fetch, _ = outbound.New(outbound.Options{}) // fails for a bad pattern only
	}
}

// batches are the batches on their way and those that have ended.
type batches struct {
	closing context.Context // ends when the Handler is closed
	close   context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	running int
	of      map[string]int // running, by who sent them
	kept    []*batch       // with Prefer: respond-async, the oldest first
}

// A batch is one that nobody waits for. It is lost when the process ends, and
// then none of its jobs was submitted unless all were.
type batch struct {
	id, queue string
	created   time.Time
	lines     int64
	fetch     *fetch

	// Guarded by batches.mu.
	finished time.Time // zero as long as it is fetching
	octets   int64
	fetched  int64
	detail   string
	errors   []string
	first    queuefs.JobID // of its jobs, which have consecutive numbers
	jobs     int
	name     string
}

// Close ends the batches on their way, none of which is submitted then, and
// waits for them. Whoever waits for one is answered with 503, and so is whoever
// comes with another.
func (h *Handler) Close() {
	h.batches.mu.Lock()
	h.batches.close()
	h.batches.mu.Unlock()
	h.batches.all.Wait()
}

// enter begins a batch, which leave ends. Each may last long if a server that it
// asks hangs, so nobody has all of the places. by is "" for whoever is on this
// machine and has no name, who may.
func (b *batches) enter(by string, o *BatchOptions) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing.Err() != nil:
		return nil, queuefs.ErrClosed
	case b.running >= o.Running:
		return nil, web.Errorf(http.StatusServiceUnavailable, "too many batches are on their way")
	case by != "" && b.of[by] >= o.PerUser:
		return nil, web.Errorf(http.StatusServiceUnavailable, "%d batches of yours are on their way already", o.PerUser)
	}
	b.running++
	b.of[by]++
	b.all.Add(1)
	return func() {
		b.mu.Lock()
		b.running--
		if b.of[by]--; b.of[by] == 0 {
			delete(b.of, by)
		}
		b.mu.Unlock()
		b.all.Done()
	}, nil
}

// submitBatch submits what a manifest names (Cutie 5.5). sub, which holds the
// manifest as its one job, is over then.
func (h *Handler) submitBatch(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, sub *queuefs.Submission, manifest *queuefs.Draft) error {
	left, err := h.batches.enter(callerOf(r.Request), &h.o.Batch)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		return err
	}
	leave := left
	defer func() { leave() }()
	by := manifest.Meta()
	by.Filename, by.MediaType, by.Expect = "", "", nil
	sources, err := h.openManifest(manifest, by)
	if err != nil {
		return err
	}
	f := &fetch{h: h, req: r.Request, q: q, sources: sources, by: by, manifest: manifest.Size()}
	f.count()
	sub.Discard()
	if prefersAsync(r.Header) {
		b := h.keep(f)
		leave = func() {}
		go func() {
			defer left()
			jobs, err := f.run(h.batches.closing, h.o.Batch.Time)
			h.finish(b, jobs, err)
		}()
		d := h.stateOf(b)
		header := w.Header()
		header["Location"] = []string{d.Subject}
		header.Set("Preference-Applied", "respond-async")
		header["Cache-Control"] = noStore
		h.answer(w, http.StatusAccepted, form, &d)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.batches.closing, cancel)()
	jobs, err := f.run(ctx, h.o.Batch.Wait)
	if err != nil && r.Context().Err() == nil && h.batches.closing.Err() != nil {
		err = queuefs.ErrClosed
	}
	if err != nil {
		return err
	}
	return h.answerSeveral(w, r, form, q, jobs)
}

// openManifest reads and checks the manifest of a submission.
func (h *Handler) openManifest(manifest *queuefs.Draft, by queuefs.Meta) ([]source, error) {
	switch {
	case by.Sidecar != "":
		return nil, badRequest("a sidecar belongs to a single job, not to a batch manifest")
	case manifest.Size() > h.o.Batch.Octets:
		return nil, tooLarge("batch manifest has more than %d octets", h.o.Batch.Octets)
	}
	if err := manifest.Verify(); err != nil {
		return nil, err
	}
	in, err := manifest.Reader()
	if err != nil {
		return nil, err
	}
	return h.readManifest(in, by)
}

// prefersAsync reports whether the client does not want to wait (RFC 7240,
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

// keep makes the state of a batch one that can be asked for.
func (h *Handler) keep(f *fetch) *batch {
	now := h.o.Batch.Now()
	b := &batch{id: rand.Text(), queue: f.q.ID(), created: now, fetch: f}
	t := &h.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(now, h.o.Batch.Keep)
	t.kept = append(t.kept, b)
	for i := 0; len(t.kept) > h.o.Batch.Kept && i < len(t.kept); {
		if t.kept[i].finished.IsZero() {
			i++
			continue
		}
		t.kept = slices.Delete(t.kept, i, i+1)
	}
	return b
}

// drop forgets batches that ended long ago. The caller holds mu.
func (t *batches) drop(now time.Time, keep time.Duration) {
	t.kept = slices.DeleteFunc(t.kept, func(b *batch) bool {
		return !b.finished.IsZero() && now.Sub(b.finished) >= keep
	})
}

// finish notes what became of a batch.
func (h *Handler) finish(b *batch, jobs []queuefs.Job, err error) {
	t := &h.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	b.finished = h.o.Batch.Now()
	b.lines, b.octets, b.fetched = b.fetch.lines.Load(), b.fetch.octets.Load(), b.fetch.done.Load()
	req := b.fetch.req
	b.fetch = nil // and all its lines
	var lines *manifestError
	switch {
	case errors.As(err, &lines):
		b.detail, b.errors = "manifest could not be submitted", lines.lines
	case err != nil && t.closing.Err() != nil:
		b.detail = queuefs.ErrClosed.Error()
	case err != nil:
		e, hidden := web.ErrorOf(err)
		b.detail = cmp.Or(e.Message, "service error")
		if hidden && h.o.Log != nil {
			h.o.Log(req, err)
		}
	default:
		b.first, b.jobs, b.name = jobs[0].ID, len(jobs), jobs[0].Batch
	}
}

// stateOf returns the state of a batch.
func (h *Handler) stateOf(b *batch) state.Document {
	t := &h.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	s := state.Batch{ID: b.id, Queue: b.queue, Status: state.BatchFetching, Created: b.created, Finished: b.finished,
		Lines: b.lines, Fetched: b.fetched, Octets: b.octets, Name: b.name, Detail: b.detail, Errors: b.errors}
	switch {
	case b.fetch != nil:
		s.Lines, s.Fetched, s.Octets = b.fetch.lines.Load(), b.fetch.done.Load(), b.fetch.octets.Load()
	case b.jobs == 0:
		s.Status = state.BatchFailed
	default:
		s.Status = state.BatchDone
		for i := range b.jobs {
			s.Submitted = append(s.Submitted, b.first+queuefs.JobID(i))
		}
	}
	return state.OfBatch(h.base(), &s)
}

// batchState answers how far a batch is.
func (h *Handler) batchState(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	t := &h.batches
	t.mu.Lock()
	t.drop(h.o.Batch.Now(), h.o.Batch.Keep)
	i := slices.IndexFunc(t.kept, func(b *batch) bool { return b.id == r.PathValue("batch") && b.queue == q.ID() })
	var b *batch
	if i >= 0 {
		b = t.kept[i]
	}
	t.mu.Unlock()
	if b == nil {
		return &web.Error{Status: http.StatusNotFound, Message: "batch not found; its state is kept for " + h.o.Batch.Keep.String() + " and until the service stops"}
	}
	w.Header()["Cache-Control"] = noStore
	d := h.stateOf(b)
	h.answer(w, http.StatusOK, form, &d)
	return nil
}
