package queuefs_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A scenario runs every operation of a home against an engine whose steps may
// fail, and keeps the world that was acknowledged.
type scenario struct {
	t     testing.TB
	dir   string
	o     queuefs.Options
	fault *faults
	f     *follower
	skew  atomic.Int64 // by which a test turned the clock
	hasty bool         // the time for files at a stop is
	haste time.Duration

	s     *queuefs.Service
	known world
	maybe world                    // outcome of the operation that was told nothing certain; nil if there is none
	last  map[string]queuefs.JobID // of queues that were removed
	moved bool                     // a job was moved by hand since the home was closed
	over  bool                     // nothing more can be done before the home is opened again
}

// clock returns a clock that goes on by a second at every look.
func clock() func() time.Time {
	var looks atomic.Int64
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { return start.Add(time.Duration(looks.Add(1)) * time.Second) }
}

// do runs one operation, which makes the known world to be after. An error
// must come from a fault in this very operation; it means that nothing
// happened, unless storage failed.
func (c *scenario) do(name string, after world, op func() error) {
	if c.over {
		return
	}
	c.t.Helper()
	before := c.fault.fired()
	err := op()
	for tries := 0; errors.Is(err, queuefs.ErrNoSpace) && !errors.Is(err, queuefs.ErrFailed) && c.fault.fired() && !c.fault.stops; tries++ {
		// There is room again. What was refused works once files have caught up.
		before = true
		if e := c.s.Maintain(ctx); e != nil || tries > 0 {
			c.t.Fatalf("%s: %v, then %v", name, err, e)
		}
		err = op()
	}
	switch {
	case err == nil:
		c.known = after
	case before == c.fault.fired() && !c.fault.stops:
		c.t.Fatalf("%s: %v, though no step failed in it", name, err)
	case errors.Is(err, queuefs.ErrFailed):
		c.maybe, c.over = after, true
		if c.s != nil && c.s.Err() == nil {
			c.t.Errorf("%s: %v, but the service does not know", name, err)
		}
	case c.fault.stops:
		c.maybe, c.over = after, true
	}
}

func (c *scenario) open() {
	before := c.fault.fired()
	s, err := queuefs.Open(c.dir, c.o)
	if err != nil && !before && c.fault.fired() && !c.fault.stops {
		s, err = queuefs.Open(c.dir, c.o) // what failed once works the second time
	}
	switch {
	case err == nil:
		c.s = s
		c.f.follow(s)
	case c.fault.stops:
		c.over = true
	default:
		c.t.Fatalf("open: %v", err)
	}
}

// close ends the service. Its failure loses nothing.
func (c *scenario) close() {
	if c.s == nil {
		return
	}
	before := c.fault.fired()
	if c.hasty {
		c.s.StopWithin(c.haste)
	}
	if err := c.s.Close(); err != nil && before && !c.fault.stops && c.s.Err() == nil {
		c.t.Errorf("close: %v", err)
	}
	c.s = nil
}

func (c *scenario) queue(name string) *queuefs.Queue {
	q, err := c.s.Queue(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return q
}

func (c *scenario) create(name string) {
	after := c.known.clone()
	after[name] = jobs{last: c.last[name], byID: map[queuefs.JobID]fact{}}
	op := func() error {
		_, err := c.s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name, CullingSize: -1, CullingAge: -1, MaxAttempts: 3})
		return err
	}
	known := c.known
	c.do("create", after, op)
	if !c.over && c.known.difference(known) == "" {
		// An empty queue that nobody was told of may be there.
		c.do("create again", after, op)
	}
	if c.over && c.maybe == nil {
		c.maybe = after
	}
}

// submit adds one job for each size.
func (c *scenario) submit(name string, sizes ...int) {
	if c.over {
		return
	}
	q, after := c.queue(name), c.known.clone()
	id := after[name].last
	var payloads []string
	for i, size := range sizes {
		id++
		payloads = append(payloads, strings.Repeat(fmt.Sprintf("%d of %v;", i, id), size/7+1)[:size])
		after = after.set(name, id, func(f *fact) {
			*f = fact{status: queuefs.Pending, filename: fmt.Sprint("f", size), sidecar: fmt.Sprint("line\n", id), payload: payloads[i]}
		})
	}
	c.do(fmt.Sprint("submit ", sizes), after, func() error {
		s := q.Begin()
		defer s.Discard()
		for i, p := range payloads {
			d, err := s.Add(queuefs.Meta{Filename: fmt.Sprint("f", len(p)), Sidecar: fmt.Sprint("line\n", after[name].last-queuefs.JobID(len(sizes)-1-i)), MediaType: fmt.Sprint("text/x-", len(p))})
			if err != nil {
				return err
			}
			if _, err := io.WriteString(d, p); err != nil {
				return err
			}
		}
		_, err := s.Commit(ctx)
		return err
	})
}

