package queuefs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
)

// TestRandomLives leads homes through many short lives: random operations, one
// failing step in most of them, in any way, and between the lives a stop, a
// crash, work by hand, a check, a rebuilding. After each of them everything
// that was acknowledged is there.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	homes, lives := long.N(3, 12), 12
	for seed := range homes {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 77))
			f := newFaults(0, nil)
			c := newScenario(t, f)
			defer os.RemoveAll(c.dir)
			c.known = world{}
			for life := range lives {
				c.live(rng)
				c.settle(t, rng)
				if t.Failed() {
					t.Fatalf("in life %d, step %d failed: %q", life, f.at, f.name)
				}
			}
		})
	}
}

// live opens the home, does random things, and lets one step fail.
func (c *scenario) live(rng *rand.Rand) {
	f := c.fault
	f.n, f.at, f.name = 0, rng.IntN(80), ""
	f.stops, f.done = rng.IntN(2) == 0, rng.IntN(2) == 0
	f.err = []error{errInjected, syscall.ENOSPC, syscall.EIO}[rng.IntN(3)]
	c.maybe, c.over = nil, false
	if c.open(); c.over {
		return
	}
	for _, name := range []string{"jobs", "other"} {
		if _, err := c.s.Queue(name); err != nil {
			c.create(name)
		}
	}
	for range rng.IntN(40) {
		name := []string{"jobs", "other"}[rng.IntN(2)]
		if c.over {
			break
		}
		switch rng.IntN(12) {
		case 0, 1:
			c.submit(name, rng.IntN(9000))
		case 2:
			c.submit(name, rng.IntN(100), rng.IntN(20_000), rng.IntN(3000))
		case 3, 4:
			c.next(name, 1+rng.IntN(3))
		case 5:
			c.delete(name)
		case 6:
			c.requeue(name, queuefs.Consumed)
		case 7:
			c.requeue(name, queuefs.Deleted)
		case 8, 9:
			c.maintain()
		case 10:
			c.checkpoint()
		case 11:
			if rng.IntN(4) == 0 {
				c.submit(name, 140<<10)
			}
		}
	}
	if rng.IntN(3) > 0 {
		c.close()
		return
	}
	// The machine stops in the middle: all later steps fail.
	f.lock <- struct{}{}
	f.at, f.stops, f.done, f.err = f.n+1, true, false, errInjected
	<-f.lock
	c.close()
}

// settle finds out which of the possible worlds is there, after one of the
// things that happen to a home nobody has open.
func (c *scenario) settle(t *testing.T, rng *rand.Rand) {
	switch rng.IntN(6) {
	case 0:
		if r, err := check.Home(c.dir, check.Options{Rebuild: true, Segment: smallSegment, Now: c.o.Now}); err != nil || len(r.Problems) > 0 {
			t.Errorf("rebuild: %v, %+v", err, r)
		}
		// It lists what a creation that failed has left.
		for _, w := range c.outcomes() {
			for _, name := range []string{"jobs", "other"} {
				if _, err := os.Stat(filepath.Join(c.dir, "queues", name)); err == nil && w[name].byID == nil {
					w[name] = jobs{byID: map[queuefs.JobID]fact{}}
				}
			}
		}
	case 1:
		if r, err := check.Home(c.dir, check.Options{Repair: true, Segment: smallSegment, Now: c.o.Now}); err != nil || len(r.Problems) > 0 {
			t.Errorf("repair: %v, %+v", err, r)
		}
		defer c.moveByHand(t, rng)
	case 2:
		// Without it nothing tells a move by hand from a crash, and the journal rules.
		if !c.moved {
			os.Remove(filepath.Join(c.dir, "log/index/checkpoint"))
		}
	}
	c.moved = false
	s, err := queuefs.Open(c.dir, queuefs.Options{Segment: smallSegment, Now: c.o.Now})
	if err != nil {
		t.Fatal(err)
	}
	c.f.follow(s)
	got := observe(t, s)
	is := -1
	for i, w := range c.outcomes() {
		if w.difference(got) == "" {
			is = i
		}
	}
	if is < 0 {
		for i, w := range c.outcomes() {
			t.Errorf("outcome %d: %s", i, w.difference(got))
		}
		s.Close()
		return
	}
	c.known = c.outcomes()[is]
	for _, q := range s.Queues() {
		c.f.check(q)
	}
	closeHome(t, s)
	v := verifier{TB: t, dir: c.dir, o: queuefs.Options{Segment: smallSegment, Now: c.o.Now}, f: c.f}
	v.checkFiles(c.known)
}

// moveByHand requeues a job the way an operator does.
func (c *scenario) moveByHand(t *testing.T, rng *rand.Rand) {
	ids := c.known.ids("jobs", queuefs.Consumed)
	if len(ids) == 0 || t.Failed() {
		return
	}
	id := ids[rng.IntN(len(ids))]
	base := filepath.Join(c.dir, "queues/jobs")
	if err := os.Rename(filepath.Join(base, "consumed", id.String()), filepath.Join(base, "pending", id.String())); err != nil {
		t.Error(err)
	}
	c.moved = true
	c.known = c.known.set("jobs", id, func(f *fact) { f.status, f.consumer, f.requeues = queuefs.Pending, "", f.requeues+1 })
}

// What the journal still has of earlier events is there after a clean stop.
func TestEventsAreReadAcrossRestarts(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	for range 3 {
		submit(t, q, queuefs.Meta{}, "x")
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	submit(t, q, queuefs.Meta{}, "y")
	want, err := q.Events(0, 10)
	if err != nil || len(want) != 4 {
		t.Fatalf("got %v, %v, want four events", want, err)
	}
	for range 2 {
		closeHome(t, s)
		s, q = openHome(t, dir, queuefs.Options{})
		got, err := q.Events(0, 10)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v\nwant %v", got, err, want)
		}
	}
	submit(t, q, queuefs.Meta{}, "z")
	if got, err := q.Events(3, 10); err != nil || len(got) != 2 || got[0] != want[3] || got[1].Seq != 5 {
		t.Errorf("got %v, %v, want the fourth event and a fifth", got, err)
	}
	closeHome(t, s)
}
