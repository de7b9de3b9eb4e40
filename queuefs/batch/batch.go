// Package batch submits the files in a Checkm manifest as jobs, all of them or
// none (Cutie 0.3, 5.5; Checkm 2009-10-30 and 0.7).
//
// A [Runner] reads a manifest, fetches the manifests it includes ("@"), one after
// the other, then the files, several at a time and few from one host. Each file
// is checked against the digest and the length in its line. When all are there
// they become jobs, in the order of the lines. One error names every bad line.
//
// A batch is lost when the process ends; then either all of its jobs were
// submitted or none.
package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/outbound"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Options are the limits of batches. Zero values mean the defaults.
type Options struct {
	Limits
	MaxBody    int64            // octets of the files of a batch; 0: 16 GiB; beyond it 413
	MaxSidecar int              // octets; 0: 64 KiB
	Fetch      *outbound.Client // fetches files and manifests; nil: from public addresses only
}

// Limits are the limits of manifests and of running batches. Zero values mean
// the defaults.
type Limits struct {
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
	Now      func() time.Time
}

// A Runner runs batches. It is safe for concurrent use.
type Runner struct {
	o       Options
	closing context.Context // ends at Close
	close   context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	running int
	of      map[string]int // running, by caller
	kept    []*Batch       // the oldest first; those with a waiting submitter, without an id, while they run
}

// New returns a Runner.
func New(o Options) *Runner {
	o.MaxBody = cmp.Or(o.MaxBody, 16<<30)
	o.MaxSidecar = cmp.Or(o.MaxSidecar, 64<<10)
	o.Lines = cmp.Or(o.Lines, 10_000)
	o.Octets = cmp.Or(o.Octets, 16<<20)
	o.Includes = cmp.Or(o.Includes, 100)
	o.Depth = cmp.Or(o.Depth, 5)
	o.Parallel = cmp.Or(o.Parallel, 8)
	o.PerHost = cmp.Or(o.PerHost, 4)
	o.Wait = cmp.Or(o.Wait, 5*time.Minute)
	o.Time = cmp.Or(o.Time, time.Hour)
	o.Running = cmp.Or(o.Running, 16)
	o.PerUser = cmp.Or(o.PerUser, (o.Running+3)/4)
	o.Kept = cmp.Or(o.Kept, 1000)
	o.Keep = cmp.Or(o.Keep, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Fetch == nil {
		o.Fetch, _ = outbound.New(outbound.Options{}) // fails for a bad pattern only
	}
	r := &Runner{o: o, of: map[string]int{}}
	r.closing, r.close = context.WithCancel(context.Background())
	return r
}

// Close ends the running batches without submitting them, and waits for them.
// The error of later calls is [ledger.ErrClosed].
func (r *Runner) Close() {
	r.mu.Lock()
	r.close()
	r.mu.Unlock()
	r.all.Wait()
}

// A Batch is one manifest with its files on their way. It holds a place of its
// Runner until [Batch.Run] or [Batch.Start] ends.
type Batch struct {
	r         *Runner
	q         *queuefs.Queue
	id, queue string
	caller    string
	created   time.Time
	sources   []source
	manifest  int64    // octets of the manifest sent
	by        job.Meta // of all jobs
	log       func(error)
	key       string // of the submission; "" for none

	Admit queuefs.Admission // of the jobs; nil for all

	lines  atomic.Int64 // of files, as far as manifests are read
	done   atomic.Int64 // files fetched
	octets atomic.Int64 // of files, so far

	// Guarded by Runner.mu.
	finished time.Time // zero while the batch runs
	first    job.ID    // of its jobs, with consecutive numbers
	jobs     int
	name     string // of the batch in its jobs
	detail   string
	errors   []string
}

// Open reads and checks a manifest. caller tells submitters apart; "" has no
// limit of its own. log is called with errors hidden from the submitter, if it is
// not nil. key is for [queuefs.Submission.Key]. End the batch with Run or Start.
func (r *Runner) Open(q *queuefs.Queue, manifest *queuefs.Upload, key, caller string, log func(error)) (*Batch, error) {
	if err := r.enter(caller); err != nil {
		return nil, err
	}
	b := &Batch{r: r, q: q, queue: q.ID(), created: r.o.Now(), caller: caller, by: manifest.Meta(), manifest: manifest.Size(), log: log}
	b.key = cmp.Or(key, b.by.Key)
	b.by.Filename, b.by.MediaType, b.by.Expect, b.by.Key = "", "", nil, ""
	if err := b.open(manifest); err != nil {
		r.leave(b)
		return nil, err
	}
	b.count()
	return b, nil
}

// enter takes a place. A batch can last long if a server hangs, so no caller gets
// all places.
func (r *Runner) enter(caller string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing.Err() != nil:
		return ledger.ErrClosed
	case r.running >= r.o.Running:
		return web.Errorf(http.StatusServiceUnavailable, "too many batches are on their way")
	case caller != "" && r.of[caller] >= r.o.PerUser:
		return web.Errorf(http.StatusServiceUnavailable, "%d batches of yours are on their way already", r.o.PerUser)
	}
	r.running++
	r.of[caller]++
	r.all.Add(1)
	return nil
}

