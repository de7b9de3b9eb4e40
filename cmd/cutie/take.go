package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

var nextVerb = verb{
	name:    "getNextJob",
	aliases: []string{"get", "next", "take"},
	args:    "QUEUE",
	min:     1,
	max:     1,
	about:   "take the job at the head of the queue",
	manual: `
The payload goes to standard output, or to the file that -o names, which
appears whole or not at all. The sidecar, if there is one, goes to the file that
--sidecar-out names, or beside the output file as FILE.sidecar; a job without
one leaves no such file. The job is consumed then; requeueJob puts it back. When
nothing is pending the exit code is 4. With -v the identifier of the job is
printed on standard error.

With -t multipart it is the job as it comes over the network, a MIME message whose
parts are the payload and the sidecar.

--wait waits for a job: --wait=30 for 30 seconds, --wait for ever.

With --lease, and from a queue that wants reports always, the job is handed out
for a time, after which it goes back unless its outcome was reported. The token
that reportOutcome, extendLease and putResult show goes to the file that
--lease-out names, or beside the output file as FILE.lease; without any file it
is printed on standard error, behind the identifier of the job.`,
	examples: `cutie getNextJob jobs -o job
cutie get jobs --wait=30 -v
cutie get jobs --lease=10m -o job`,
	takes: atTarget | withForm | toOutput,
	setup: func(flags *pflag.FlagSet) action {
		var places places
		var wait, lease string
		flags.StringVar(&places.sidecar, "sidecar-out", "", "write the sidecar to `file`")
		flags.StringVar(&lease, "lease", "", "hand the job out for this `time`, such as 10m, 24h at most")
		flags.StringVar(&places.lease, "lease-out", "", "write the token of the lease to `file`")
		flags.StringVar(&wait, "wait", "", "wait for a job, this many `seconds` or for ever")
		flags.Lookup("wait").NoOptDefVal = "forever"
		return func(ctx context.Context, c *call) error {
			limit, err := parseWait(wait)
			if err != nil {
				return err
			}
			length, err := parseLease(lease)
			if err != nil {
				return err
			}
			whole, err := c.asMessage(places)
			if err != nil {
				return err
			}
			return c.deliver(ctx, places, limit, true, func(ctx context.Context, t target, left time.Duration) (*rest.Delivery, error) {
				if whole {
					return t.NextMessage(ctx, c.args[0], queuefs.Take{Lease: length}, left)
				}
				if length > 0 {
					return takeOne(ctx, t, c.args[0], length, left)
				}
				return t.Next(ctx, c.args[0], left)
			})
		}
	},
}

var peekVerb = verb{
	name:    "peekAtJob",
	aliases: []string{"peek", "peekjob"},
	args:    "QUEUE [JOB]",
	min:     1,
	max:     2,
	about:   "read a job and leave it in the queue",
	manual: `
JOB may have any status; without it the job at the head is read. Output is as
of getNextJob.`,
	examples: `cutie peek jobs
cutie peekAtJob jobs j000000000001 -o copy`,
	takes: atTarget | withForm | toOutput,
	setup: func(flags *pflag.FlagSet) action {
		var places places
		flags.StringVar(&places.sidecar, "sidecar-out", "", "write the sidecar to `file`")
		return func(ctx context.Context, c *call) error {
			job := ""
			if len(c.args) > 1 {
				job = c.args[1]
			}
			whole, err := c.asMessage(places)
			if err != nil {
				return err
			}
			return c.deliver(ctx, places, 0, false, func(ctx context.Context, t target, _ time.Duration) (*rest.Delivery, error) {
				if len(c.args) > 1 {
					if err := mayExist(ctx, t, c.args[0], job); err != nil {
						return nil, err
					}
				}
				if whole {
					return t.PeekMessage(ctx, c.args[0], job)
				}
				return t.Peek(ctx, c.args[0], job)
			})
		}
	},
}

// forever is the wait without an end.
const forever = time.Duration(1<<63 - 1)

func parseWait(s string) (time.Duration, error) {
	switch s {
	case "":
		return 0, nil
	case "forever":
		return forever, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d < 0 {
		return 0, usagef("--wait=%.40s: not a number of seconds", s)
	}
	return d, nil
}

// A take gets a job from a target. It may wait for one, and is called again
// while time is left.
type take func(ctx context.Context, t target, left time.Duration) (*rest.Delivery, error)

// takeOne takes one job with a lease.
func takeOne(ctx context.Context, t target, queue string, lease, wait time.Duration) (*rest.Delivery, error) {
	next, stop := iter.Pull2(t.Take(ctx, queue, queuefs.Take{Max: 1, Lease: lease}, wait))
	d, err, ok := next()
	if !ok || err != nil {
		stop()
		return nil, cmp.Or(err, queuefs.ErrEmpty)
	}
	d.Body = pulled{d.Body, stop}
	return d, nil
}

// A pulled payload is good as long as where it comes from does not go on.
type pulled struct {
	io.ReadCloser
	stop func()
}

func (p pulled) Close() error {
	defer p.stop()
	return p.ReadCloser.Close()
}

// deliver writes the job that get returns to where the options say. The places
// are made first: a job is not taken unless there is somewhere to put it.
func (c *call) deliver(ctx context.Context, p places, limit time.Duration, consumes bool, get take) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	o, err := p.make(c.output)
	if err != nil {
		return err
	}
	defer o.discard()
	t, d, err := c.await(ctx, limit, get)
	if err != nil {
		if errors.Is(err, queuefs.ErrNoJob) && len(c.args) > 1 {
			err = about(c.args[1], err)
		}
		return about(queue, err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	lease := ""
	if d.Lease != "" {
		lease = fmt.Sprintf(": lease %s until %s", d.Lease, queuefs.FormatTime(d.Expires))
	}
	if err := errors.Join(o.store(d, c.stdout, consumes), d.Body.Close()); err != nil {
		err = aboutJob(queue, d.Job, err)
		if consumes {
			err = withHint(err, fmt.Sprintf("the job is consumed%s; cutie requeueJob %s %s puts it back", lease, queue, d.Job))
		}
		return err
	}
	switch {
	case lease != "" && o.lease == nil && o.beside("lease") == "":
		c.warnf("%s: %s%s", queue, d.Job, lease)
	default:
		c.sayf("%s: %s", queue, d.Job)
	}
	return nil
}

// betweenTakes is the pause before a home without a daemon is looked at again.
// Others may open it meanwhile, without whom no job would ever come.
const betweenTakes = time.Second

// await gets a job, and tries again until limit is over.
func (c *call) await(ctx context.Context, limit time.Duration, get take) (target, *rest.Delivery, error) {
	for start := time.Now(); ; {
		t, err := c.target(ctx)
		if err != nil {
			return nil, nil, err
		}
		d, err := get(ctx, t, max(0, limit-time.Since(start)))
		if err == nil {
			return t, d, nil
		}
		err = errors.Join(err, t.Close())
		left := limit - time.Since(start)
		if !errors.Is(err, queuefs.ErrEmpty) || left <= 0 {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(min(left, betweenTakes)):
		}
	}
}
