package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
)

// A steady measures a lasting load: every client submits and consumes in turn, in a
// queue with a threshold of processed jobs. A burst shows a daemon before files, culling
// and publishing have their share of the machine. One comes before the load, and one of
// another home after it: a machine shared with others is not the same all the time.
type steady struct {
	program, dir string
	seconds      int
	clients      int
	size, keep   int
	first        time.Duration // of a burst
	peers        []string
	args         []string // further ones of the daemon
	out          io.Writer
}

const (
	burstTime = 5 * time.Second
	parts     = 6 // the first and the last of so many parts of the time are compared
)

func steadyLoad(ctx context.Context, args []string, stdout io.Writer) error {
	s := steady{out: stdout, first: burstTime}
	f := s.flags()
	if err := f.Parse(args); err != nil {
		return &usageError{err}
	}
	t := s.task(s.first)
	if err := t.check(); err != nil {
		return &usageError{err}
	}
	for _, name := range s.peers {
		if steadyPeers[name].command == nil {
			return usagef("peer %.40q: not beanstalkd or redis", name)
		}
	}
	if s.args = f.Args(); s.seconds < parts || s.keep < 0 {
		return usagef("%d seconds, %d processed jobs: not at least %d and 0", s.seconds, s.keep, parts)
	}
	defer leaveProcessors()()
	return s.run(ctx)
}

func (s *steady) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("steady", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringVar(&s.program, "program", "cutie", "`program` to measure")
	f.StringVar(&s.dir, "dir", os.TempDir(), "`directory` for the home; take one on the disk to be measured")
	f.IntVar(&s.seconds, "seconds", 60, "`seconds` the load lasts")
	f.IntVarP(&s.clients, "clients", "c", 64, "`number` of clients")
	f.IntVar(&s.size, "size", 1024, "`bytes` of a job")
	f.IntVar(&s.keep, "keep", 1000, "`number` of processed jobs that the queue is to keep")
	f.StringSliceVar(&s.peers, "peers", nil, "`list` of beanstalkd, redis: the same load for these, for as long each")
	return f
}

func (s *steady) task(d time.Duration) task {
	return task{phases: []string{mixed}, clients: s.clients, size: s.size, batch: 1, duration: d}
}

