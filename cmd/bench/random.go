package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
)

// headroom is how many jobs at the head stay free for the first takes after each start.
const headroom = 8

// A leased job is to be reported on.
type leased struct{ job, token string }

// measureRandom fills a queue with small jobs and measures what depends on how many there
// are: starting, memory, space, and changes of jobs in random order.
func (m measurement) measureRandom(ctx context.Context, s subject, dir string, one load) (all []result, err error) {
	add := func(r result, err error) error {
		all = append(all, r)
		return err
	}
	all, err = m.fill(ctx, s, dir, one)
	if err != nil {
		return all, err
	}
	all = append(all, m.space("filled", dir)...)
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		err := add(srv.first(ctx, "start"))
		if err != nil {
			return err
		}
		one.jobs = min(one.jobs, m.pending/4)
		state := one
		state.phase, state.clients = "state", 1 // how long it takes, not how many there are a second
		state.do = func(c *httpClient) error {
			return c.change("GET", fmt.Sprintf("/state/jobs/j%012d", 1+rand.Int64N(m.pending)), "", http.StatusOK)
		}
		if err := add(state.run(ctx, srv)); err != nil {
			return err
		}
		var mu sync.Mutex
		var taken []leased
		take := one
		take.phase, take.jobs = "lease", 2*one.jobs
		take.do = func(c *httpClient) error {
			l, err := c.lease()
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, l)
			return err
		}
		if err := add(take.run(ctx, srv)); err != nil {
			return err
		}
		half := len(taken) / 2
		if err := add(report("report in order", one, taken[:half]).run(ctx, srv)); err != nil {
			return err
		}
		rest := taken[half:]
		rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		return add(report("report at random", one, rest).run(ctx, srv))
	})
	if err != nil {
		return all, err
	}
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		err := m.changeAtRandom(ctx, srv, one, add)
		return errors.Join(err, srv.cmd.Process.Kill())
	})
	if err != nil {
		return all, err
	}
	err = s.with(ctx, dir, m.size, func(srv *server) error {
		return errors.Join(add(srv.first(ctx, "start after kill")), srv.settle(ctx))
	})
	return append(all, m.space("changed", dir)...), err
}

// changeAtRandom holds and releases jobs all over the queue, so that each checkpoint has
// pages of everywhere, while other clients submit.
func (m measurement) changeAtRandom(ctx context.Context, srv *server, one load, add func(result, error) error) error {
	const step = 1_000_003 // a prime: the next job is far away, and each has its turn
	first := 2*one.jobs + headroom
	span := m.pending - first
	if span < 1 {
		return fmt.Errorf("--pending: %d jobs are too few to change some of them", m.pending)
	}
	var turn atomic.Int64
	change, beside := one, one
	change.phase, change.jobs, change.rate, change.lasts = "change at random", 0, m.rate, m.part(1)
	change.do = func(c *httpClient) error {
		n := turn.Add(1) - 1
		verb := "hold"
		if n/span%2 == 1 {
			verb = "release"
		}
		return c.change("POST", fmt.Sprintf("/%s/jobs/j%012d", verb, first+1+n*step%span), "", http.StatusOK)
	}
	beside.phase, beside.jobs, beside.rate, beside.lasts = "submit beside", 0, max(1, m.rate/10), m.part(1)
	beside.clients = min(m.clients, 8)
	var submitted result
	var failed error
	var other sync.WaitGroup
	other.Go(func() { submitted, failed = beside.run(ctx, srv) })
	err := add(change.run(ctx, srv))
	other.Wait()
	return errors.Join(err, add(submitted, failed))
}

// report is a load that ends leases one after another.
func report(phase string, one load, some []leased) load {
	var turn atomic.Int64
	one.phase, one.jobs = phase, int64(len(some))
	one.do = func(c *httpClient) error {
		l := some[turn.Add(1)-1]
		return c.change("POST", "/outcome/jobs/"+l.job+"?outcome=completed", "Cutie-Lease: "+l.token+"\r\n", http.StatusOK)
	}
	return one
}

// space returns the sizes of the table, and of the home without published documents.
func (m measurement) space(when, dir string) []result {
	home := filepath.Join(dir, "home")
	s := result{setting: setting{Size: m.size, Clients: 1}}
	table, rest := s.row("table "+when, m.pending, 0), s.row("home "+when, m.pending, 0)
	table.Disk = diskUsage(filepath.Join(home, "log", "table"))
	rest.Disk = diskUsage(home) - diskUsage(filepath.Join(home, "resourcesync"))
	table.Rate, rest.Rate = 0, 0
	return []result{table, rest}
}

// first takes a job as soon as the server answers: the time and the processor since it was
// started, and its memory then.
func (s *server) first(ctx context.Context, phase string) (r result, err error) {
	if _, err = s.ask(ctx, http.MethodPost, "/consume/jobs", http.StatusOK); err != nil {
		return r, err
	}
	r = result{setting: setting{Size: s.made.size, Clients: 1}}.row(phase, 1, s.sinceStart())
	spent, err := s.spent()
	r.CPU = micros(spent, 1)
	status, failed := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for what, to := range map[string]*int64{"\nVmRSS:": &r.RSS, "\nRssAnon:": &r.Anon} {
		_, after, _ := bytes.Cut(status, []byte(what))
		if words := bytes.Fields(after); len(words) > 0 {
			kb, _ := strconv.ParseInt(string(words[0]), 10, 64)
			*to = kb << 10
		}
	}
	return r, errors.Join(err, failed)
}

// change sends a request without a body, and reads the answer.
func (c *httpClient) change(method, path, header string, want int) error {
	answer, err := c.exchange(net.Buffers{fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n%s\r\n",
		method, path, c.address, header)}, want)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return err
}

// lease takes a job for an hour.
func (c *httpClient) lease() (l leased, err error) {
	answer, err := c.exchange(net.Buffers{fmt.Appendf(nil, "POST /consume/jobs?lease=3600 HTTP/1.1\r\nHost: %s\r\n"+
		"Accept: application/octet-stream\r\nContent-Length: 0\r\n\r\n", c.address)}, http.StatusOK)
	if err != nil {
		return l, err
	}
	err = c.job(answer.Header, answer.Body)
	_, rest := io.Copy(io.Discard, answer.Body)
	l = leased{filepath.Base(answer.Header.Get("Content-Location")), answer.Header.Get("Cutie-Lease")}
	return l, errors.Join(err, rest)
}
