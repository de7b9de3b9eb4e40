package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
)

// cullVerb removes processed jobs by thresholds.
func cullVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cull [QUEUE]",
		Short: "remove processed jobs by the thresholds of their queues",
		Long: `
Processed jobs are consumed or deleted. A queue keeps --size of them (cutie set).
Of the others it removes those without an event for --age hours, or all of them
if it has no age. Queues without --size keep everything. The daemon does the
same by itself, about a second after a change.

Here --size and --age replace both thresholds of QUEUE once: --age alone keeps
nothing older, --size alone keeps so many jobs. They also work on a full disk,
where cutie set does not.

Some jobs stay longer and are counted: those that UWS has promised to keep. Jobs taken
with an idempotency key and without a lease stay for five minutes.

Prints a line for each job: as a table on a terminal, as tab-separated fields
elsewhere (queue, job, status, octets, last event), or with -t json as an array of
objects of the type culledJob, with keptJobs at its end.`,
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
	return c.Verb(cmd, optTarget|optOutput|optForm, func(ctx context.Context) (err error) {
		if *quiet && c.Form != "" {
			return usagef("--quiet prints nothing, and --response-form the jobs")
		}
		if fs.Changed("size") || fs.Changed("age") {
			if o.Keep = &keep; len(c.Args) == 0 {
				return usagef("--size and --age are of one QUEUE, and none is named")
			}
			if keep.Size < 0 || keep.Age < 0 {
				return usagef("--size and --age are not below 0")
			}
		}
		if len(c.Args) > 0 {
			if o.Queue, err = c.QueueArg(); err != nil {
				return err
			}
		}
		return c.At(ctx, func(t *target) error { return cull(ctx, c, t, o, *quiet) })
	})
}

func cull(ctx context.Context, c *call, t *target, o queuefs.CullOptions, quiet bool) (err error) {
	var facts []state.Document
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
			switch {
			case c.Form != "":
				facts = append(facts, state.OfFacts(state.CulledClass, j.Queue, j.Job.String(), j.Status.String(), j.Size, j.At))
			case !quiet:
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
		err = nameError(o.Queue, err)
	}
	if quiet {
		return err
	}
	switch { // the removed jobs are listed even after an error
	case c.Form != "":
		for _, k := range kept {
			facts = append(facts, state.OfFacts(state.KeptClass, k.Queue, int64(k.Spared)))
		}
		err = errors.Join(err, c.Facts(true, facts...))
	case n > 0:
		err = errors.Join(err, l.End())
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
		c.Warnf("%s: %s kept until the destruction that UWS has promised", k.Queue, inWords(k.Spared))
	}
	return err
}

// createQueueVerb adds a queue.
func createQueueVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create ID",
		Aliases: []string{"createQueue"},
		Short:   "add a queue",
		Long: `
ID is the identifier of the queue. It names the directory and stands in URLs;
there "/", ":" and "." become "=", "+" and ",". cutie set --help explains the
properties.

Prints nothing; with -t it prints the state of the queue.`,
		Example: `cutie create ingest --name 'primary ingest' --size 1000 --age 720`,
	}
	settingOptions(cmd.Flags())
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		settings, err := settingsOf(cmd.Flags())
		if err != nil {
			return err
		}
		info := home.NewQueue("", time.Time{})
		info.Identifier, info.Name = c.Args[0], c.Args[0]
		for _, s := range settings {
			if err := home.PropertyNamed(s.Name).Set(&info, s.Value); err != nil {
				return inOptions(err)
			}
		}
		if info.ID, err = job.CleanQueueID(info.Identifier); err != nil {
			return err
		}
		return answerQueue(ctx, c, func(t *target, _ string) (state.Queue, error) {
			q, err := t.CreateQueue(ctx, info)
			if err == nil && q.Info.ID != info.Identifier {
				c.Warnf("%s: is %s in URLs and as a directory", info.Identifier, q.Info.ID)
			}
			return q, err
		})
	})
}
