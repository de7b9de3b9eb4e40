package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
)

// A many measures a home with many queues: how fast clients make them and submit a
// job to each, how long a start takes, and the costs of a daemon at rest.
type many struct {
	program, dir    string
	queues, clients int
	rest            time.Duration // how long the daemon is watched at rest
	args            []string      // further ones of the daemon
	out             io.Writer
}

func manyQueues(ctx context.Context, args []string, stdout io.Writer) error {
	m := many{out: stdout}
	f := m.flags()
	if err := f.Parse(args); err != nil {
		return &usageError{err}
	}
	if m.args = f.Args(); m.queues < 1 || m.clients < 1 {
		return usagef("%d queues by %d clients", m.queues, m.clients)
	}
	return m.run(ctx)
}

func (m *many) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("many", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringVar(&m.program, "program", "cutie", "`program` to measure")
	f.StringVar(&m.dir, "dir", os.TempDir(), "`directory` for the home; take one on the disk to be measured")
	f.IntVarP(&m.queues, "queues", "n", 3000, "`number` of queues")
	f.IntVarP(&m.clients, "clients", "c", 16, "`number` of clients")
	f.DurationVar(&m.rest, "rest", 10*time.Second, "watch the daemon at rest for this `time`")
	return f
}

func (m *many) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(m.dir, "many-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	home := filepath.Join(dir, "home")
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d queues\tseconds\ta second\tMB\tdescriptors\t%% of a core\t\n", m.queues)
	err = m.daemon(ctx, home, func(d *served) error {
		for _, phase := range []struct {
			name string
			do   func(n int) (*http.Request, error)
		}{
			{"create", func(n int) (*http.Request, error) {
				return http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s/state/q%06d", d.url, n), nil)
			}},
			{"submit", func(n int) (*http.Request, error) {
				return http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/content/q%06d", d.url, n), &payload{left: 100})
			}},
		} {
			took, err := m.all(phase.do)
			if err != nil {
				return err
			}
			d.row(w, phase.name, took, float64(m.queues)/took.Seconds(), -1)
		}
		return m.atRest(ctx, w, d)
	})
	if err == nil {
		err = m.daemon(ctx, home, func(d *served) error {
			d.row(w, "start", d.began, 0, -1)
			return m.atRest(ctx, w, d)
		})
	}
	return errors.Join(err, w.Flush())
}

// atRest prints the costs of a daemon that nobody asks for anything. It first waits
// for what follows the last change.
func (m *many) atRest(ctx context.Context, w io.Writer, d *served) error {
	if err := sleep(ctx, m.rest); err != nil {
		return err
	}
	from, err := readUsage(d.pid)
	if err != nil {
		return err
	}
	if err := sleep(ctx, m.rest); err != nil {
		return err
	}
	to, err := readUsage(d.pid)
	if err == nil {
		d.row(w, "at rest", m.rest, 0, 100*(to.CPUSeconds-from.CPUSeconds)/m.rest.Seconds())
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// all does something to every queue, with all clients at once.
func (m *many) all(request func(n int) (*http.Request, error)) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: m.clients}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, m.clients)
	began := time.Now()
	for i := range errs {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= m.queues && errs[i] == nil; n = int(next.Add(1)) {
				errs[i] = created(client, n, request)
			}
		})
	}
	wg.Wait()
	return time.Since(began), errors.Join(errs...)
}

func created(client *http.Client, n int, request func(n int) (*http.Request, error)) error {
	r, err := request(n)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s: %.200s", r.URL.Path, answer.Status, text)
	}
	return err
}

// A payload is octets of no meaning.
type payload struct{ left int }

func (p *payload) Read(b []byte) (n int, err error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n = min(p.left, len(b))
	for i := range b[:n] {
		b[i] = 'x'
	}
	p.left -= n
	return n, nil
}

// served is a daemon that runs.
type served struct {
	url   string
	pid   int
	began time.Duration // until it answered
}

// row prints the figures of a phase.
func (d *served) row(w io.Writer, name string, took time.Duration, rate, busy float64) {
	u, _ := readUsage(d.pid)
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.pid))
	second, core := "", ""
	if rate > 0 {
		second = fmt.Sprintf("%.0f", rate)
	}
	if busy >= 0 {
		core = fmt.Sprintf("%.1f", busy)
	}
	fmt.Fprintf(w, "%s\t%.2f\t%s\t%.0f\t%d\t%s\t\n", name, took.Seconds(), second, float64(u.RSS)/1e6, len(open), core)
}

// daemon serves the home while do runs.
func (m *many) daemon(ctx context.Context, home string, do func(*served) error) (err error) {
	p, d, err := serveHome(ctx, m.program, home, m.args)
	if p != nil {
		defer func() { err = errors.Join(err, p.stop()) }()
	}
	if err != nil {
		return err
	}
	return do(d)
}

// stopTime is how long a daemon may take to stop: after a burst it may have files to write.
const stopTime = 10 * time.Minute

// serveHome starts a daemon on a free port and waits until it answers. The caller stops
// the process, also after an error if there is one.
func serveHome(ctx context.Context, program, home string, args []string) (*process, *served, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	p := startPatient(ctx, append([]string{program, "serve", "--home", home, "--listen", address}, args...), stopTime)
	if err := p.ready(ctx, address); err != nil {
		return p, nil, err
	}
	d := &served{url: "http://" + address, pid: p.cmd.Process.Pid}
	answer, err := http.Get(d.url + "/readyz")
	if err != nil {
		return p, nil, err
	}
	answer.Body.Close()
	d.began = time.Since(began)
	return p, d, nil
}