func (r *Runner) leave(b *Batch) {
	r.mu.Lock()
	r.running--
	r.kept = slices.DeleteFunc(r.kept, func(o *Batch) bool { return o == b && b.id == "" })
	if r.of[b.caller]--; r.of[b.caller] == 0 {
		delete(r.of, b.caller)
	}
	r.mu.Unlock()
	r.all.Done()
}

// open reads the manifest of a submission.
func (b *Batch) open(manifest *queuefs.Upload) error {
	switch {
	case b.by.Sidecar != "":
		return web.Errorf(http.StatusBadRequest, "a sidecar belongs to a single job, not to a batch manifest")
	case b.manifest > b.r.o.Octets:
		return tooLarge("batch manifest has more than %d octets", b.r.o.Octets)
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

// Run submits the batch and returns its jobs; again reports whether all of them were in
// the queue before, by the key. If ctx ends first, or the time
// [Limits].Wait is over, nothing is submitted.
func (b *Batch) Run(ctx context.Context) (jobs []job.Job, again bool, err error) {
	defer b.r.leave(b)
	b.r.keep(b)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.r.closing, cancel)()
	jobs, again, err = b.fetch(inner, b.r.o.Wait)
	if err != nil && ctx.Err() == nil && b.r.closing.Err() != nil {
		err = ledger.ErrClosed
	}
	return jobs, again, err
}

// Start submits the batch in the background; [Runner.State] shows its progress.
func (b *Batch) Start() state.Batch {
	r := b.r
	b.id, b.created = rand.Text(), r.o.Now()
	r.keep(b)
	go func() {
		defer r.leave(b)
		jobs, _, err := b.fetch(r.closing, r.o.Time)
		b.finish(jobs, err)
	}()
	return b.state()
}

// keep lists a batch, and drops the oldest that have ended if there are too many.
func (r *Runner) keep(b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(b.created)
	r.kept = append(r.kept, b)
	over := len(r.kept) - r.o.Kept
	r.kept = slices.DeleteFunc(r.kept, func(o *Batch) bool {
		gone := over > 0 && !o.finished.IsZero()
		if gone {
			over--
		}
		return gone
	})
}

// Unsubmitted returns the states of the batches of a queue on their way, and of kept ones
// that have failed, the newest first. A batch with a waiting submitter has no ID.
func (r *Runner) Unsubmitted(queue string) (all []state.Batch) {
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
func (r *Runner) drop(now time.Time) {
	r.kept = slices.DeleteFunc(r.kept, func(b *Batch) bool {
		return !b.finished.IsZero() && now.Sub(b.finished) >= r.o.Keep
	})
}

// finish records the outcome of a batch.
func (b *Batch) finish(jobs []job.Job, err error) {
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

func (b *Batch) state() state.Batch {
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

// State returns the state of a batch of a queue. It is kept for [Limits].Keep
// after the end of the batch.
func (r *Runner) State(queue, id string) (state.Batch, error) {
	r.mu.Lock()
	r.drop(r.o.Now())
	i := slices.IndexFunc(r.kept, func(b *Batch) bool { return b.id == id && b.queue == queue })
	var b *Batch
	if i >= 0 {
		b = r.kept[i]
	}
	r.mu.Unlock()
	if b == nil {
		return state.Batch{}, web.Errorf(http.StatusNotFound, "batch not found; its state is kept for %v and until the service stops", r.o.Keep)
	}
	return b.state(), nil
}

func tooLarge(format string, args ...any) error {
	return web.Errorf(http.StatusRequestEntityTooLarge, format, args...)
}
