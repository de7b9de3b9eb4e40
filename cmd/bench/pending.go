package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
)

// A pendingJobs measures a daemon with many pending jobs: how fast they come in batches, up
// to the last one; the space of the home on the disk beside that of the bare files; and,
// under changes at a steady rate, after what time the open Change List has a change.
type pendingJobs struct {
	program, dir string
	jobs         int64
	batch        int
	fillers      int // clients with batches
	clients      int // with single jobs, under the steady rate
	size         int
	rate         int // changes a second
	seconds      int
	probes       int // changes a second looked for in the list
	args         []string
	out          io.Writer
}

func measurePending(ctx context.Context, args []string, stdout io.Writer) error {
	m := pendingJobs{out: stdout}
	f := m.flags()
	if err := f.Parse(args); err != nil {
		return &usageError{err}
	}
	if m.jobs < parts || m.rate < 1 || m.seconds < 1 || m.probes < 1 {
		return usagef("%d jobs, %d changes a second, %d seconds, %d probes: not at least %d, 1, 1 and 1", m.jobs, m.rate, m.seconds, m.probes, parts)
	}
	for _, t := range []task{m.filling(0), m.changing(0)} {
		if err := t.check(); err != nil {
			return &usageError{err}
		}
	}
	m.args = f.Args()
	defer leaveProcessors()()
	return m.run(ctx)
}

func (m *pendingJobs) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("pending", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringVar(&m.program, "program", "cutie", "`program` to measure")
	f.StringVar(&m.dir, "dir", os.TempDir(), "`directory` for the home; take one on the disk to be measured")
	f.Int64VarP(&m.jobs, "jobs", "n", 1_000_000, "`number` of pending jobs")
	f.IntVar(&m.batch, "batch", 100, "`number` of these in one request")
	f.IntVar(&m.fillers, "fillers", 16, "`number` of clients that submit them")
	f.IntVarP(&m.clients, "clients", "c", 64, "`number` of clients that change single jobs")
	f.IntVar(&m.size, "size", 1024, "`bytes` of a job")
	f.IntVar(&m.rate, "rate", 10_000, "`number` of changes a second")
	f.IntVar(&m.seconds, "seconds", 60, "`seconds` the changes last")
	f.IntVar(&m.probes, "probes", 10, "`number` of changes a second looked for in the open Change List")
	return f
}

// filling is a part of the submission of the pending jobs.
func (m *pendingJobs) filling(pid int) task {
	return task{phases: []string{submit}, clients: m.fillers, jobs: m.jobs / parts, size: m.size, batch: m.batch, pid: pid}
}

// changing is the load beside the pending jobs.
func (m *pendingJobs) changing(pid int) task {
	return task{phases: []string{mixed}, clients: m.clients, duration: time.Duration(m.seconds) * time.Second, size: m.size, batch: 1, pid: pid}
}

// filled are the figures of a home with the pending jobs.
type filled struct {
	parts             []result
	bare              int64 // octets of job files and payloads, and their directories
	octets, published int64 // as octetsOf has them
}

// changed are the figures of the changes beside these jobs.
type changed struct {
	start time.Duration // until the daemon answered
	load  result
	took  []time.Duration // until the open list had a change
}

