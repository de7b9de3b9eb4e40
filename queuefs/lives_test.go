package queuefs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/job"
	"cutie/queuefs/objects/objectstest"
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
	must(t, err)
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
	should(t, os.Rename(filepath.Join(base, "consumed", id.String()), filepath.Join(base, "pending", id.String())))
	c.moved = true
	c.known = c.known.set("jobs", id, func(f *fact) { f.status, f.consumer, f.requeues = queuefs.Pending, "", f.requeues+1 })
}

// A crowd works on queues at once and counts what was acknowledged.
type crowd struct {
	t      *testing.T
	s      *queuefs.Service
	queues []*queuefs.Queue

	mu   sync.Mutex
	jobs map[*queuefs.Queue]int
	held map[string]int // by queue and job: takings less requeues of taken jobs
}

func (c *crowd) fail(format string, args ...any) {
	if !c.t.Failed() { // one of a kind is enough
		c.t.Errorf(format, args...)
	}
}

func (c *crowd) note(q *queuefs.Queue, id queuefs.JobID, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[q.ID()+id.String()] += n
}

// act does one thing at random.
func (c *crowd) act(rng *rand.Rand) {
	q := c.queues[rng.IntN(len(c.queues))]
	some := func(st queuefs.Status) queuefs.JobID {
		ids := q.IDs(queuefs.ListOptions{Status: st, Limit: 30})
		if len(ids) == 0 {
			return 1
		}
		return ids[rng.IntN(len(ids))]
	}
	var err error
	switch rng.IntN(16) {
	case 0, 1, 2, 3:
		err = c.submit(q, rng)
	case 4, 5:
		var jobs []queuefs.Job
		if jobs, err = q.NextN(ctx, "taker", 1+rng.IntN(4)); err == nil {
			for _, j := range jobs {
				c.note(q, j.ID, 1)
				c.look(q, j)
			}
		}
	case 6:
		var j queuefs.Job
		if j, err = q.Next(ctx, "taker"); err == nil {
			c.note(q, j.ID, 1)
			c.look(q, j)
		}
	case 7:
		_, err = q.Delete(ctx, some(queuefs.Pending))
	case 8:
		var j queuefs.Job
		if j, err = q.Requeue(ctx, some(queuefs.Consumed)); err == nil {
			c.look(q, j)
		}
	case 9:
		_, err = q.Requeue(ctx, some(queuefs.Deleted))
	case 10:
		var j queuefs.Job
		if j, err = q.Peek(); err == nil {
			c.look(q, j)
		}
	case 11:
		var list []queuefs.Job
		if list, err = q.List(queuefs.ListOptions{Limit: 5, After: some(0)}); err == nil {
			for i, j := range list {
				if c.look(q, j); i > 0 && j.ID <= list[i-1].ID {
					c.fail("list is out of order: %v behind %v", j.ID, list[i-1].ID)
				}
			}
		}
	case 12:
		st := q.State()
		if st.Pending < 0 || st.Consumed < 0 || st.Deleted < 0 || uint64(st.Seq) < uint64(st.Pending+st.Consumed+st.Deleted) {
			c.fail("state: got %+v", st)
		}
	case 13:
		c.files(q, some(0))
	case 14:
		err = c.s.Maintain(ctx)
	case 15:
		if rng.IntN(8) == 0 {
			err = c.s.Checkpoint(ctx)
		}
	}
	if err != nil && !errors.Is(err, queuefs.ErrEmpty) && !errors.Is(err, queuefs.ErrNoJob) && !errors.Is(err, queuefs.ErrNotPending) {
		c.fail("%v", err)
	}
}

func (c *crowd) submit(q *queuefs.Queue, rng *rand.Rand) error {
	s := q.Begin()
	defer s.Discard()
	n := 1 + rng.IntN(3)
	for range n {
		name := fmt.Sprint(rng.Uint64())
		d, err := s.Add(queuefs.Meta{Filename: name, Sidecar: "of " + name, MediaType: fmt.Sprint("x/", rng.IntN(9))})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, namedPayload(name)); err != nil {
			return err
		}
	}
	if rng.IntN(10) == 0 {
		return nil // thought better of it
	}
	jobs, err := s.Commit(ctx)
	for i, j := range jobs {
		if i > 0 && j.ID != jobs[i-1].ID+1 {
			c.fail("batch: got %v behind %v", j.ID, jobs[i-1].ID)
		}
		c.look(q, j)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[q] += len(jobs)
	return err
}