func (s *steady) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(s.dir, "steady-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	home := filepath.Join(dir, "home")
	var f findings
	err = s.daemon(ctx, home, &f.stop, func(d *served) (err error) {
		if f.before, err = s.burst(ctx, d); err != nil {
			return err
		}
		seen := watch(home, d.pid)
		f.load, err = s.load(ctx, d, time.Duration(s.seconds)*time.Second)
		f.figures = seen.end()
		if err != nil {
			return err
		}
		f.unfiled = d.unfiled(ctx)
		f.counts, err = d.counts(ctx)
		return err
	})
	if err != nil {
		return err
	}
	f.left, _ = octetsOf(home)
	err = s.daemon(ctx, home, nil, func(d *served) error {
		f.start = d.began
		return nil
	})
	if err != nil {
		return err
	}
	err = s.daemon(ctx, filepath.Join(dir, "other"), nil, func(d *served) error {
		f.after, err = s.burst(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.print(&f); err != nil {
		return err
	}
	for _, name := range s.peers {
		if p := peerNamed(name); p.missing(ctx) != "" {
			fmt.Fprintf(s.out, "nopeer %s: %s\n", name, p.missing(ctx))
			continue
		}
		if err := s.peer(ctx, dir, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// steadyPeers are the peers for clients putting and taking in turn.
var steadyPeers = map[string]server{"beanstalkd": beanstalkd, "redis": redis}

// peer prints a line of figures of a peer under the same load.
func (s *steady) peer(ctx context.Context, parent, name string) error {
	return steadyPeers[name].serve(ctx, parent, s.task(s.first), func(dir string, t task, connect connector) error {
		burst, err := t.run(ctx, mixed, connect(mixed))
		if err != nil {
			return err
		}
		seen := watch(dir, t.pid)
		t.duration = time.Duration(s.seconds) * time.Second
		load, err := t.run(ctx, mixed, connect(mixed))
		f := seen.end()
		if err != nil {
			return err
		}
		each := load.each[:s.seconds]
		_, err = fmt.Fprintf(s.out, "%s: %.0f moved/s in a burst, %.0f in the first sixth, %.0f in the last, %.1f µs a move, p99 %.2f ms, %.0f MB on the disk at most, %.0f MB of memory, %d errors\n",
			name, burst.OpsPerSecond, rate(each[:len(each)/parts]), rate(each[len(each)-len(each)/parts:]), spentOn(load), load.P99, mega(f.octets), mega(f.most()), load.Errors)
		return err
	})
}

// daemon serves a home while do runs, and measures the stop.
func (s *steady) daemon(ctx context.Context, home string, stop *time.Duration, do func(*served) error) error {
	p, d, err := serveHome(ctx, s.program, home, s.args)
	if err == nil {
		err = do(d)
	}
	if p == nil {
		return err
	}
	began := time.Now()
	err = errors.Join(err, p.stop())
	if stop != nil {
		*stop = time.Since(began)
	}
	return err
}

// burst loads a daemon that has not much to do yet.
func (s *steady) burst(ctx context.Context, d *served) (result, error) {
	if err := d.keep(ctx, s.keep); err != nil {
		return result{}, err
	}
	return s.load(ctx, d, s.first)
}

// findings are the figures of a run.
type findings struct {
	before, load, after result
	figures
	counts      map[string]int64 // of jobs at the end of the load
	unfiled     string           // jobs without files then
	stop, start time.Duration
	left        int64 // octets of the home after the stop
}

// load runs the clients for a time.
func (s *steady) load(ctx context.Context, d *served, lasts time.Duration) (result, error) {
	t := s.task(lasts)
	t.pid = d.pid
	to, err := parseTarget(d.url, "jobs", "")
	if err != nil {
		return result{}, err
	}
	p, seen := newPayloads(t.size), new(nameSet)
	res, err := t.run(ctx, mixed, func(ctx context.Context, client int) (worker, error) {
		return to.connect(ctx, mixed, p.source(client), seen, t.batch)
	})
	if err == nil && res.Errors > 0 {
		err = fmt.Errorf("%d errors, such as %s", res.Errors, res.Failures[0].Text)
	}
	return res, err
}

func (s *steady) print(f *findings) error {
	each := f.load.each[:s.seconds]
	first, last := rate(each[:len(each)/parts]), rate(each[len(each)-len(each)/parts:])
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, a...)...) }
	row("load", "%d clients, %d octets, %d s, %d processed jobs to keep", s.clients, s.size, s.seconds, s.keep)
	row("burst", "%.0f moved/s before, %.0f after", f.before.OpsPerSecond, f.after.OpsPerSecond)
	row("first sixth", "%.0f moved/s, %.2f of the burst before", first, first/max(f.before.OpsPerSecond, 1))
	row("last sixth", "%.0f moved/s, %.2f of the burst after", last, last/max(f.after.OpsPerSecond, 1))
	row("processor", "%.1f µs a move, %.1f in the bursts", spentOn(f.load), spentOn(f.before, f.after))
	row("all", "%d moved, p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", f.load.Jobs, f.load.P50, f.load.P99, f.load.P999)
	row("home", "%.0f MB at most beside published documents, these %.0f MB, %.0f MB after the stop", mega(f.octets), mega(f.published), mega(f.left))
	row("memory", "%.0f MB after a sixth, %.0f MB at the end, %.0f MB at most", mega(f.memoryAt(len(each)/parts)), mega(f.memoryAt(len(f.memory)-1)), mega(f.most()))
	row("at the end", "%d processed jobs, %d pending, %s without files", f.counts["numCompletedJobs"]+f.counts["numDeletedJobs"], f.counts["numPendingJobs"], f.unfiled)
	row("stop", "%.1f s, next start answers after %.2f s", f.stop.Seconds(), f.start.Seconds())
	return w.Flush()
}

// spentOn is processor time of the daemon for a job moved, in µs.
func spentOn(runs ...result) float64 {
	var seconds, jobs float64
	for _, r := range runs {
		if r.Usage != nil {
			seconds, jobs = seconds+r.Usage.CPUSeconds, jobs+float64(r.Jobs)
		}
	}
	return 1e6 * seconds / max(jobs, 1)
}

func mega(octets int64) float64 { return float64(octets) / 1e6 }

func rate(each []int64) float64 {
	n := int64(0)
	for _, m := range each {
		n += m
	}
	return float64(n) / float64(max(len(each), 1))
}

// keep sets the threshold of processed jobs of the queue.
func (d *served) keep(ctx context.Context, n int) error {
	_, err := d.ask(ctx, http.MethodPost, "/state/jobs?"+url.Values{"cullingSizeThreshold": {strconv.Itoa(n)}}.Encode())
	return err
}

// counts returns the numbers in the state of the queue.
func (d *served) counts(ctx context.Context) (map[string]int64, error) {
	text, err := d.ask(ctx, http.MethodGet, "/state/jobs?t=anvl")
	counts := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			counts[name] = n
		}
	}
	return counts, err
}

// unfiled returns the number of jobs with files behind the journal, as text.
func (d *served) unfiled(ctx context.Context) string {
	text, _ := d.ask(ctx, http.MethodGet, "/metrics")
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "cutie_jobs_unfiled "); ok {
			return strings.TrimSpace(n)
		}
	}
	return "?"
}

