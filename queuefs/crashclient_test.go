package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
)

// The child of the crash test runs clients on two queues and says on its
// standard output what it is about to do and what was acknowledged, a line
// each:
//
//	begin WORK ARGUMENTS…     done WORK ARGUMENTS…
//
// Queue "line" has many submitters and one consumer, so that the order is
// plain; queue "jobs" has everything at once. Every job and every taking has a
// name that never comes again.

// namedPayload gives a payload from its name: its size differs, and it is known.
func namedPayload(name string) string {
	size := 20
	switch name[len(name)-1] {
	case '3':
		size = 9 << 10 // above what travels in a small journal
	case '7':
		size = 3000
	}
	return strings.Repeat(name+";", size/(len(name)+1)+1)
}

type crashClient struct {
	name string
	n    int
	say  func(format string, args ...any)
	rng  *rand.Rand
}

func (c *crashClient) submit(q *queuefs.Queue, names ...string) error {
	s := q.Begin()
	defer s.Discard()
	for _, n := range names {
		c.say("begin submit %s %s", q.ID(), n)
		d, err := s.Add(queuefs.Meta{Filename: n, Sidecar: "of " + n, Batch: names[0]})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, namedPayload(n)); err != nil {
			return err
		}
	}
	jobs, err := s.Commit(ctx)
	for _, j := range jobs {
		c.say("done submit %s %s %v", q.ID(), j.Filename, j.ID)
	}
	return err
}

func (c *crashClient) take(q *queuefs.Queue, max int) error {
	c.n++
	by := fmt.Sprintf("%s-take-%d", c.name, c.n)
	c.say("begin take %s %s %d", q.ID(), by, max)
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	jobs, err := q.NextWait(wait, by, max)
	for _, j := range jobs {
		c.say("done take %s %s %v", q.ID(), by, j.ID)
	}
	if errors.Is(err, queuefs.ErrEmpty) {
		return nil
	}
	return err
}

// mixed does one thing at random.
func (c *crashClient) mixed(q *queuefs.Queue) error {
	some := func(st queuefs.Status) queuefs.JobID {
		ids := q.IDs(queuefs.ListOptions{Status: st, Limit: 50})
		if len(ids) == 0 {
			return 0
		}
		return ids[c.rng.IntN(len(ids))]
	}
	var err error
	switch k := c.rng.IntN(12); {
	case k >= 10:
		return c.work(q)
	case k < 4:
		var names []string
		for range 1 + c.rng.IntN(3) {
			c.n++
			names = append(names, fmt.Sprintf("%s-job-%d", c.name, c.n))
		}
		return c.submit(q, names...)
	case k < 7:
		return c.take(q, 1+c.rng.IntN(3))
	case k < 8:
		if id := some(queuefs.Pending); id != 0 {
			c.say("begin delete %s %v", q.ID(), id)
			if _, err = q.Delete(ctx, id); err == nil {
				c.say("done delete %s %v", q.ID(), id)
			}
		}
	default:
		if id := some(queuefs.Consumed + queuefs.Status(k-8)); id != 0 {
			c.say("begin requeue %s %v", q.ID(), id)
			if _, err = q.Requeue(ctx, id); err == nil {
				c.say("done requeue %s %v", q.ID(), id)
			}
		}
	}
	if errors.Is(err, queuefs.ErrNotPending) {
		return nil
	}
	return err
}

// work takes a job with a lease, gives a result and tells the outcome, holds,
// describes and releases another.
func (c *crashClient) work(q *queuefs.Queue) error {
	c.n++
	by := fmt.Sprintf("%s-take-%d", c.name, c.n)
	c.say("begin take %s %s 1", q.ID(), by)
	taken, err := q.Take(ctx, queuefs.Take{By: by, Lease: time.Hour})
	if errors.Is(err, queuefs.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	j := taken[0]
	c.say("done take %s %s %v", q.ID(), by, j.ID)
	if err = putResult(q, j.ID, j.Token, "out", by); err == nil {
		c.say("done result %s %v %s", q.ID(), j.ID, by)
		_, err = q.Conclude(ctx, j.ID, j.Token, queuefs.Conclusion{Outcome: queuefs.Failed, Message: by})
	}
	if errors.Is(err, queuefs.ErrLease) {
		return nil // another has requeued it meanwhile
	}
	if err != nil {
		return err
	}
	c.say("done conclude %s %v %s", q.ID(), j.ID, by)
	ids := q.IDs(queuefs.ListOptions{Status: queuefs.Pending, Limit: 50})
	if len(ids) == 0 {
		return nil
	}
	id := ids[c.rng.IntN(len(ids))]
	if held, e := q.Hold(ctx, id, by); e == nil {
		c.say("begin describe %s %v %s", q.ID(), id, by)
		if _, err = describe(q, id, "=", "of "+held.Filename+" by "+by); err == nil {
			c.say("done describe %s %v %s", q.ID(), id, by)
			_, err = q.Release(ctx, id)
		}
	} else {
		err = e
	}
	if errors.Is(err, queuefs.ErrNotPending) {
		return nil
	}
	return err
}

// crashClients is the child: it goes on until it is killed.
func crashClients(dir string) {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintf(os.Stdout, format+"\n", args...); err != nil {
			os.Exit(0) // nobody listens any more
		}
	}
	must := func(err error) {
		if err != nil {
			say("error %v", err)
			os.Exit(1)
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Behind: 256 << 10,
		Report: func(p queuefs.Problem) { say("error %v", p) }})
	must(err)
	queues := map[string]*queuefs.Queue{}
	for _, name := range []string{"line", "jobs"} {
		if queues[name], err = s.Queue(name); err != nil {
			must(err)
		}
	}
	say("ready")
	life := filepath.Base(os.Args[1]) + fmt.Sprint(os.Getpid())
	for i := range 64 {
		c := &crashClient{name: fmt.Sprintf("%s-%d", life, i), say: say, rng: rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))}
		go func() {
			for {
				switch {
				case i == 0:
					must(c.take(queues["line"], 1+c.rng.IntN(4)))
				case i < 8:
					c.n++
					must(c.submit(queues["line"], fmt.Sprintf("%s-job-%d", c.name, c.n)))
				default:
					must(c.mixed(queues["jobs"]))
				}
			}
		}()
	}
	for n := 0; ; n++ {
		must(s.Maintain(ctx))
		if n%40 == 39 {
			must(s.Checkpoint(ctx))
		}
	}
}
