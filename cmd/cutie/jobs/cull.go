package jobs

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
)

// Cull removes processed jobs by thresholds.
func Cull(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cull [QUEUE]",
		Short: "remove processed jobs by the thresholds of their queues",
		Long: `
Processed jobs are consumed or deleted. A queue keeps --size of them (cutie set).
Of the others it removes those without an event for --age hours, or all of them
if it has no age. Queues without --size keep everything. The daemon does the
same by itself, each minute.

Here --size and --age replace both thresholds of QUEUE once: --age alone keeps
nothing older, --size alone keeps so many jobs. They also work on a full disk,
where cutie set does not.

Some jobs stay longer and are counted: those in Change Lists whose packages are
not yet made, and those that UWS has promised to keep.

Prints a line for each job: as a table on a terminal, as tab-separated fields
elsewhere (queue, job, status, octets, last event).`,
		Example: `cutie cull -n
cutie cull jobs
cutie cull jobs --size 1000`,
	}
	var o queuefs.CullOptions
	var keep queuefs.Thresholds
	fs := cmd.Flags()
	fs.BoolVarP(&o.Dry, "dry-run", "n", false, "print the jobs and remove nothing")
	fs.Int64Var(&keep.Size, "size", 0, "`number` of processed jobs to keep, this once")
	fs.Int64Var(&keep.Age, "age", 0, "`hours` to keep processed jobs at least, this once; 0 for none")
	quiet := fs.BoolP("quiet", "q", false, "print nothing")
	return c.Verb(cmd, call.Target|call.Output, func(ctx context.Context) (err error) {
		if fs.Changed("size") || fs.Changed("age") {
			if o.Keep = &keep; len(c.Args) == 0 {
				return fault.Usagef("--size and --age are of one QUEUE, and none is named")
			}
			if keep.Size < 0 || keep.Age < 0 {
				return fault.Usagef("--size and --age are not below 0")
			}
		}
		if len(c.Args) > 0 {
			if o.Queue, err = c.QueueArg(); err != nil {
				return err
			}
		}
		return c.At(ctx, func(t *reach.Target) error { return cull(ctx, c, t, o, *quiet) })
	})
}

func cull(ctx context.Context, c *call.Call, t *reach.Target, o queuefs.CullOptions, quiet bool) (err error) {
	l := c.Out.Table("QUEUE", "JOB", "STATUS", "SIZE", "LAST EVENT")
	defer l.Discard()
	n, octets, more := 0, int64(0), true
	var kept []queuefs.Kept
	for more && err == nil {
		done, failed := t.Cull(ctx, o)
		if err = failed; err != nil {
			break
		}
		for _, j := range done.Culled {
			if !quiet {
				err = errors.Join(err, l.Row(j.Queue, j.Job, j.Status, l.Size(j.Size), l.Date(j.At)))
			}
			octets += j.Size
		}
		n += len(done.Culled)
		kept = done.Kept
		if more = done.More && len(done.Culled) > 0; more && o.Dry {
			break // the same jobs would come again
		}
	}
	if err != nil && o.Queue != "" {
		err = fault.About(o.Queue, err)
	}
	if quiet {
		return err
	}
	if n > 0 {
		err = errors.Join(err, l.End()) // the removed jobs are listed even then
	}
	how := "culled"
	switch {
	case o.Dry && more:
		how = "and more would be culled"
	case o.Dry:
		how = "would be culled"
	}
	c.Warnf("%s of %d octets %s", inWords(n), octets, how)
	for _, k := range kept {
		if k.Needed > 0 {
			c.Warnf("%s: %s kept until the published lists have their packages", k.Queue, inWords(k.Needed))
		}
		if k.Spared > 0 {
			c.Warnf("%s: %s kept until the destruction that UWS has promised", k.Queue, inWords(k.Spared))
		}
	}
	return err
}
