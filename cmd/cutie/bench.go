package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/load"
)

var benchVerb = verb{
	name:  "bench",
	about: "measure a running daemon",
	manual: `Submits jobs of random octets to a queue and takes them out again, with many
clients at once, and prints how many jobs a second were moved, how long a
request took, and how many failed. It checks that no job comes twice and that
payloads come back unchanged. Use a queue that nobody else works on: jobs that
are there already are consumed.

The url may also be unix:PATH, the socket in a home; CUTIE_TOKEN holds the token
for a daemon that wants one. With --batch, one request carries that many jobs.
In the mixed phase each client submits and consumes in turn, -n jobs in all, each
of which is moved twice. Prints a table of how many were moved, or with -t json
an object whose member runs is a list, where jobs are those moved. The exit code
is 1 if anything failed.`,
	takes: atURL | withForm,
	setup: setupBench,
}

func setupBench(flags *pflag.FlagSet) action {
	queue := flags.String("queue", "jobs", "`name` of the queue")
	clients := flags.IntP("clients", "c", 64, "`number` of clients, a connection each")
	jobs := flags.Int64P("jobs", "n", 20000, "`number` of jobs in each phase; 0 for no limit")
	duration := flags.Duration("duration", 0, "end each phase after this `time`, such as 30s; without -n the only limit")
	size := flags.Int("size", 1024, "`octets` of a job")
	batch := flags.Int("batch", 1, "`number` of jobs in one request")
	phases := flags.String("phase", "submit,consume", "`list` of submit, consume, mixed")
	pid := flags.Int("pid", 0, "show processor time and memory of this `process`, the daemon (Linux)")
	return func(ctx context.Context, c *call) error {
		if *duration > 0 && !flags.Changed("jobs") {
			*jobs = 0
		}
		b := load.Bench{Clients: *clients, Jobs: *jobs, Duration: *duration, Size: *size, Batch: *batch, PID: *pid}
		return c.bench(ctx, b, *queue, *phases)
	}
}

// bench measures and prints; any failure in a run is an error.
func (c *call) bench(ctx context.Context, b load.Bench, queue, phases string) error {
	url := c.url
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	var err error
	if b.Target, err = load.ParseTarget(url, queue); err != nil {
		return usagef("%v", err)
	}
	if token := os.Getenv(tokenVariable); token != "" {
		if b.Target, err = b.Target.WithToken(token); err != nil {
			return usagef("%s: %v", tokenVariable, err)
		}
	}
	if b.Phases, err = load.ParsePhases(phases); err != nil {
		return usagef("%v", err)
	}
	if err := b.Check(); err != nil {
		return usagef("%v", err)
	}
	print := load.Report.WriteTable
	switch c.form {
	case "", "table":
	case "json":
		print = load.Report.WriteJSON
	default:
		return usagef("form %.40q: not table or json", c.form)
	}

	defer load.LeaveRoom()()
	report, err := b.Run(ctx)
	if err == nil || len(report.Runs) > 0 {
		if err := print(report, c.stdout); err != nil {
			return err
		}
	}
	if err != nil {
		return benchHint(err)
	}
	return c.failures(report)
}

// failures warns of what failed and sums it up.
func (c *call) failures(r load.Report) error {
	var all int64
	for _, run := range r.Runs {
		all += run.Errors
		for _, f := range run.Failures {
			c.warnf("%s: %s (%d times)", run.Phase, f.Text, f.Count)
		}
	}
	if all > 0 {
		return fmt.Errorf("%d errors", all)
	}
	return nil
}

// benchHint adds the way out that is known for err.
func benchHint(err error) error {
	var status *load.StatusError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return withHint(err, "start a daemon with cutie serve, or name another with --url")
	case errors.As(err, &status) && status.Status == http.StatusNotFound:
		return withHint(err, "name a queue with --queue, or make it with cutie createQueue")
	}
	return err
}
