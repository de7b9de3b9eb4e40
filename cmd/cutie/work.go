package main

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/target"
	"cutie/queuefs"
	"cutie/queuefs/web"
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
CUTIE_LEASE is the token for cutie attach and the like. The files of a payload in
multipart/form-data are in the directory CUTIE_UPLOADS, under the names of their
fields. Its standard output becomes the result named result, unless it is empty.
Each file in the directory CUTIE_RESULTS becomes a result of its name.

Exit code 0 means that the job is completed, 75 that it has failed for now
(transient), and any other that it has failed for good. The end of its standard
error is the message.

The worker keeps the lease as long as the command runs. When the lease is gone,
because the job was aborted or its time was over, the command and its children get
SIGTERM, and SIGKILL after --grace; nothing is reported then. An interrupt ends
the commands in the same way and gives their jobs back. A daemon out of reach is
asked again. A job is given back when there is no space for its files or its
payload does not come whole; the pause before the next job grows up to a minute.
At the fifth attempt such a payload makes the job fail for now.`,
		Example: `cutie work jobs --drain -- wc -l`,
	}
	w := worker{call: c}
	fs := cmd.Flags()
	jobs := fs.IntP("jobs", "j", 1, "work on this `number` of jobs at a time")
	fs.DurationVar(&w.lease, "lease", time.Minute, "`time` after which jobs go back if this program dies")
	fs.DurationVar(&w.grace, "grace", 10*time.Second, "`time` between SIGTERM and SIGKILL")
	fs.StringVar(&w.mediaType, "result-type", queuefs.DefaultMediaType, "media `type` of standard output as a result")
	fs.BoolVar(&w.drain, "drain", false, "end when no job is pending")
	return c.verb(cmd, atTarget, func(ctx context.Context) error {
		switch {
		case *jobs < 1 || *jobs > 1000:
			return fault.Usagef("-j %d is not a number from 1 to 1000", *jobs)
		case w.lease < time.Second || w.lease > 24*time.Hour:
			return fault.Usagef("--lease %v is not a time from 1s to 24h", w.lease)
		case w.grace < 0:
			return fault.Usagef("--grace %v is no time", w.grace)
		}
		return w.run(ctx, *jobs)
	})
}

// A worker takes jobs and runs a command for each.
type worker struct {
	*call
	target    *target.Target
	queue     string
	lease     time.Duration
	grace     time.Duration
	mediaType string
	drain     bool
	program   string // path of the command
}

const (
	workWait  = 30 * time.Second // of one request, for a job
	workPause = time.Second      // before the next try to reach a daemon
	// maxBackoff is the longest pause after giving a job back: the next may be
	// the same one.
	maxBackoff = time.Minute
)

// run works on n jobs at a time, until it is interrupted or none is left.
func (w *worker) run(ctx context.Context, n int) (err error) {
	alive, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()
	if w.queue, err = w.queueArg(); err != nil {
		return err
	}
	// The command runs in other directories; a relative path begins here.
	if w.program, err = exec.LookPath(w.args[1]); err != nil && !errors.Is(err, exec.ErrDot) {
		return fault.Usagef("%.200q cannot be run: %v", w.args[1], errors.Unwrap(err))
	}
	if w.program, err = filepath.Abs(w.program); err != nil {
		return err
	}
	if w.target, err = w.NeedDaemon(alive); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.target.Close()) }()
	ctx, stop := context.WithCancelCause(alive)
	defer stop(nil)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := w.loop(ctx); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && alive.Err() == nil {
		return fault.About(w.queue, cause)
	}
	return nil
}

// loop works on one job after another.
func (w *worker) loop(ctx context.Context) error {
	lost := false
	var backoff time.Duration
	for ctx.Err() == nil {
		wait := workWait
		if w.drain {
			wait = 0
		}
		d, err := takeOne(ctx, w.target, w.queue, w.lease, wait)
		switch {
		case err == nil:
			lost = false
			if backoff, err = w.do(ctx, d, backoff); err != nil {
				return err
			}
			pause(ctx, backoff)
		case ctx.Err() != nil:
		case errors.Is(err, queuefs.ErrEmpty):
			if lost = false; w.drain {
				return nil
			}
		case final(err):
			return err
		default:
			if !lost {
				w.warnf("%s: %v; asks again", w.queue, err)
			}
			lost = true
			pause(ctx, workPause)
		}
	}
	return nil
}

// final reports whether asking again makes no sense.
func final(err error) bool {
	if e := (*web.Error)(nil); errors.As(err, &e) {
		return e.Status < 500 && e.Status != 429
	}
	return errors.Is(err, fault.ErrRefused) || errors.Is(err, queuefs.ErrNoQueue) || errors.Is(err, queuefs.ErrBadName)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// insist tries to reach the daemon as long as the lease lasts. After the first
// try the error done means success: an earlier try was heard.
func (w *worker) insist(ctx context.Context, do func() error, done error) error {
	for try := 0; ; try++ {
		err := do()
		switch {
		case err == nil, try > 0 && done != nil && errors.Is(err, done):
			return nil
		case ctx.Err() != nil:
			return cmp.Or(context.Cause(ctx), err)
		case final(err), errors.Is(err, queuefs.ErrLease):
			return err
		}
		pause(ctx, workPause)
	}
}
