package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
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
	most := slices.Max(o.clients)
	switch kind {
	case "single":
		for _, size := range o.sizes {
			for _, clients := range o.clients {
				all = append(all, measurement{o, kind, size, clients})
			}
		}
	case "batch", "mixed", "steady", "pending", "many":
		all = append(all, measurement{o, kind, o.sizes[0], most})
	default:
		return nil, fmt.Errorf("unknown kind %.40q", kind)
	}
	return all, nil
}

// suits reports whether the subject can do it.
func (m measurement) suits(s subject) bool {
	switch m.kind {
	case "single", "batch":
		return true
	case "mixed", "steady":
		return s.start != nil
	}
	return s.cutie
}

// count is the number of jobs that take a few seconds.
func (m measurement) count() int64 {
	share := int64(min(max(m.clients/8, 1), 4))
	n := map[bool]int64{true: 10000, false: 2000}[m.size <= 4096] * share
	if m.size > 256<<10 {
		n = 200 * share
	}
	if m.jobs > 0 {
		n = m.jobs
	}
	return max(n, int64(m.clients))
}

// measure does it with one subject, in a directory of its own.
func (m measurement) measure(ctx context.Context, s subject, parent string) (all []result, err error) {
	dir, err := os.MkdirTemp(parent, m.kind+"-*")
	if err != nil {
		return nil, err
	}
	// What was written before must not disturb.
	if d, err := os.Open(dir); err == nil {
		err = errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
		if err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, m.rest); err != nil {
		return nil, err
	}
	defer func() {
		for i := range all {
			all[i].Kind = m.kind
		}
	}()
	switch m.kind {
	case "pending":
		return m.measurePending(ctx, s, dir)
	case "many":
		return m.measureMany(ctx, s, dir)
	}
	one := load{phase: submit, clients: m.clients, size: m.size, batch: 1, jobs: m.count()}
	if m.kind == "batch" && s.cutie {
		one.batch, one.jobs = m.batch, 2*one.jobs
	}
	loads := []load{one, one}
	loads[1].phase = consume
	switch m.kind {
	case "mixed":
		loads = []load{one}
		loads[0].phase = mixed
	case "steady":
		loads[0] = load{phase: mixed, clients: m.clients, size: m.size, batch: 1, lasts: m.part(12)}
		loads[1] = loads[0]
		loads[1].lasts = m.part(1)
	}
	if s.script != nil {
		for _, l := range loads {
			r, err := s.script(ctx, dir, l)
			if err != nil {
				return all, err
			}
			all = append(all, r)
		}
		return all, nil
	}
	err = m.with(ctx, s, dir, func(srv *server) error {
		if m.kind == "steady" && s.cutie {
			if _, err := srv.ask(ctx, http.MethodPost, "/state/jobs?cullingSizeThreshold="+strconv.Itoa(m.keep), http.StatusOK); err != nil {
				return err
			}
		}
		all, err = srv.loads(ctx, loads)
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
func (s *server) loads(ctx context.Context, loads []load) (all []result, err error) {
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
	p := result{setting: r.setting, Seconds: float64(len(some))}
	p.Phase = name
	for _, jobs := range some {
		p.Jobs += jobs
	}
	p.Rate = float64(p.Jobs) / max(p.Seconds, 1)
	return p
}

// part is an nth of the time that loads last.
func (m measurement) part(n int) time.Duration {
	return time.Duration(m.seconds) * time.Second / time.Duration(n)
}

// with starts the subject on the directory while do runs.
func (m measurement) with(ctx context.Context, s subject, dir string, do func(*server) error) error {
	srv, err := s.start(ctx, dir, m.size)
	if err != nil {
		return err
	}
	return errors.Join(do(srv), srv.stop())
}

// measurePending fills a queue in batches, starts anew, and changes jobs at a steady rate
// while others are looked for in the open Change List.
func (m measurement) measurePending(ctx context.Context, s subject, dir string) (all []result, err error) {
	err = m.with(ctx, s, dir, func(srv *server) error {
		all, err = srv.loads(ctx, []load{{phase: submit, clients: min(m.clients, 16), size: m.size, batch: m.batch, jobs: m.pending}})
		return err
	})
	if err != nil {
		return all, err
	}
	all[1].Disk = diskUsage(dir) // after the stop
	err = m.with(ctx, s, dir, func(srv *server) error {
		all = append(all, m.row("start", 1, srv.began))
		over, stop := context.WithCancel(ctx)
		var took []time.Duration
		probed := make(chan error, 1)
		go func() {
			var err error
			took, err = srv.probe(over)
			probed <- err
		}()
		r, err := load{phase: mixed, clients: m.clients, size: m.size, batch: 1, rate: m.rate / 2, lasts: m.part(1)}.run(ctx, srv)
		stop()
		if err = errors.Join(err, <-probed); err != nil {
			return err
		}
		slices.Sort(took)
		seen := m.row("listed", int64(len(took)), m.part(1))
		seen.P50, seen.P99, seen.P999 = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999)
		all = append(all, r, seen)
		return nil
	})
	return all, err
}

func (m measurement) row(phase string, jobs int64, took time.Duration) result {
	return result{setting: setting{Phase: phase, Size: m.size, Clients: m.clients, Batch: 1},
		Jobs: jobs, Seconds: took.Seconds(), Rate: float64(jobs) / max(took.Seconds(), 1e-9)}
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

// measureMany creates queues with a job each, and looks at a daemon at rest before and
// after a restart.
func (m measurement) measureMany(ctx context.Context, s subject, dir string) (all []result, err error) {
	err = m.with(ctx, s, dir, func(srv *server) error {
		for _, phase := range []struct{ name, method, path string }{{"create", http.MethodPut, "/state/q%06d"}, {submit, http.MethodPost, "/content/q%06d"}} {
			before, err := srv.spent()
			if err != nil {
				return err
			}
			began := time.Now()
			if err := srv.each(ctx, m.clients, m.queues, phase.method, phase.path); err != nil {
				return err
			}
			r := m.row(phase.name, int64(m.queues), time.Since(began))
			after, err := srv.spent()
			if err != nil {
				return err
			}
			r.CPU, r.RSS = micros(after-before, r.Jobs), srv.watch().end().rss
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	err = m.with(ctx, s, dir, func(srv *server) error {
		all = append(all, m.row("start", 1, srv.began))
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
		r := m.row("idle", 0, m.part(parts))
		after, err := srv.spent()
		u := srv.watch().end()
		r.CPU, r.RSS, r.Disk = float64((after-before)/time.Microsecond)/r.Seconds, u.rss, u.disk // of each second
		all = append(all, r)
		return err
	})
	return all, err
}

// each sends a request for every queue, by some clients at once.
func (s *server) each(ctx context.Context, clients, queues int, method, path string) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, clients)
	for i := range errs {
		wait.Go(func() {
			for n := next.Add(1); n <= int64(queues) && errs[i] == nil; n = next.Add(1) {
				_, errs[i] = s.ask(ctx, method, fmt.Sprintf(path, n), http.StatusCreated)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// asker keeps a connection for each client of [server.each].
var asker = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: patience}

// ask sends a request, with a payload if it submits, and returns the body.
func (s *server) ask(ctx context.Context, method, path string, want int) ([]byte, error) {
	var body io.Reader
	if want == http.StatusCreated && method == http.MethodPost {
		stamp, rest := s.made.next()
		body = bytes.NewReader(append(stamp, rest...))
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	answer, err := asker.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %.200s", method, path, answer.Status, text)
	}
	return text, err
}
