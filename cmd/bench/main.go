// Command bench measures cutie and, in the same way, other queues on this machine. Each
// server is started on an empty directory. An operation counts when it is on stable storage
// of the server; payloads are compared, and each job must come exactly once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

const usage = `usage: bench [OPTION…] [KIND…] [-- OPTION OF cutie serve…]

Kinds of measurement; without one: single, batch and steady.
  single   clients submit jobs, then consume them, a request each
  batch    the same with many jobs in a request; peers move one job a request
  mixed    each client submits and consumes in turn
  steady   mixed for --seconds, with few processed jobs kept; a burst comes first
  pending  --pending jobs come in batches; after a restart they change at --rate,
           and jobs are looked for in the open Change List
  random   --pending jobs come in batches; then what depends on how many there are: a start
           until the first take, after a stop and after kill -9, memory and space, states of
           random jobs, reports in order and at random, and submissions beside --rate
           changes of random jobs a second for --seconds
  many     --queues queues are created, with a job each; then a restart and a rest

In each round the programs and peers take turns, each with an empty directory. The last
table has medians over the rounds; its ratio is the rate of the first program divided by
that of the row. cpu is processor time of the server for each job moved; the row "settle"
has all of it, until the server was idle again, and the row "idle" that of a second. An exit code of 1 means errors; they are
printed.

Peers, as far as they are installed:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == bareVerb {
		exit(serveBare(ctx, os.Args[2], os.Args[3]))
	}
	exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	var wrong *usageError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "bench: %v\nhint: bench --help lists kinds and options\n", err)
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	os.Exit(1)
}

// usageError is a complaint about the command line.
type usageError struct{ error }

// options are the settings of a whole run.
type options struct {
	programs, peers []string
	sizes, clients  []int
	rounds, seconds int
	jobs            int64 // of each phase; 0: chosen for a few seconds
	batch, keep     int
	pending         int64
	queues, rate    int
	rest            time.Duration
	dir, json       string
	serve           []string // further options of cutie serve
}

func (o *options) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringSliceVar(&o.programs, "program", []string{"bin/cutie"}, "`path` of cutie; repeat it to compare versions; empty: peers alone")
	f.StringSliceVar(&o.peers, "peers", peerNames(), "`names` of other servers to measure")
	f.IntSliceVar(&o.sizes, "size", []int{1024, 65536, 1 << 20}, "`bytes` of a job (single)")
	f.IntSliceVarP(&o.clients, "clients", "c", []int{1, 8, 64}, "`numbers` of clients (single); other kinds use the largest")
	f.IntVar(&o.rounds, "rounds", 2, "`number` of rounds")
	f.Int64VarP(&o.jobs, "jobs", "n", 0, "`number` of jobs of a phase; 0: as many as take a few seconds")
	f.IntVar(&o.batch, "batch", 100, "`number` of jobs in a request (batch, pending, random)")
	f.IntVar(&o.seconds, "seconds", 60, "`seconds` of a load that lasts (steady, pending, random)")
	f.IntVar(&o.keep, "keep", 1000, "`number` of processed jobs that are kept (steady)")
	f.Int64Var(&o.pending, "pending", 1_000_000, "`number` of jobs (pending, random)")
	f.IntVar(&o.rate, "rate", 5000, "`changes` a second (pending, random)")
	f.IntVar(&o.queues, "queues", 3000, "`number` of queues (many)")
	f.DurationVar(&o.rest, "rest", time.Second, "wait this `time` before each measurement")
	f.StringVar(&o.dir, "dir", ".bench", "`directory` for all files; take one on the disk to be measured")
	f.StringVar(&o.json, "json", "", "write each result as a line of JSON to this `file`")
	return f
}

func (o *options) check() error {
	for what, n := range map[string]int64{"size": int64(slices.Min(o.sizes)), "jobs": o.jobs, "keep": int64(o.keep)} {
		if n < 0 {
			return fmt.Errorf("--%s: %d is less than 0", what, n)
		}
	}
	for what, n := range map[string]int64{"clients": int64(slices.Min(o.clients)), "rounds": int64(o.rounds), "batch": int64(o.batch),
		"pending": o.pending, "rate": int64(o.rate), "queues": int64(o.queues)} {
		if n < 1 {
			return fmt.Errorf("--%s: %d is less than 1", what, n)
		}
	}
	if o.seconds < parts {
		return fmt.Errorf("--seconds: %d is less than %d", o.seconds, parts)
	}
	return nil
}

// command carries out the arguments.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := o.flags()
	if err := f.Parse(args); errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		for _, p := range peers {
			fmt.Fprintf(stdout, "  %-11s %s\n", p.name, p.about)
		}
		_, err = fmt.Fprintf(stdout, "\nOptions:\n%s", f.FlagUsages())
		return err
	} else if err != nil {
		return &usageError{err}
	}
	names := f.Args()
	if at := f.ArgsLenAtDash(); at >= 0 {
		names, o.serve = f.Args()[:at], f.Args()[at:]
	}
	if len(names) == 0 {
		names = []string{"single", "batch", "steady"}
	}
	if err := o.check(); err != nil {
		return &usageError{err}
	}
	subjects, err := o.subjects(ctx, stderr)
	if err != nil {
		return &usageError{err}
	}
	var todo []measurement
	for _, name := range names {
		some, err := o.measurements(name)
		if err != nil {
			return &usageError{err}
		}
		todo = append(todo, some...)
	}
	defer leaveProcessors()()
	return o.run(ctx, subjects, todo, stdout, stderr)
}

// run lets the subjects take turns at each measurement, round by round. Files are removed
// at the end of a round: some file systems are slow for a minute after that, so the next
// round waits.
func (o *options) run(ctx context.Context, subjects []subject, todo []measurement, stdout, stderr io.Writer) (err error) {
	log := io.Discard
	if o.json != "" {
		file, err := os.Create(o.json)
		if err != nil {
			return err
		}
		defer file.Close()
		log = file
	}
	var all []result
	for round := range o.rounds {
		if round > 0 {
			if err := sleep(ctx, time.Minute); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(o.dir, 0o777); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(o.dir, "round-*")
		if err != nil {
			return err
		}
		for _, m := range todo {
			for _, s := range subjects {
				if !s.cutie && slices.Contains([]string{"pending", "random", "many"}, m.kind) {
					continue
				}
				fmt.Fprintf(stderr, "bench: round %d of %d: %s, %s\n", round+1, o.rounds, m, s.name)
				results, failed := m.measure(ctx, s, dir)
				for _, r := range results {
					r.Kind, r.Server = m.kind, s.name
					all = append(all, r)
					err = errors.Join(err, json.NewEncoder(log).Encode(r))
				}
				if failed != nil {
					err = errors.Join(err, fmt.Errorf("%s, %s: %w", m, s.name, failed))
				}
				if ctx.Err() != nil {
					return errors.Join(err, os.RemoveAll(dir))
				}
			}
		}
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return errors.Join(writeTable(stdout, all), err)
		}
	}
	for _, r := range all {
		if r.Errors > 0 {
			err = errors.Join(err, fmt.Errorf("%s, %s: %d errors, the first one: %s", r.setting, r.Server, r.Errors, r.Failure))
		}
	}
	return errors.Join(writeTable(stdout, all), err)
}

// subjects are the programs and those peers that are installed.
func (o *options) subjects(ctx context.Context, stderr io.Writer) (all []subject, err error) {
	for _, path := range o.programs {
		if path == "" {
			continue // peers alone
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		name := "cutie"
		if len(o.programs) > 1 {
			name = filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
		}
		all = append(all, cutie(name, path, o.serve))
	}
	for _, name := range o.peers {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(peers, func(p subject) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--peers: unknown peer %.40q", name)
		}
		if try := peers[i].try; try != nil && exec.CommandContext(ctx, try[0], try[1:]...).Run() != nil {
			fmt.Fprintf(stderr, "bench: %s is left out: it is not installed\n", name)
			continue
		}
		all = append(all, peers[i])
	}
	return all, nil
}

// leaveProcessors makes this process use half of the processors, and collect garbage
// rarely, because the server runs on the same machine.
func leaveProcessors() (back func()) {
	procs, percent := runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)), debug.SetGCPercent(1600)
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
