package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A worker is one client. It is used by one goroutine.
type worker interface {
	// do does one operation on up to limit jobs and returns how many it moved,
	// on stable storage of the server. errDone means nothing is left for this
	// client. An error beside moved jobs is about the jobs; with none moved the
	// operation failed and is tried again after a pause, unless it is a
	// permanent *statusError. Joined errors count each.
	do(ctx context.Context, limit int) (jobs int, err error)
	close() error
}

// errDone is the error of a worker without work.
var errDone = errors.New("nothing left to do")

// A client gives up after this many failed operations in a row, and waits
// longer and longer between them.
const (
	maxFailures  = 10
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// run connects all clients, starts them at the same moment and returns their
// result after all have ended. An error means the run could not begin, a request
// was refused for good, or ctx ended; the result then says how far it came.
func (t task) run(ctx context.Context, phase string, connect func(ctx context.Context, client int) (worker, error)) (res result, err error) {
	var before processUsage
	if t.pid != 0 {
		if before, err = readUsage(t.pid); err != nil {
			return result{}, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{task: t, steps: 1, cancel: cancel}
	if t.duration > 0 {
		r.each = make([]atomic.Int64, t.duration/time.Second+1)
	}
	if phase == mixed {
		r.steps = 2
	}
	r.left.Store(t.jobs)
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.worker.close()
		}
	}()
	for i := range t.clients {
		w, err := connect(ctx, i)
		if err != nil {
			return result{}, err
		}
		clients = append(clients, &client{run: r, worker: w, failures: make(map[string]int64)})
	}

	r.start = time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.loop(ctx) })
	}
	all.Wait()
	res = r.result(phase, clients, time.Since(r.start))
	if err = context.Cause(ctx); err == nil && t.pid != 0 {
		var after processUsage
		after, err = readUsage(t.pid)
		after.CPUSeconds -= before.CPUSeconds
		res.Usage = &after
	}
	return res, err
}

// run is shared by the clients of a run.
type run struct {
	task
	steps  int // operations of a client on the same number of jobs
	start  time.Time
	left   atomic.Int64   // jobs not claimed by a client
	each   []atomic.Int64 // jobs moved in each second of a run with a duration
	cancel context.CancelCauseFunc
}

// claim returns how many jobs the next operation of a client is for; 0 at the
// end of the run.
func (r *run) claim() int {
	if r.duration > 0 && time.Since(r.start) >= r.duration {
		return 0
	}
	if r.jobs == 0 {
		return r.batch
	}
	for {
		left := r.left.Load()
		n := min(left, int64(r.batch))
		if n == 0 || r.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

// unclaim gives back claimed jobs not found.
func (r *run) unclaim(n int) {
	if r.steps == 1 && r.jobs > 0 {
		r.left.Add(int64(n))
	}
}

// client is one worker and its figures.
type client struct {
	*run
	worker   worker
	times    []time.Duration // of successful operations
	moved    int64
	errors   int64
	failures map[string]int64
	failed   int // operations in a row
}

func (c *client) loop(ctx context.Context) {
	for ctx.Err() == nil {
		n := c.claim()
		if n == 0 {
			return
		}
		for range c.steps {
			if !c.step(ctx, n) {
				return
			}
		}
	}
}

// step does one operation and says whether to go on.
func (c *client) step(ctx context.Context, want int) bool {
	begin := time.Now()
	n, err := c.worker.do(ctx, want)
	took := time.Since(begin)
	if err == errDone {
		c.unclaim(want)
		return false
	}
	if err != nil && ctx.Err() != nil {
		return false // the run was stopped
	}
	if n > 0 {
		c.moved += int64(n)
		if at := int(time.Since(c.start) / time.Second); at < len(c.each) {
			c.each[at].Add(int64(n))
		}
		c.times = append(c.times, took)
		c.failed = 0
	}
	if err == nil {
		c.unclaim(want - n)
		return true
	}
	c.note(err)
	return n > 0 || c.retry(ctx, err)
}

// note counts an error, or each error joined in it, by its text.
func (c *client) note(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			c.note(e)
		}
		return
	}
	c.errors++
	if text := err.Error(); len(c.failures) < 100 || c.failures[text] > 0 {
		c.failures[text]++
	}
}

// retry waits after a failed operation and says whether to go on.
func (c *client) retry(ctx context.Context, err error) bool {
	pause := min(firstBackoff<<c.failed, maxBackoff)
	var status *statusError
	if errors.As(err, &status) {
		if status.permanent() {
			c.cancel(err)
			return false
		}
		pause = max(pause, min(status.after, 5*time.Second))
	}
	if c.failed++; c.failed >= maxFailures {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func (r *run) result(phase string, clients []*client, took time.Duration) result {
	res := result{Phase: phase, Clients: r.clients, Size: r.size, Batch: r.batch, Seconds: took.Seconds()}
	failures := make(map[string]int64)
	var times []time.Duration
	for _, c := range clients {
		times = append(times, c.times...)
		res.Jobs += c.moved
		res.Errors += c.errors
		for text, n := range c.failures {
			failures[text] += n
		}
	}
	for i := range r.each {
		res.each = append(res.each, r.each[i].Load())
	}
	for _, text := range slices.Sorted(maps.Keys(failures)) {
		res.Failures = append(res.Failures, failure{text, failures[text]})
	}
	slices.SortStableFunc(res.Failures, func(a, b failure) int { return cmp.Compare(b.Count, a.Count) })
	res.Failures = res.Failures[:min(len(res.Failures), 10)]
	res.OpsPerSecond = float64(res.Jobs) / max(took.Seconds(), 1e-9)
	slices.Sort(times)
	res.P50, res.P99, res.P999 = quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999)
	return res
}

// quantile returns the milliseconds not exceeded by the fraction f of sorted
// times; zero without times.
func quantile(times []time.Duration, f float64) float64 {
	if len(times) == 0 {
		return 0
	}
	rank := min(int(f*float64(len(times))), len(times)-1)
	return float64(times[rank]) / float64(time.Millisecond)
}
