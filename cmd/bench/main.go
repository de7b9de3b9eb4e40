// Command bench measures a cutie daemon and, in the same way, other queues, and
// compares the figures. An operation counts when it is on stable storage of the
// server. Statuses and lengths are checked, payloads are compared, and each job
// must come once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

const usage = `usage: bench cutie [OPTION…]        measure a running daemon
       bench peers [OPTION…] PEER…  measure other queues, one after the other
       bench many [OPTION…]         measure a daemon with many queues
       bench steady [OPTION…]       measure a daemon under a load that lasts
       bench pending [OPTION…]      measure a daemon with many pending jobs
       bench show FILE…             print the runs in JSON files
       bench ratios FILE…           compare the runs of cutie with those of peers

Submits jobs of random bytes to a queue and takes them out again, with many
clients at once, and prints how many jobs a second were moved, how long a
request took, and how many failed. Use a queue with no other clients: jobs in it
are consumed. Each peer is started in a directory of its own on a free loopback
port and stopped at the end. A peer that is not installed is skipped. The
daemon of many gets a home of its own too: many queues with a job each. So does
that of steady: each client submits and consumes in turn, in a queue with a
threshold of processed jobs. A short burst of the same load comes first. That of
pending gets many jobs in batches; their space on the disk is compared with that of
the bare files. Then clients submit and consume single jobs at a steady rate, while
some of the changes are looked for in the open Change List.

In the mixed phase each client submits and consumes in turn, -n jobs in all; each
is moved twice. The URL may also be unix:PATH, the socket in a home. CUTIE_TOKEN
holds the token of a daemon with users. The exit code is 1 after any failure and
2 after an option without a meaning.

peers:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
	}
	var wrong *usageError
	if errors.As(err, &wrong) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is a complaint about the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func usagef(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// hintFor returns the known way out of err, if any.
func hintFor(err error) string {
	var status *statusError
	var wrong *usageError
	switch {
	case errors.As(err, &wrong):
		return "bench help lists commands and options"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return "start a daemon with cutie serve, or name another with --url"
	case errors.As(err, &status) && status.code == http.StatusNotFound:
		return "name a queue with --queue, or make it with cutie create"
	}
	return ""
}

// command carries out the arguments.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usagef("no command given")
	}
	switch verb, args := args[0], args[1:]; verb {
	case "cutie", "peers":
		return measure(ctx, verb, args, stdout, stderr)
	case "many":
		return manyQueues(ctx, args, stdout)
	case "steady":
		return steadyLoad(ctx, args, stdout)
	case "pending":
		return measurePending(ctx, args, stdout)
	case "show", "ratios":
		report, err := readReports(args)
		if err != nil {
			return err
		}
		if verb == "show" {
			return report.writeTable(stdout)
		}
		return writeRatios(stdout, report)
	case bareVerb:
		return serveBare(ctx, args)
	case "help", "-h", "--help":
		_, err := io.WriteString(stdout, manual())
		return err
	default:
		return usagef("unknown command %.40q", verb)
	}
}

func manual() string {
	var b strings.Builder
	b.WriteString(usage)
	for _, p := range peers {
		fmt.Fprintf(&b, "  %-11s %s\n", p.name, p.about)
	}
	for _, verb := range []string{"cutie", "peers"} {
		fmt.Fprintf(&b, "\noptions of %s:\n%s", verb, new(options).flags(verb).FlagUsages())
	}
	fmt.Fprintf(&b, "\noptions of many, and after -- those of cutie serve:\n%s", new(many).flags().FlagUsages())
	fmt.Fprintf(&b, "\noptions of steady, and after -- those of cutie serve:\n%s", new(steady).flags().FlagUsages())
	fmt.Fprintf(&b, "\noptions of pending, and after -- those of cutie serve:\n%s", new(pendingJobs).flags().FlagUsages())
	return b.String()
}

// options are the values of the options of one command.
type options struct {
	task
	phases, form    string
	url, queue, dir string
}

func (o *options) flags(verb string) *pflag.FlagSet {
	f := pflag.NewFlagSet(verb, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	url := os.Getenv("CUTIE_URL")
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	o.batch = 1
	if verb == "cutie" {
		f.StringVarP(&o.url, "url", "u", url, "`URL` of the daemon (environment CUTIE_URL)")
		f.StringVar(&o.queue, "queue", "jobs", "`name` of the queue")
		f.DurationVar(&o.duration, "duration", 0, "end each phase after this `time`, such as 30s; without -n the only limit")
		f.IntVar(&o.batch, "batch", 1, "`number` of jobs in one request")
		f.IntVar(&o.pid, "pid", 0, "show processor time and memory of this `process`, the daemon (Linux)")
	} else {
		f.StringVar(&o.dir, "dir", os.TempDir(), "`directory` for the files of the peers; take one on the disk to be measured")
	}
	f.IntVarP(&o.clients, "clients", "c", 64, "`number` of clients, a connection or process each")
	f.Int64VarP(&o.jobs, "jobs", "n", 20000, "`number` of jobs in each phase; 0 for no limit")
	f.IntVar(&o.size, "size", 1024, "`bytes` of a job")
	f.StringVar(&o.phases, "phase", "submit,consume", "`list` of submit, consume, mixed (cutie only)")
	f.StringVarP(&o.form, "response-form", "t", "table", "`form` of the result: table or json")
	return f
}

// measure runs the phases and prints the figures of all complete ones, also
// beside an error.
func measure(ctx context.Context, verb string, args []string, stdout, stderr io.Writer) error {
	o := new(options)
	flags := o.flags(verb)
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	if o.duration > 0 && !flags.Changed("jobs") {
		o.jobs = 0
	}
	write := report.writeTable
	switch o.form {
	case "json":
		write = report.writeJSON
	case "table":
	default:
		return usagef("form %.40q: not table or json", o.form)
	}
	o.task.phases = strings.Split(o.phases, ",")
	if err := o.task.check(); err != nil {
		return &usageError{err}
	}
	run, err := o.runner(verb, flags.Args(), stderr)
	if err != nil {
		return &usageError{err}
	}

	defer leaveProcessors()()
	r, err := run(ctx)
	if err == nil || len(r.Runs) > 0 {
		err = errors.Join(write(r, stdout), err)
	}
	if err != nil {
		return err
	}
	var failed int64
	for _, run := range r.Runs {
		failed += run.Errors
		for _, f := range run.Failures {
			fmt.Fprintf(stderr, "bench: %s: %s (%d times)\n", run.Phase, f.Text, f.Count)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d errors", failed)
	}
	return nil
}

// runner returns the measurement of the verb.
func (o *options) runner(verb string, args []string, stderr io.Writer) (func(context.Context) (report, error), error) {
	if verb == "peers" {
		chosen, err := choosePeers(o.task, args)
		return func(ctx context.Context) (report, error) { return runPeers(ctx, o.dir, o.task, chosen, stderr) }, err
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("argument %.40q: there are only options", args[0])
	}
	to, err := parseTarget(o.url, o.queue, os.Getenv("CUTIE_TOKEN"))
	return func(ctx context.Context) (report, error) { return runDaemon(ctx, o.task, to) }, err
}

// leaveProcessors makes this process use half of the processors, and collect
// garbage rarely, until the returned function is called, because the server runs
// on the same machine. It does nothing where GOMAXPROCS is set in the environment.
func leaveProcessors() (back func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before, collect := runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)), debug.SetGCPercent(1600)
	return func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	}
}

// The phases.
const (
	submit  = "submit"
	consume = "consume"
	mixed   = "mixed" // every client submits and takes in turn
)

// Limits of the options.
const (
	maxClients = 10000
	maxBatch   = 10000   // jobs in one request
	maxSize    = 1 << 30 // bytes of a job
)

// task is one measurement.
type task struct {
	phases   []string
	clients  int           // a connection each
	jobs     int64         // of each phase; 0 for no limit
	duration time.Duration // of each phase; 0 for no limit
	size     int           // bytes of a job
	batch    int           // jobs in one request
	pid      int           // of the server, for its usage; 0 for none
}

func (t task) check() error {
	for _, p := range t.phases {
		if p != submit && p != consume && p != mixed {
			return fmt.Errorf("phase %q: not %s, %s or %s", p, submit, consume, mixed)
		}
	}
	switch {
	case t.clients < 1 || t.clients > maxClients:
		return fmt.Errorf("%d clients: not 1 to %d", t.clients, maxClients)
	case t.batch < 1 || t.batch > maxBatch:
		return fmt.Errorf("batch of %d: not 1 to %d", t.batch, maxBatch)
	case t.size < 0 || t.size > maxSize:
		return fmt.Errorf("size %d: not 0 to %d bytes", t.size, maxSize)
	case t.jobs < 0 || t.duration < 0:
		return fmt.Errorf("%d jobs in %v: less than none", t.jobs, t.duration)
	case t.jobs == 0 && t.duration == 0:
		return errors.New("neither a number of jobs nor a duration: would not end")
	}
	return nil
}
