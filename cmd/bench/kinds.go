package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A measurement is one kind with its settings.
type measurement struct {
	*options
	kind          string
	size, clients int
}

func (m measurement) String() string {
	return fmt.Sprintf("%s, %d bytes, %d clients", m.kind, m.size, m.clients)
}

// The first and the last of so many parts of a steady load are compared.
const parts = 6

// measurements returns those of a kind.
func (o *options) measurements(kind string) (all []measurement, err error) {
	sizes, clients := o.sizes[:1], []int{slices.Max(o.clients)}
	switch kind {
	case "single":
		sizes, clients = o.sizes, o.clients
	case "batch", "mixed", "steady", "pending", "random", "many":
	default:
		return nil, fmt.Errorf("unknown kind %.40q", kind)
	}
	for _, size := range sizes {
		for _, n := range clients {
			all = append(all, measurement{o, kind, size, n})
		}
	}
	return all, nil
}

// count is the number of jobs that take a few seconds.
func (m measurement) count(s subject) int64 {
	share := int64(min(max(m.clients/8, 1), 4))
	n := map[bool]int64{true: 10000, false: 2000}[m.size <= 4096] * share
	if m.size > 256<<10 {
		n = 200 * share
	}
	if m.jobs > 0 {
		n = m.jobs
	}
	if s.slow {
		n /= 5
	}
	return max(n, int64(m.clients))
}

// part is an nth of the time that loads last.
func (m measurement) part(n int) time.Duration {
	return time.Duration(m.seconds) * time.Second / time.Duration(n)
}

// measure does it with one subject, in a directory of its own.
func (m measurement) measure(ctx context.Context, s subject, parent string) (all []result, err error) {
	dir, err := os.MkdirTemp(parent, m.kind+"-*")
	if err != nil {
		return nil, err
	}
	unix.Sync() // what was written before must not disturb
	if err := sleep(ctx, m.rest); err != nil {
		return nil, err
	}
	load := load{phase: submit, clients: m.clients, size: m.size, batch: 1, jobs: m.count(s)}
	switch m.kind {
	case "pending":
		return m.measurePending(ctx, s, dir, load)
	case "random":
		return m.measureRandom(ctx, s, dir, load)
	case "many":
		return m.measureMany(ctx, s, dir, load)
	case "batch":
		if s.cutie {
			load.batch, load.jobs = m.batch, 2*load.jobs
		}
	case "mixed":
		load.phase = mixed
	case "steady":
		load.phase, load.jobs, load.lasts = mixed, 0, m.part(12)
	}
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		if m.kind == "steady" && s.cutie {
			if _, err := srv.ask(ctx, http.MethodPost, "/state/jobs?cullingSizeThreshold="+strconv.Itoa(m.keep), http.StatusOK); err != nil {
				return err
			}
		}
		second := load
		switch m.kind {
		case "mixed":
			all, err = srv.loads(ctx, load)
			return err
		case "steady":
			second.lasts = m.part(1)
		default:
			second.phase = consume
		}
		all, err = srv.loads(ctx, load, second)
		return err
	})
	if m.kind == "steady" && len(all) > 1 {
		all[0].Phase = "burst"
		all = append(all, all[1].part("first sixth", 0), all[1].part("last sixth", parts-1))
	}
	return all, err
}

// loads runs the loads, one after the other, and adds a row for the time until the server
// is idle again.
func (s *server) loads(ctx context.Context, loads ...load) (all []result, err error) {
	begin := time.Now()
	var sum result
	for _, l := range loads {
		r, err := l.run(ctx, s)
		if err != nil {
			return all, err
		}
		if l.phase == consume {
			r.expect(all[len(all)-1].Jobs)
		}
		all = append(all, r)
		sum.Jobs, sum.spent, sum.RSS = sum.Jobs+r.Jobs, sum.spent+r.spent, max(sum.RSS, r.RSS)
	}
	before, err := s.spent()
	if err == nil {
		err = s.settle(ctx)
	}
	if err != nil {
		return all, err
	}
	after, err := s.spent()
	sum.setting = all[len(all)-1].setting
	sum.Phase, sum.Seconds, sum.Disk = "settle", time.Since(begin).Seconds(), diskUsage(s.dir)
	sum.CPU = micros(sum.spent+after-before, sum.Jobs)
	return append(all, sum), err
}

