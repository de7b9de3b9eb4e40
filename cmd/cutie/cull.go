package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"cutie/queuefs"
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

--size and --age given here are instead of both thresholds of QUEUE, for this
once: --age alone keeps none beyond that age, --size alone keeps so many. They
need no room on the disk: when it is full, and setQueue cannot be, they make
some.

Jobs may stay for longer though they are due, and are counted then: those of
Change Lists that have no packages yet, and those that UWS has promised to keep.

Prints a line for each job: as a table on a terminal, as tab-separated fields
elsewhere (queue, job, status, octets, last event).`,
	examples: `cutie cull -n
cutie cull jobs
cutie cull jobs --size 1000`,
	takes: atTarget | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		var o queuefs.CullOptions
		var keep queuefs.Thresholds
		fs.BoolVarP(&o.Dry, "dry-run", "n", false, "print what would be removed, and leave it")
		fs.Int64Var(&keep.Size, "size", 0, "`number` of processed jobs to keep, this once")
		fs.Int64Var(&keep.Age, "age", 0, "`hours` to keep processed jobs at least, this once; 0 for none")
		quiet := fs.BoolP("quiet", "q", false, "print nothing")
		return func(ctx context.Context, c *call) (err error) {
			if fs.Changed("size") || fs.Changed("age") {
				if o.Keep = &keep; len(c.args) == 0 {
					return usagef("--size and --age are of one QUEUE, and none is named")
				}
				if keep.Size < 0 || keep.Age < 0 {
					return usagef("--size and --age are not below 0")
				}
			}
			if len(c.args) > 0 {
				if o.Queue, err = c.queueArg(); err != nil {
					return err
				}
			}
			return c.cull(ctx, o, *quiet)
		}
	},
}

func (c *call) cull(ctx context.Context, o queuefs.CullOptions, quiet bool) (err error) {
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	l := c.listing()
	l.heading("QUEUE", "JOB", "STATUS", "SIZE", "LAST EVENT")
	n, octets, more := 0, int64(0), true
	var failed error
	var kept []queuefs.Kept
	for more {
		done, err := t.Cull(ctx, o)
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
		kept = done.Kept
		if more = done.More && len(done.Culled) > 0; more && o.Dry {
			break // the same ones would come again
		}
	}
	if failed != nil && o.Queue != "" {
		failed = about(o.Queue, failed)
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
	case o.Dry && more:
		how = "and more would be culled"
	case o.Dry:
		how = "would be culled"
	}
	c.warnf("%s of %d octets %s", jobs(n), octets, how)
	for _, k := range kept {
		if k.Needed > 0 {
			c.warnf("%s: %s kept until the published lists have their packages", k.Queue, jobs(k.Needed))
		}
		if k.Spared > 0 {
			c.warnf("%s: %s kept until the destruction that UWS has promised", k.Queue, jobs(k.Spared))
		}
	}
	return failed
}