// next takes up to n jobs.
func (c *scenario) next(name string, n int) {
	if c.over {
		return
	}
	q, after := c.queue(name), c.known
	want := after.ids(name, queuefs.Pending)
	want = want[:min(n, len(want))]
	for _, id := range want {
		after = after.set(name, id, func(f *fact) { f.status, f.consumer = queuefs.Consumed, "worker" })
	}
	c.do("next", after, func() error {
		jobs, err := q.NextN(ctx, "worker", n)
		if errors.Is(err, queuefs.ErrEmpty) && len(want) == 0 {
			return nil
		}
		if got := idsOf(jobs); err == nil && !slices.Equal(got, want) {
			c.t.Errorf("next: got %v want %v", got, want)
		}
		return err
	})
}

func idsOf(jobs []queuefs.Job) (ids []queuefs.JobID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// delete deletes the last pending job, requeue the first one of st.
func (c *scenario) delete(name string) {
	ids := c.known.ids(name, queuefs.Pending)
	if c.over || len(ids) == 0 {
		return
	}
	id := ids[len(ids)-1]
	q := c.queue(name)
	c.do("delete", c.known.set(name, id, func(f *fact) { f.status = queuefs.Deleted }), func() error {
		_, err := q.Delete(ctx, id)
		return err
	})
}

func (c *scenario) requeue(name string, st queuefs.Status) {
	ids := c.known.ids(name, st)
	if c.over || len(ids) == 0 {
		return
	}
	q := c.queue(name)
	c.do("requeue", c.known.set(name, ids[0], func(f *fact) { f.status, f.consumer, f.requeues = queuefs.Pending, "", f.requeues+1 }), func() error {
		_, err := q.Requeue(ctx, ids[0])
		return err
	})
}

func (c *scenario) maintain() { c.do("maintain", c.known, func() error { return c.s.Maintain(ctx) }) }
func (c *scenario) checkpoint() {
	c.do("checkpoint", c.known, func() error { return c.s.Checkpoint(ctx) })
}

// run is the scenario: everything a home can do, over two lives, so that every
// kind of step is taken with files behind the journal and without.
func (c *scenario) run() {
	c.known = world{}
	life := func(ops func()) {
		if c.over {
			return
		}
		if c.open(); !c.over {
			ops()
		}
		c.close()
	}
	life(func() {
		c.create("jobs")
		c.submit("jobs", 10)
		c.submit("jobs", 200<<10)
		c.submit("jobs", 0, 3000, 20<<10, 5)
		c.next("jobs", 1)
		c.maintain()
		c.next("jobs", 2)
		c.delete("jobs")
		c.checkpoint()
		c.requeue("jobs", queuefs.Consumed)
		c.requeue("jobs", queuefs.Deleted)
		c.maintain()
		c.submit("jobs", 6000)
		c.create("other")
		c.submit("other", 6000, 100)
	})
	life(func() {
		c.submit("jobs", 6000, 6000, 6000)
		c.next("other", 5)
		c.next("jobs", 1)
		c.submit("jobs", 6000, 6000, 6000)
		c.checkpoint()
		c.delete("jobs")
		c.submit("other", 150<<10, 1)
		c.maintain()
		c.requeue("other", queuefs.Consumed)
		c.next("jobs", 100)
		c.checkpoint()
		c.submit("jobs", 6000, 6000, 6000)
	})
}

// outcomes are the worlds that may be there when the home is opened again.
func (c *scenario) outcomes() []world {
	if c.maybe == nil {
		return []world{c.known}
	}
	return []world{c.known, c.maybe}
}

// faults make one step of a scenario fail.
type faults struct {
	hook  func(step string, failed bool, do func() error) error
	at    int   // which step fails, from 1; 0 none
	err   error // with which error
	done  bool  // it is done all the same
	stops bool  // all later steps fail too: the machine has stopped

	lock chan struct{} // held while steps are counted
	n    int
	name string // of the step that failed
}

func newFaults(at int, err error) *faults {
	return &faults{at: at, err: err, lock: make(chan struct{}, 1)}
}

func (f *faults) fired() bool {
	f.lock <- struct{}{}
	defer func() { <-f.lock }()
	return f.name != ""
}

// step is a durable.Fault. A scenario makes no promise that storage keeps, so
// nothing is synced for real.
func (f *faults) step(step string, do func() error) error {
	f.lock <- struct{}{}
	f.n++
	first := f.n == f.at
	fails := first || f.stops && f.at > 0 && f.n > f.at
	if first {
		f.name = step
	}
	done, err := f.done && first, f.err // a scenario changes them for the next step
	<-f.lock
	run := do
	if step == "journal sync" || strings.HasPrefix(step, "sync") {
		run = func() error { return nil }
	}
	if f.hook != nil {
		return f.hook(step, fails, run)
	}
	if !fails {
		return run()
	}
	if done {
		run()
	}
	return fmt.Errorf("%s: %w", step, err)
}

var _ durable.Fault = (&faults{}).step
