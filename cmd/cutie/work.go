package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
)

func workVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "work QUEUE -- COMMAND [ARGUMENT…]",
		Aliases: []string{"worker"},
		Short:   "take jobs from a daemon and run a command for each",
		Long: `
The command is looked up where the worker starts. It runs once a job, in a
directory of its own, which is removed afterwards. The payload is its standard
input and in the file CUTIE_PAYLOAD; a sidecar is in the file CUTIE_SIDECAR. More
is in CUTIE_QUEUE, CUTIE_JOB, CUTIE_ATTEMPT, CUTIE_FILENAME and CUTIE_MEDIA_TYPE.
CUTIE_LEASE is the token for cutie attach and the like. CUTIE_TOKEN is kept from the
command: it may do more than a job needs. The files of a payload in
multipart/form-data are in the directory CUTIE_UPLOADS, under the names of their
fields. Its standard output becomes the result named result, unless it is empty.
Each file in the directory CUTIE_RESULTS becomes a result of its name.

Exit code 0 means that the job is completed, 75 that it has failed for now
(transient), and any other that it has failed for good. The end of its standard
error is the message. A file error, error.vot, error.txt and the like in
CUTIE_RESULTS is the detail of the error; clients of UWS get it as it is. A job
that failed for now is tried again as the queue says; see cutie help set.

The worker keeps the lease as long as the command runs. When the lease is gone,
because the job was aborted or its time was over, the command and its children get
SIGTERM, and SIGKILL after --grace. Of an aborted job the files in CUTIE_RESULTS and
what it had written to standard output are kept as results; nothing else is reported. An interrupt ends the
commands in the same way and gives their jobs back; so it does with jobs whose results
the daemon does not take, as on a full disk. A second interrupt kills the worker. If the
worker itself is killed, its commands and their children are killed, too.

The worker prints a line for each job that fails, a summary each minute if there is news,
and one at its end; with -v also a line for each job taken and done. A daemon out of reach
is asked again. A job is given back when there is no space for its files or its payload
does not come whole; the pause before the next job grows up to a minute. At the fifth
attempt such a payload makes the job fail for good.`,
		Example: `cutie work jobs --drain -- wc -l`,
	}
	w := worker{Warn: c.Warnf, Say: c.Sayf, Summary: time.Minute}
	fs := cmd.Flags()
	fs.IntVarP(&w.Jobs, "jobs", "j", 1, "work on this `number` of jobs at a time")
	fs.DurationVar(&w.Lease, "lease", time.Minute, "`time` after which jobs go back if this program dies")
	fs.DurationVar(&w.Grace, "grace", 10*time.Second, "`time` between SIGTERM and SIGKILL")
	fs.StringVar(&w.ResultType, "result-type", queuefs.DefaultMediaType, "media `type` of standard output as a result")
	fs.BoolVar(&w.Drain, "drain", false, "end when no job can be taken; jobs on hold, also those that wait for another attempt, stay")
	quiet := fs.BoolP("quiet", "q", false, "print nothing but the error that ends the worker")
	return c.Verb(cmd, optTarget, func(ctx context.Context) error {
		switch {
		case w.Jobs < 1 || w.Jobs > 1000:
			return fault.Usagef("-j %d is not a number from 1 to 1000", w.Jobs)
		case w.Lease < time.Second || w.Lease > 24*time.Hour:
			return fault.Usagef("--lease %v is not a time from 1s to 24h", w.Lease)
		case w.Grace < 0:
			return fault.Usagef("--grace %v is no time", w.Grace)
		case *quiet && c.Verbose:
			return fault.Usagef("--quiet and --verbose exclude each other")
		}
		if *quiet {
			w.Warn = func(string, ...any) {}
		}
		return runWorker(ctx, c, &w)
	})
}

// runWorker runs a worker until it is interrupted.
func runWorker(ctx context.Context, c *call, w *worker) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one kills
	if w.Queue, err = c.QueueArg(); err != nil {
		return err
	}
	w.Args = c.Args[1:]
	if w.Program, err = findProgram(w.Args[0]); err != nil {
		return fault.Usagef("%.200q cannot be run: %v", w.Args[0], err)
	}
	if c.Verbose {
		w.Stderr = c.Stderr
	}
	t, err := c.NeedDaemon(ctx)
	if err != nil {
		return err
	}
	w.Client = t.Client
	return errors.Join(fault.About(w.Queue, w.Run(ctx)), t.Close())
}
