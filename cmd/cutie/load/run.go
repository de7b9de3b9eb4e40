// Package load drives servers with many clients at once and measures them: the
// daemon over HTTP, and anything else that a [Worker] speaks to. It costs
// little processor time, for it shares the machine with what it measures:
// each client is one goroutine on one connection, requests are prepared once,
// answers are parsed by hand, and nothing is allocated in the course of a run
// but the names of consumed jobs.
//
// What comes back is checked: status codes, lengths, that no job is handed out
// twice, and that a payload is octet for octet what was sent.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Worker is one client. It is used by one goroutine.
type Worker interface {
	// Do does one operation on up to limit jobs and returns how many it moved,
	// on stable storage of the server. ErrDone means that there is nothing left
	// for this client. An error beside moved jobs is about those jobs; with
	// none moved, the operation failed and is tried again after a while, unless
	// the error has a method Permanent() bool that returns true. A method
	// RetryAfter() time.Duration gives the pause. Joined errors count each.
	Do(ctx context.Context, limit int) (jobs int, err error)
	Close() error
}

// ErrDone is returned by a Worker that finds nothing left to do.
var ErrDone = errors.New("nothing left to do")

// Plan says what a run does.
type Plan struct {
	Phase    string        // for the result
	Clients  int           // at least 1
	Jobs     int64         // ends the run; 0 for no limit
	Duration time.Duration // ends the run, too; 0 for no limit
	Batch    int           // most jobs in one operation; 0 means 1
	Size     int           // octets of a job, for the result

	// Steps is how many operations on the same number of jobs a client does
	// one after another before it looks whether the run is to end, 0 means 1.
	// Jobs counts what the first of them does.
	Steps int
}

// A client gives up after this many failed operations in a row, and waits
// longer and longer between them.
const (
	maxFailures  = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// Run connects all clients, lets them go at the same moment and returns what
// they did, once all have ended. An error means that the run could not begin,
// that a request was refused for good, or that ctx ended; the result then says
// how far it came.
func Run(ctx context.Context, p Plan, connect func(ctx context.Context, client int) (Worker, error)) (Result, error) {
	p.Batch, p.Steps = max(p.Batch, 1), max(p.Steps, 1)
	if p.Clients < 1 || p.Jobs < 0 || p.Jobs == 0 && p.Duration <= 0 {
		return Result{}, fmt.Errorf("plan %+v: has no clients or no end", p)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clients := make([]*client, 0, p.Clients)
	defer func() {
		for _, c := range clients {
			c.worker.Close()
		}
	}()
	r := &runner{plan: p, cancel: cancel}
	r.left.Store(p.Jobs)
	for i := range p.Clients {
		w, err := connect(ctx, i)
		if err != nil {
			return Result{}, err
		}
		clients = append(clients, &client{runner: r, worker: w})
	}

	r.start = time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.run(ctx) })
	}
	all.Wait()
	return r.result(clients, time.Since(r.start)), context.Cause(ctx)
}

// runner is what the clients of a run share.
type runner struct {
	plan   Plan
	start  time.Time
	left   atomic.Int64 // jobs that no client has claimed
	cancel context.CancelCauseFunc
}

// claim returns how many jobs the next operation of a client is for; 0 at the
// end of the run.
func (r *runner) claim() int {
	if r.plan.Duration > 0 && time.Since(r.start) >= r.plan.Duration {
		return 0
	}
	if r.plan.Jobs == 0 {
		return r.plan.Batch
	}
	for {
		left := r.left.Load()
		n := min(left, int64(r.plan.Batch))
		if n == 0 || r.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

// client is one worker and what it has seen.
type client struct {
	*runner
	worker Worker

	latency  Histogram
	jobs     int64
	errors   int64
	failures map[string]int64
	failed   int // operations in a row
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		n := c.claim()
		if n == 0 {
			return
		}
		for range c.plan.Steps {
			if !c.step(ctx, n) {
				return
			}
		}
	}
}

// step does one operation and says whether to go on.
func (c *client) step(ctx context.Context, want int) bool {
	begin := time.Now()
	n, err := c.worker.Do(ctx, want)
	took := time.Since(begin)
	if err == ErrDone {
		c.unclaim(want)
		return false
	}
	if err != nil && ctx.Err() != nil {
		return false // the error is that we were told to stop
	}
	c.jobs += int64(n)
	if n > 0 {
		c.latency.Record(took)
		c.failed = 0
	}
	if err == nil {
		c.unclaim(want - n)
		return true
	}
	c.note(err)
	return n > 0 || c.retry(ctx, err)
}

// unclaim gives back jobs that were asked for and not there.
func (c *client) unclaim(n int) {
	if c.plan.Steps == 1 && c.plan.Jobs > 0 {
		c.left.Add(int64(n))
	}
}

// note counts an error, or each of those joined in it, by its text.
func (c *client) note(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			c.note(e)
		}
		return
	}
	c.errors++
	if c.failures == nil {
		c.failures = make(map[string]int64)
	}
	if text := err.Error(); len(c.failures) < 100 || c.failures[text] > 0 {
		c.failures[text]++
	}
}

// retry waits after a failed operation and says whether to go on.
func (c *client) retry(ctx context.Context, err error) bool {
	var permanent interface{ Permanent() bool }
	if errors.As(err, &permanent) && permanent.Permanent() {
		c.cancel(err)
		return false
	}
	pause := min(firstBackoff<<c.failed, maxBackoff)
	if c.failed++; c.failed >= maxFailures {
		return false
	}
	var asked interface{ RetryAfter() time.Duration }
	if errors.As(err, &asked) {
		pause = max(pause, min(asked.RetryAfter(), 5*time.Second))
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func (r *runner) result(clients []*client, took time.Duration) Result {
	var latency Histogram
	failures := make(map[string]int64)
	res := Result{Phase: r.plan.Phase, Clients: r.plan.Clients, Size: r.plan.Size, Batch: r.plan.Batch, Seconds: took.Seconds()}
	for _, c := range clients {
		latency.Merge(&c.latency)
		res.Jobs += c.jobs
		res.Errors += c.errors
		for text, n := range c.failures {
			failures[text] += n
		}
	}
	for text, n := range failures {
		res.Failures = append(res.Failures, Failure{text, n})
	}
	slices.SortFunc(res.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Text, b.Text))
	})
	res.Failures = res.Failures[:min(len(res.Failures), 10)]
	res.OpsPerSecond = float64(res.Jobs) / max(took.Seconds(), 1e-9)
	res.P50, res.P99, res.P999 = ms(latency.Quantile(0.5)), ms(latency.Quantile(0.99)), ms(latency.Quantile(0.999))
	return res
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
