package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
one leaves no such file. The job is consumed then; requeueJob puts it back. When nothing is pending the exit code
is 4. With -v the identifier of the job is printed on standard error.

--wait waits for a job: --wait=30 for 30 seconds, --wait for ever.`,
	takes: atTarget | toOutput | verbose,
	setup: func(flags *pflag.FlagSet) action {
		var sidecar, wait string
		flags.StringVar(&sidecar, "sidecar-out", "", "write the sidecar to `file`")
		flags.StringVar(&wait, "wait", "", "wait for a job, this many `seconds` or for ever")
		flags.Lookup("wait").NoOptDefVal = "forever"
		return func(ctx context.Context, c *call) error {
			limit, err := parseWait(wait)
			if err != nil {
				return err
			}
			return c.deliver(ctx, sidecar, limit, true, func(ctx context.Context, t target, left time.Duration) (*rest.Delivery, error) {
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
	takes: atTarget | toOutput | verbose,
	setup: func(flags *pflag.FlagSet) action {
		var sidecar string
		flags.StringVar(&sidecar, "sidecar-out", "", "write the sidecar to `file`")
		return func(ctx context.Context, c *call) error {
			job := ""
			if len(c.args) > 1 {
				job = c.args[1]
				if _, err := queuefs.ParseJobID(job); err != nil {
					return err
				}
			}
			return c.deliver(ctx, sidecar, 0, false, func(ctx context.Context, t target, _ time.Duration) (*rest.Delivery, error) {
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

// deliver writes the job that get returns to where the options say. The places
// are made first: a job is not taken unless there is somewhere to put it.
func (c *call) deliver(ctx context.Context, sidecarName string, limit time.Duration, consumes bool, get take) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	var out, side *result
	if c.output != "" {
		if out, err = createResult(c.output); err != nil {
			return err
		}
		defer out.Discard()
	}
	if sidecarName != "" {
		if side, err = createResult(sidecarName); err != nil {
			return err
		}
		defer side.Discard()
	}
	t, d, err := c.await(ctx, limit, get)
	if err != nil {
		return about(queue, err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := errors.Join(c.store(d, out, side), d.Body.Close()); err != nil {
		err = aboutJob(queue, d.Job, err)
		if consumes {
			err = withHint(err, fmt.Sprintf("the job is consumed; cutie requeueJob %s %s puts it back", queue, d.Job))
		}
		return err
	}
	if c.verbose {
		c.warnf("%s: %s", queue, d.Job)
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

// store writes a delivery.
func (c *call) store(d *rest.Delivery, out, side *result) error {
	var w io.Writer = c.stdout
	if out != nil {
		w = out
	}
	n, err := io.Copy(w, d.Body)
	if err == nil && d.Size >= 0 && n != d.Size {
		err = fmt.Errorf("payload ended after %d of %d octets", n, d.Size)
	}
	if err != nil {
		return err
	}
	// The sidecar first, so that whoever waits for the payload finds both.
	if err := storeSidecar(d.Sidecar, out, side); err != nil {
		return err
	}
	if out != nil {
		return out.Commit()
	}
	return nil
}

// storeSidecar writes the sidecar to side, or else beside out. That file is
// ours by its name: without a sidecar none is left there from a job before.
func storeSidecar(text string, out, side *result) (err error) {
	switch {
	case side != nil:
	case out == nil || out.temp == "":
		return nil
	case text == "":
		return ignore(os.Remove(out.name+".sidecar"), fs.ErrNotExist)
	default:
		if side, err = createResult(out.name + ".sidecar"); err != nil {
			return err
		}
		defer side.Discard()
	}
	if _, err := io.WriteString(side, text); err != nil {
		return err
	}
	return side.Commit()
}