// look tests that a job is whole and its payload its own.
func (c *crowd) look(q *queuefs.Queue, j queuefs.Job) {
	p, err := q.Payload(j.ID)
	if err != nil {
		c.fail("payload of %v, %v: %v", j.ID, j.Status, err)
		return
	}
	defer p.Close()
	data, err := io.ReadAll(p)
	if want := namedPayload(j.Filename); err != nil || string(data) != want || j.Size != int64(len(want)) || j.Sidecar != "of "+j.Filename {
		c.fail("%v: got %d octets of %q, %v", j.ID, len(data), j.Filename, err)
	}
	if (j.Status == queuefs.Consumed) != !j.Begun().IsZero() || j.Attempts > 0 && j.Consumed.IsZero() || j.Extra != nil {
		c.fail("%v: got %+v", j.ID, j)
	}
}

// files tests that the job file of a status, if it is there, says so.
func (c *crowd) files(q *queuefs.Queue, id queuefs.JobID) {
	for st := queuefs.Pending; st <= queuefs.Deleted; st++ {
		text, facts, err := q.JobFile(id, st)
		if errors.Is(err, queuefs.ErrNoJob) {
			continue
		}
		if err != nil {
			c.fail("job file of %v: %v", id, err)
			return
		}
		j, err := job.Parse(text)
		if err != nil || j.Status != st || j.ID != id || sha256.Sum256(text) != facts.SHA256 || int64(len(text)) != facts.Length {
			c.fail("%v file of %v: %v: %s", st, id, err, text)
		}
	}
}

// read follows the events of a queue: nothing is missing, nothing comes twice.
func (c *crowd) read(ctx context.Context, q *queuefs.Queue) {
	var seq queuefs.Seq
	stands := map[queuefs.JobID]queuefs.Status{}
	for q.Wait(ctx, seq) == nil {
		events, err := q.Events(seq, 50)
		if err != nil && !errors.Is(err, queuefs.ErrGone) {
			c.fail("events: %v", err)
			return
		}
		if errors.Is(err, queuefs.ErrGone) {
			// A checkpoint was faster, as it may be. Begin anew.
			seq = q.Seq()
			clear(stands)
			continue
		}
		for _, e := range events {
			if was, seen := stands[e.Job]; e.Seq != seq+1 || seen && was != e.From {
				c.fail("event %d after %d: %v of %v from %v, was %v", e.Seq, seq, e.Kind, e.Job, e.From, was)
				return
			}
			seq, stands[e.Job] = e.Seq, e.To
		}
	}
}

// TestCrowd has 64 clients and some readers on three queues.
func TestCrowd(t *testing.T) {
	each := long.N(40, 120)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Behind: 200 << 10})
	f := newFollower(t)
	f.follow(s)
	c := &crowd{t: t, s: s, queues: []*queuefs.Queue{q}, jobs: map[*queuefs.Queue]int{}, held: map[string]int{}}
	for _, name := range []string{"second", "third"} {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: name, CullingSize: -1, CullingAge: -1})
		must(t, err)
		c.queues = append(c.queues, q)
	}
	reading, stop := context.WithCancel(ctx)
	var readers, clients sync.WaitGroup
	for _, q := range c.queues {
		readers.Go(func() { c.read(reading, q) })
	}
	var left atomic.Int64
	left.Store(64 * int64(each))
	for i := range 64 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for left.Add(-1) >= 0 && !t.Failed() {
				c.act(rng)
			}
		})
	}
	clients.Wait()
	stop()
	readers.Wait()
	for _, q := range c.queues {
		f.check(q)
		for _, e := range f.seen[q.ID()] {
			if e.Kind == queuefs.Requeue && e.From == queuefs.Consumed {
				c.held[q.ID()+e.Job.String()]--
			}
		}
		st := q.State()
		if int(st.Pending+st.Consumed+st.Deleted) != c.jobs[q] {
			t.Errorf("%s: got %+v, %d were acknowledged", q.ID(), st, c.jobs[q])
		}
		for _, id := range q.IDs(queuefs.ListOptions{Limit: 1 << 20}) {
			want := 0
			if st, _ := q.Status(id); st == queuefs.Consumed {
				want = 1
			}
			if got := c.held[q.ID()+id.String()]; got != want {
				t.Errorf("%s/%v was handed out %d times more than it came back, want %d", q.ID(), id, got, want)
			}
		}
	}
	w := observe(t, s)
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}, f: f}
	v.verify(w)
}

