// Package work is a worker: it takes jobs with leases, runs a command for each in a
// directory of its own, keeps the lease meanwhile, and reports results and outcome.
//
// A job is completed, failed or given back exactly once, unless the lease is lost:
// then its command is ended, and nothing is reported but the results of an aborted
// job. A crash of the worker ends its commands, and leaves the job to its lease.
package work

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// A Worker works on the jobs of one queue. Its fields do not change during Run.
type Worker struct {
	Client     *client.Client
	Queue      string
	Program    string                        // path of the command; see [Program]
	Args       []string                      // of the command, with its name
	Jobs       int                           // at a time
	Lease      time.Duration                 // after which jobs go back if this process dies
	Grace      time.Duration                 // between SIGTERM and SIGKILL
	ResultType string                        // media type of standard output
	Drain      bool                          // end when no job is pending
	Summary    time.Duration                 // between two lines about the work; above 0
	Stderr     io.Writer                     // gets the standard error of commands; nil if nobody reads it
	Warn, Say  func(format string, a ...any) // report failures and sums, and all else

	tally tally
}

const (
	workWait  = 30 * time.Second // of one request, for a job
	workPause = time.Second      // before the next try to reach a daemon
	// maxBackoff is the longest pause after giving a job back: the next may be
	// the same one.
	maxBackoff = time.Minute
)

// Program finds a command. Commands run in other directories, so a relative path
// begins in the present one.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", errors.Unwrap(err)
	}
	return filepath.Abs(path)
}

// Run works until ctx ends, or until no job is pending with Drain; then the jobs in
// work are given back and the error is nil. Other errors concern all jobs: the command
// cannot be started, or the service refuses.
func (w *Worker) Run(ctx context.Context) error {
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all, told sync.WaitGroup
	done := make(chan struct{})
	told.Go(func() { w.summarize(done) })
	for range w.Jobs {
		all.Go(func() {
			if err := w.loop(run); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	close(done)
	told.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(run)
}

// loop works on one job after another.
func (w *Worker) loop(ctx context.Context) error {
	lost := false
	var backoff time.Duration
	for ctx.Err() == nil {
		wait := workWait
		if w.Drain {
			wait = 0
		}
		d, err := w.Client.NextFor(ctx, w.Queue, queuefs.Take{Lease: w.Lease}, wait)
		switch {
		case err == nil:
			lost = false
			if backoff, err = w.do(ctx, d, backoff); err != nil {
				return err
			}
			pause(ctx, backoff)
		case ctx.Err() != nil:
		case errors.Is(err, queuefs.ErrEmpty):
			if lost = false; w.Drain {
				return nil
			}
		case !client.Temporary(err):
			return err
		default:
			if !lost {
				w.Warn("%s: %v; asks again", w.Queue, err)
			}
			lost = true
			pause(ctx, workPause)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
