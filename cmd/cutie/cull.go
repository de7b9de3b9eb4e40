package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
)

var cullVerb = verb{
	name:  "cull",
	args:  "[QUEUE]",
	max:   1,
	about: "remove processed jobs by the thresholds of their queues",
	manual: `
Processed are jobs that were consumed or deleted. A queue keeps --size of them;
when there are more, those go whose last event is more than --age hours ago, or
as many as are too many if it has no age (cutie help setQueue). A queue without
--size is left alone.

Prints a line for each job: as a table on a terminal, as tab-separated fields
elsewhere (queue, job, status, octets, last event).`,
	examples: `cutie cull -n
cutie cull jobs`,
	takes: atTarget | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		dry := fs.BoolP("dry-run", "n", false, "print what would be removed, and leave it")
		quiet := fs.BoolP("quiet", "q", false, "print nothing")
		return func(ctx context.Context, c *call) error { return c.cull(ctx, *dry, *quiet) }
	},
}

func (c *call) cull(ctx context.Context, dry, quiet bool) (err error) {
	queue := ""
	if len(c.args) > 0 {
		if queue, err = c.queueArg(); err != nil {
			return err
		}
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	l := c.listing()
	l.heading("QUEUE", "JOB", "STATUS", "SIZE", "LAST EVENT")
	n, octets, more := 0, int64(0), true
	var failed error
	for more {
		done, err := t.Cull(ctx, queue, dry)
		if err != nil {
			failed = err
			break
		}
		for _, j := range done.Culled {
			if !quiet {
				l.row(j.Queue, j.Job.String(), j.Status.String(), l.size(j.Size), l.date(j.At))
			}
			octets += j.Size
		}
		n += len(done.Culled)
		if more = done.More && len(done.Culled) > 0; more && dry {
			break // the same ones would come again
		}
	}
	if failed != nil && queue != "" {
		failed = about(queue, failed)
	}
	if quiet {
		return failed
	}
	if n > 0 {
		// What is gone is told, whatever came then.
		failed = errors.Join(failed, l.print(c))
	}
	how := "culled"
	switch {
	case dry && more:
		how = "and more would be culled"
	case dry:
		how = "would be culled"
	}
	c.warnf("%s of %d octets %s", jobs(n), octets, how)
	return failed
}