// TestNothingShowsBeforeItIsStored looks at the queue from inside the sync of
// each operation.
func TestNothingShowsBeforeItIsStored(t *testing.T) {
	var look func()
	s, q := openHome(t, fastDir(t), queuefs.Options{Fault: func(step string, do func() error) error {
		if look != nil && (step == "journal write" || step == "journal sync") {
			look()
		}
		return do()
	}})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{}, "a")
	submit(t, q, queuefs.Meta{}, "b")
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"submit", func() error { submit(t, q, queuefs.Meta{}, "c"); return nil }},
		{"next", func() error { _, err := q.Next(ctx, "w"); return err }},
		{"delete", func() error { _, err := q.Delete(ctx, 2); return err }},
		{"requeue", func() error { _, err := q.Requeue(ctx, 1); return err }},
	} {
		before, state := observe(t, s), q.State()
		looked := 0
		look = func() {
			looked++
			if d := before.difference(observe(t, s)); d != "" {
				t.Errorf("%s shows early: %s", op.name, d)
			}
			if got := q.State(); got.Seq != state.Seq || got.Pending != state.Pending || got.Consumed != state.Consumed || got.Deleted != state.Deleted {
				t.Errorf("%s shows early: got %+v want %+v", op.name, got, state)
			}
			if events, err := q.Events(state.Seq, 1); len(events) != 0 || err != nil {
				t.Errorf("%s shows early: %v, %v", op.name, events, err)
			}
		}
		if err := op.do(); err != nil || looked != 2 {
			t.Errorf("%s: %v, looked %d times", op.name, err, looked)
		}
		look = nil
		if d := before.difference(observe(t, s)); d == "" {
			t.Errorf("%s does not show", op.name)
		}
	}
}

// Every change that finds another owner of the home fails as others do after it: with
// ErrFailed, and ErrFenced as the reason.
func TestEveryChangeOfAFormerOwnerFailsAlike(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *queuefs.Service, q *queuefs.Queue) error{
		"submit": func(_ *queuefs.Service, q *queuefs.Queue) error {
			_, err := trySubmit(q, "late")
			return err
		},
		"delete": func(_ *queuefs.Service, q *queuefs.Queue) error {
			_, err := q.Delete(ctx, 1)
			return err
		},
		"remove a queue": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.RemoveQueue(ctx, "bare") },
		"create a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"})
			return err
		},
		"create a queue with a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new", Callback: "https://a.example/secret?x=y"})
			return err
		},
		"set a queue": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error {
				i.Description = "new"
				return nil
			})
			return err
		},
		"set a callback": func(s *queuefs.Service, _ *queuefs.Queue) error {
			_, err := s.SetQueue(ctx, "q", func(i *queuefs.QueueInfo) error {
				i.Callback = "https://a.example/secret?x=y"
				return nil
			})
			return err
		},
		"set the service": func(s *queuefs.Service, _ *queuefs.Queue) error {
			return s.SetService(ctx, func(i *queuefs.ServiceInfo) error {
				i.Description = "new"
				return nil
			})
		},
		"checkpoint": func(s *queuefs.Service, _ *queuefs.Queue) error { return s.Checkpoint(ctx) },
	} {
		m := new(objectstest.Memory)
		a := mustStored(t, fastDir(t)+"/a", m)
		a.Follow(current{}) // else journal is kept for an absent follower
		createQueue(t, a, queuefs.QueueInfo{Identifier: "bare"})
		q := createQueue(t, a, queuefs.QueueInfo{Identifier: "q"})
		for range 3 { // the next checkpoint releases journal
			submit(t, q, queuefs.Meta{}, "payload")
			must(t, a.ImageAhead(ctx))
		}
		b := mustStored(t, fastDir(t)+"/b", m)
		if err := change(a, q); !errors.Is(err, queuefs.ErrFailed) || !errors.Is(err, queuefs.ErrFenced) {
			t.Errorf("%s: got %v", name, err)
		}
		if a.Close() == nil {
			t.Errorf("%s: a fenced service is closed without an error", name)
		}
		closeHome(t, b)
	}
}