// part is a part of a load that lasts, as a result of its own.
func (r result) part(name string, n int) result {
	some := r.each[n*len(r.each)/parts : (n+1)*len(r.each)/parts]
	var jobs int64
	for _, n := range some {
		jobs += n
	}
	return r.row(name, jobs, time.Duration(len(some))*time.Second)
}

// fill submits the jobs that are to be pending, in batches, and stops the server.
func (m measurement) fill(ctx context.Context, s subject, dir string, one load) (all []result, err error) {
	one.clients, one.batch, one.jobs = min(m.clients, 16), m.batch, m.pending
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		all, err = srv.loads(ctx, one)
		return err
	})
	return all, err
}

// measurePending fills a queue in batches, starts anew, and changes jobs at a steady rate
// while others are looked for in the open Change List.
func (m measurement) measurePending(ctx context.Context, s subject, dir string, one load) (all []result, err error) {
	all, err = m.fill(ctx, s, dir, one)
	if err != nil {
		return all, err
	}
	all[1].Disk = diskUsage(dir) // after the stop
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		over, stop := context.WithCancel(ctx)
		defer stop()
		var took []time.Duration
		probed := make(chan error, 1)
		go func() {
			var err error
			took, err = srv.probe(over)
			probed <- err
		}()
		one.phase, one.jobs, one.rate, one.lasts = mixed, 0, m.rate/2, m.part(1)
		r, err := one.run(ctx, srv)
		stop()
		if err = errors.Join(err, <-probed); err != nil {
			return err
		}
		seen := r.row("listed", int64(len(took)), m.part(1))
		seen.quantiles(took)
		all = append(all, r.row("start", 1, srv.began), r, seen)
		return nil
	})
	return all, err
}

// probe submits a job ten times a second until ctx ends, and returns after what time the
// open Change List named it, each: from the answer to the submission on.
func (s *server) probe(ctx context.Context) (took []time.Duration, err error) {
	const list = "/.well-known/resourcesync/jobs/pending/changelist.xml"
	for sleep(ctx, 100*time.Millisecond) == nil {
		text, err := s.ask(ctx, http.MethodPost, "/content/jobs?t=anvl", http.StatusCreated)
		began := time.Now()
		_, name, found := bytes.Cut(text, []byte("identifier: "))
		name, _, _ = bytes.Cut(name, []byte("\n"))
		if err == nil && !found {
			err = fmt.Errorf("submission: no identifier in %.80q", text)
		}
		for found := false; !found && err == nil; found = bytes.Contains(text, name) {
			text, err = s.ask(ctx, http.MethodGet, list, http.StatusOK)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// measureMany creates queues with a job each, and looks at a daemon at rest after a restart.
func (m measurement) measureMany(ctx context.Context, s subject, dir string, one load) (all []result, err error) {
	one.jobs = int64(m.queues)
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		for _, one.phase = range []string{create, submit} {
			one.queues, one.do = new(atomic.Int64), nil
			if one.phase == create {
				one.do = (*httpClient).create
			}
			r, err := one.run(ctx, srv)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		if err := srv.settle(ctx); err != nil {
			return err
		}
		before, err := srv.spent()
		if err == nil {
			err = sleep(ctx, m.part(parts))
		}
		if err != nil {
			return err
		}
		after, err := srv.spent()
		idle := all[0].row("idle", 0, m.part(parts))
		idle.CPU = micros(after-before, 1) / idle.Seconds // of each second
		idle.RSS, idle.Disk = srv.watch()()
		all = append(all, all[0].row("start", 1, srv.began), idle)
		return err
	})
	return all, err
}