func (d *served) ask(ctx context.Context, method, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.200s", method, path, answer.Status, text)
	}
	return string(text), err
}

// figures are of a home and its daemon under load.
type figures struct {
	octets    int64   // of the home on the disk, at most, without published documents
	published int64   // of these, at most
	memory    []int64 // of the daemon, each second
}

func (f *figures) memoryAt(i int) int64 {
	if i < 0 || len(f.memory) == 0 {
		return 0
	}
	return f.memory[min(i, len(f.memory)-1)]
}

func (f *figures) most() (m int64) {
	for _, n := range f.memory {
		m = max(m, n)
	}
	return m
}

// watching looks at a home and its daemon.
type watching struct {
	figures
	stop chan bool
	wait sync.WaitGroup
}

// watch looks at memory each second, and at the home as often as costs little.
func watch(home string, pid int) *watching {
	w := &watching{stop: make(chan bool)}
	w.each(time.Second, func() {
		u, _ := readUsage(pid)
		w.memory = append(w.memory, u.RSS)
	})
	w.each(2*time.Second, func() {
		octets, published := octetsOf(home)
		w.octets, w.published = max(w.octets, octets), max(w.published, published)
	})
	return w
}

// each does something again and again, at most a twentieth of the time.
func (w *watching) each(pause time.Duration, do func()) {
	w.wait.Go(func() {
		next := pause
		for {
			select {
			case <-w.stop:
				do()
				return
			case <-time.After(next):
			}
			began := time.Now()
			do()
			next = max(pause, 20*time.Since(began))
		}
	})
}

func (w *watching) end() figures {
	close(w.stop)
	w.wait.Wait()
	return w.figures
}

// octetsOf returns the space of a home on the disk: the published documents,
// and the others. Files come and go meanwhile.
func octetsOf(home string) (octets, published int64) {
	documents := filepath.Join(home, "resourcesync") + "/"
	filepath.WalkDir(home, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := e.Info(); err == nil {
			if s, ok := st.Sys().(*syscall.Stat_t); ok && strings.HasPrefix(path, documents) {
				published += 512 * s.Blocks
			} else if ok {
				octets += 512 * s.Blocks
			}
		}
		return nil
	})
	return octets, published
}