func (m *pendingJobs) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(m.dir, "pending-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	home := filepath.Join(dir, "home")
	var f filled
	if err := m.daemon(ctx, home, func(d *served) error { return m.fill(ctx, d, &f) }); err != nil {
		return err
	}
	f.octets, f.published = octetsOf(home)
	for _, name := range []string{"pending", "payload"} {
		octets, _ := octetsOf(filepath.Join(home, "queues", "jobs", name))
		f.bare += octets
	}
	if err := f.print(m); err != nil {
		return err
	}
	var c changed
	err = m.daemon(ctx, home, func(d *served) (err error) {
		c.start = d.began
		c.load, c.took, err = m.change(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	return c.print(m)
}

func (m *pendingJobs) daemon(ctx context.Context, home string, do func(*served) error) error {
	s := steady{program: m.program, args: m.args}
	return s.daemon(ctx, home, nil, do)
}

// fill submits the jobs part by part, and waits for their files.
func (m *pendingJobs) fill(ctx context.Context, d *served, f *filled) error {
	to, err := parseTarget(d.url, "jobs", "")
	if err != nil {
		return err
	}
	p, seen := newPayloads(m.size), new(nameSet)
	for range parts {
		t := m.filling(d.pid)
		res, err := t.run(ctx, submit, func(ctx context.Context, client int) (worker, error) {
			return to.connect(ctx, submit, p.source(client), seen, t.batch)
		})
		if err == nil && res.Errors > 0 {
			err = fmt.Errorf("%d errors, such as %s", res.Errors, res.Failures[0].Text)
		}
		if err != nil {
			return err
		}
		f.parts = append(f.parts, res)
	}
	for d.unfiled(ctx) != "0" {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// change runs the clients at the steady rate, and looks for changes in the open list
// meanwhile.
func (m *pendingJobs) change(ctx context.Context, d *served) (load result, took []time.Duration, err error) {
	to, err := parseTarget(d.url, "jobs", "")
	if err != nil {
		return load, nil, err
	}
	over, stop := context.WithCancel(ctx)
	probed := make(chan error, 1)
	go func() {
		var err error
		took, err = m.probe(over, d)
		probed <- err
	}()
	t, p, seen := m.changing(d.pid), newPayloads(m.size), new(nameSet)
	at := &pace{start: time.Now(), each: time.Second / time.Duration(m.rate)}
	load, err = t.run(ctx, mixed, func(ctx context.Context, client int) (worker, error) {
		w, err := to.connect(ctx, mixed, p.source(client), seen, t.batch)
		return paced{w, at}, err
	})
	stop()
	err = errors.Join(err, <-probed)
	if err == nil && load.Errors > 0 {
		err = fmt.Errorf("%d errors, such as %s", load.Errors, load.Failures[0].Text)
	}
	return load, took, err
}

// A pace is a rate for all clients together.
type pace struct {
	start time.Time
	each  time.Duration
	n     atomic.Int64
}

// next waits for the turn of an operation. One that is late has no wait, so that the rate
// holds on average.
func (p *pace) next(ctx context.Context) error {
	return sleep(ctx, time.Until(p.start.Add(time.Duration(p.n.Add(1))*p.each)))
}

// paced is a worker in a pace.
type paced struct {
	worker
	at *pace
}

func (w paced) do(ctx context.Context, limit int) (int, error) {
	if err := w.at.next(ctx); err != nil {
		return 0, err
	}
	return w.worker.do(ctx, limit)
}

// A growth reads the new end of an open list, as its followers do: by If-Range with the
// entity tag of the last time.
type growth struct {
	tag    string
	length int64 // of the whole list
}

// overlap is the number of octets read again: the end of the list is among them.
const overlap = 1 << 10

// probe submits a job now and then until ctx ends, and returns after what time the open
// Change List had it, each: from the answer to the submission to that with the list.
func (m *pendingJobs) probe(ctx context.Context, d *served) (took []time.Duration, err error) {
	at := &pace{start: time.Now(), each: time.Second / time.Duration(m.probes)}
	var list growth
	for at.next(ctx) == nil {
		n, err := d.submitOne(ctx)
		if err == nil {
			began := time.Now()
			for seen := int64(-1); seen < n && err == nil; {
				seen, err = list.highest(ctx, d)
			}
			took = append(took, time.Since(began))
		}
		switch {
		case ctx.Err() != nil:
			return took[:max(len(took)-1, 0)], nil // the last one is not over
		case err != nil:
			return took, err
		}
	}
	return took, nil
}

// submitOne submits a job and returns its number.
func (d *served) submitOne(ctx context.Context) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/content/jobs", &payload{left: 100})
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	n := jobNumber([]byte(answer.Header.Get("Location")))
	if err == nil && (answer.StatusCode != http.StatusCreated || n < 0) {
		err = fmt.Errorf("probe: %s: %.200s", answer.Status, text)
	}
	return n, err
}

// highest returns the highest job number in the new end of the open Change List, -1
// without one. Changes stand in the order of events: with a later job, the list has the
// earlier ones, or a list closed meanwhile has them.
func (l *growth) highest(ctx context.Context, d *served) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/.well-known/resourcesync/jobs/pending/changelist.xml", nil)
	if err != nil {
		return -1, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	if l.tag != "" {
		r.Header.Set("If-Range", l.tag)
		r.Header.Set("Range", "bytes="+strconv.FormatInt(max(l.length-overlap, 0), 10)+"-")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return -1, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	length := int64(len(text))
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusPartialContent:
		_, of, _ := strings.Cut(answer.Header.Get("Content-Range"), "/")
		length, err = strconv.ParseInt(of, 10, 64)
	default:
		err = fmt.Errorf("open Change List: %s: %.200s", answer.Status, text)
	}
	if err != nil {
		return -1, err
	}
	l.tag, l.length = answer.Header.Get("ETag"), length
	highest := int64(-1)
	for line := range bytes.Lines(text) {
		highest = max(highest, jobNumber(line))
	}
	return highest, nil
}

// jobNumber returns the number of the first job named in a text, -1 without one.
func jobNumber(text []byte) int64 {
	const digits = 12
	for {
		i := bytes.Index(text, []byte("/j"))
		if i < 0 {
			return -1
		}
		text = text[i+2:]
		if n, err := strconv.ParseUint(string(text[:min(digits, len(text))]), 10, 63); err == nil && len(text) >= digits {
			return int64(n)
		}
	}
}

// print prints the figures of the home with its jobs.
func (f *filled) print(m *pendingJobs) error {
	jobs, seconds := int64(0), 0.0
	for _, p := range f.parts {
		jobs, seconds = jobs+p.Jobs, seconds+p.Seconds
	}
	all := f.octets + f.published
	_, err := fmt.Fprintf(m.out, `pending jobs      %d of %d octets, in batches of %d by %d clients
came              %.0f/s, %.0f in the first sixth, %.0f in the last, %.1f µs of processor each
disk              %.0f MB after a stop, %.2f of the bare files: these %.0f MB, published documents %.0f MB, others %.0f MB
`, jobs, m.size, m.batch, m.fillers, float64(jobs)/max(seconds, 1e-9), f.parts[0].OpsPerSecond, f.parts[len(f.parts)-1].OpsPerSecond, spentOn(f.parts...),
		mega(all), float64(all)/max(float64(f.bare), 1), mega(f.bare), mega(f.published), mega(f.octets-f.bare))
	return err
}

// print prints the figures of the changes.
func (c *changed) print(m *pendingJobs) error {
	slices.Sort(c.took)
	_, err := fmt.Fprintf(m.out, `start             answers after %.2f s
changes           %.0f/s of %d for %.0f s by %d clients, %.1f µs of processor each
open Change List  has a change after %.1f ms (p50), %.1f ms (p99), %.1f ms (at most) of %d
`, c.start.Seconds(), c.load.OpsPerSecond, m.rate, c.load.Seconds, m.clients, spentOn(c.load),
		quantile(c.took, 0.5), quantile(c.took, 0.99), quantile(c.took, 1), len(c.took))
	return err
}
