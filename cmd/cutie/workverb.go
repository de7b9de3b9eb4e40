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

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

var workVerb = verb{
	name:    "work",
	aliases: []string{"worker"},
	args:    "QUEUE -- COMMAND [ARGUMENT…]",
	min:     2,
	max:     -1,
	about:   "take jobs from a daemon and do each with a command",
	takes:   atTarget,
	manual: `
The command, found from where the worker is started, is run once a job, in a
directory of its own, which is removed afterwards. The payload is its standard input and the file CUTIE_PAYLOAD names;
a sidecar is in the file CUTIE_SIDECAR. CUTIE_QUEUE, CUTIE_JOB, CUTIE_ATTEMPT,
CUTIE_FILENAME and CUTIE_MEDIA_TYPE say more, and CUTIE_LEASE is the token for
putResult and the like. Of a payload that is multipart/form-data each file is in
the directory CUTIE_UPLOADS, under the name of its field. What it writes to standard output becomes the result
named result, unless it writes nothing, and each file in the directory
CUTIE_RESULTS a result of its name.

If it ends with 0 the job is completed; with 75 it has failed for now (transient),
with anything else for good. The end of its standard error is the message.

The lease of the job is kept for as long as the command runs. When it is gone,
since the job was aborted or its time was over, the command and all that it
started get SIGTERM, and SIGKILL after --grace; nothing is reported then. An
interrupt ends the commands in the same way and gives their jobs back. A daemon
that cannot be reached is asked again until it can. A job that cannot be put
into files, since there is no room or its payload does not come whole, is given
back, and the next one waits, each time longer up to a minute. A job that is
handed out for the fifth time and does not come whole has failed for now.`,
	examples: `cutie work jobs --drain -- wc -l`,
	setup: func(fs *pflag.FlagSet) action {
		w := worker{}
		jobs := fs.IntP("jobs", "j", 1, "do this `number` of jobs at a time")
		fs.DurationVar(&w.lease, "lease", time.Minute, "`time` after which a job goes back when this program has died")
		fs.DurationVar(&w.grace, "grace", 10*time.Second, "`time` between SIGTERM and SIGKILL")
		fs.StringVar(&w.mediaType, "result-type", queuefs.DefaultMediaType, "media `type` of standard output as a result")
		fs.BoolVar(&w.drain, "drain", false, "end when no job is pending")
		return func(ctx context.Context, c *call) error {
			switch {
			case *jobs < 1 || *jobs > 1000:
				return usagef("-j %d is not a number from 1 to 1000", *jobs)
			case w.lease < time.Second || w.lease > 24*time.Hour:
				return usagef("--lease %v is not a time from 1s to 24h", w.lease)
			case w.grace < 0:
				return usagef("--grace %v is no time", w.grace)
			}
			w.call = c
			return w.run(ctx, *jobs)
		}
	},
}

// A worker takes jobs and does them with a command.
type worker struct {
	*call
	target    target
	queue     string
	lease     time.Duration
	grace     time.Duration
	mediaType string
	drain     bool
	program   string // path of the command
}

const (
	workWait  = 30 * time.Second // how long a daemon is asked to wait for a job
	workPause = time.Second      // before a daemon is asked again that could not be reached
	// workPatience is the longest pause after a job that was given back: the
	// next may be the same one.
	workPatience = time.Minute
)

// run does jobs, n at a time, until it is interrupted, or none is left.
func (w *worker) run(ctx context.Context, n int) (err error) {
	told, unhook := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer unhook()
	if w.queue, err = w.queueArg(); err != nil {
		return err
	}
	// Jobs have directories of their own, and the command is meant from here.
	if w.program, err = exec.LookPath(w.args[1]); err != nil && !errors.Is(err, exec.ErrDot) {
		return usagef("%.200q cannot be run: %v", w.args[1], errors.Unwrap(err))
	}
	if w.program, err = filepath.Abs(w.program); err != nil {
		return err
	}
	if w.target, err = w.call.target(told); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.target.Close()) }()
	if _, ok := w.target.(*remote); !ok {
		return withHint(errors.New("no daemon serves "+w.home), "cutie serve --home "+w.home+" starts one; --url names another")
	}
	ctx, stop := context.WithCancelCause(told)
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
	if cause := context.Cause(ctx); cause != nil && told.Err() == nil {
		return about(w.queue, cause)
	}
	return nil
}

// loop takes one job after the other.
func (w *worker) loop(ctx context.Context) error {
	lost := false
	var patience time.Duration
	for ctx.Err() == nil {
		wait := workWait
		if w.drain {
			wait = 0
		}
		d, err := takeOne(ctx, w.target, w.queue, w.lease, wait)
		switch {
		case err == nil:
			lost = false
			if patience, err = w.do(ctx, d, patience); err != nil {
				return err
			}
			pause(ctx, patience)
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

// final tells whether it makes no sense to ask again.
func final(err error) bool {
	if e := (*rest.Error)(nil); errors.As(err, &e) {
		return e.Status < 500 && e.Status != 429
	}
	return errors.Is(err, errRefused) || errors.Is(err, queuefs.ErrNoQueue) || errors.Is(err, queuefs.ErrBadName)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// insist does something that must reach the daemon as long as the lease lasts.
// done says that an error means that it was done before.
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
