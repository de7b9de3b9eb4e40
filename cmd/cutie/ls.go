package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/state"
)

// lsVerb lists jobs, or shows a queue (Cutie 0.3, 5.3).
func lsVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [QUEUE]",
		Aliases: []string{"getQueueState", "list"},
		Short:   "list the jobs of a queue, or show the queue",
		Long: `
Lists one job a line, in the order of the queue: as a table on a terminal, as
tab-separated fields elsewhere (job, status, size, submitted, note, filename). The
note is held, leased, completed, error, aborted, or "-". With -q a line is the
identifier alone, for commands that read them with "-". There are 100 jobs unless
--limit says otherwise, and --after goes on behind a job. Without a queue it lists
the queues, as cutie status does, and with -t json as an array of objects.

With -t, and called as getQueueState, it prints the state of the queue with up to
1000 jobs; jobsNext in it says where to go on.

--detail prints the states of the jobs instead of that of the queue: as records
separated by empty lines, with -t json as an array, with -t xml in one element.`,
		Example: `cutie ls jobs
cutie ls jobs -q --status consumed
cutie ls jobs --after j000000000001 --limit 5
cutie ls jobs -t xml -o jobs.xml
cutie ls jobs --detail --status consumed -t json`,
	}
	var page bulk.Filter
	fs := cmd.Flags()
	status := fs.String("status", "", "only jobs in `pending|consumed|deleted`")
	outcome := fs.String("outcome", "", "only jobs with the outcome `completed|error|aborted`")
	fs.BoolVar(&page.Held, "held", false, "only jobs on hold")
	fs.StringVar(&page.Batch, "batch", "", "only the jobs of this `batch`")
	fs.StringVar(&page.Submitter, "submitter", "", "only jobs that this `agent` submitted; for the list and --detail")
	after := fs.String("after", "", "only jobs after this `job`")
	fs.IntVar(&page.Limit, "limit", state.DefaultJobs, "up to this `number` of jobs")
	quiet := fs.BoolP("quiet", "q", false, "print identifiers only")
	detail := fs.Bool("detail", false, "print the states of the jobs")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) (err error) {
		list := *quiet || !*detail && c.Form == "" && c.Word() != "getqueuestate"
		switch {
		case *quiet && c.Form != "":
			return fault.Usagef("--quiet prints identifiers, and --response-form a state")
		case *quiet && *detail:
			return fault.Usagef("--quiet prints identifiers, and --detail states")
		case page.Submitter != "" && !list && !*detail:
			return fault.Usagef("--submitter is for ls and --detail")
		}
		most := state.MaxJobs
		if list {
			most = maxIDs
		}
		switch {
		case page.Limit < 0 || page.Limit > most:
			return fault.Usagef("--limit %d is not between 0 and %d", page.Limit, most)
		case page.Limit == 0:
			page.Limit = -1 // none; 0 is the default
		}
		if page.Status, page.Outcome, err = parseStates(*status, *outcome); err != nil {
			return err
		}
		if *after != "" {
			if page.After, err = queuefs.ParseJobID(*after); err != nil {
				return err
			}
		}
		if len(c.Args) == 0 {
			if slices.ContainsFunc(ofJobs, fs.Changed) || !list && c.Form == "" {
				return fault.Usagef("too few arguments, usage: cutie ls QUEUE")
			}
			if c.Form != "" {
				return c.At(ctx, func(t *reach.Target) error { return summarize(ctx, c, t) })
			}
			return serviceState(ctx, c, true, *quiet)
		}
		form, err := c.ResponseForm()
		if err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
			switch {
			case list:
				return listJobs(ctx, c, t, queue, page, *quiet)
			case *detail:
				return jobStates(ctx, c, t, form, queue, page)
			}
			text, err := t.State(ctx, form, queue, "", page)
			if err != nil {
				return err
			}
			return c.Out.Emit(text)
		})
	})
}

// ofJobs are the options for jobs of a queue.
var ofJobs = []string{"status", "outcome", "held", "batch", "submitter", "after", "limit", "detail"}

// parseStates reads a status and an outcome; "" is any.
func parseStates(status, outcome string) (s queuefs.Status, o queuefs.Outcome, err error) {
	if status != "" {
		s, err = queuefs.ParseStatus(strings.ToLower(status))
	}
	if err == nil && outcome != "" {
		o, err = queuefs.ParseOutcome(strings.ToLower(outcome))
	}
	return s, o, err
}

// listJobs prints a line for each job as it comes; long lists need no more memory
// than short ones.
func listJobs(ctx context.Context, c *call, t *reach.Target, queue string, page bulk.Filter, quiet bool) error {
	left := page.Limit
	switch {
	case left < 0:
		return c.Out.Emit(nil)
	case left == 0:
		left = state.DefaultJobs
	}
	jobs := t.Jobs
	l := c.Out.Table("JOB", "STATUS", "SIZE", "SUBMITTED", "NOTE", "FILENAME")
	if quiet {
		l = c.Out.Table()
		if page.Submitter == "" {
			jobs = identifiers(t)
		}
	}
	defer l.Discard()
	page.Limit = left + 1 // one more shows whether there are more
	var last queuefs.JobID
	more := false
	for j, err := range jobs(ctx, queue, page) {
		if err != nil {
			return err
		}
		if more = left == 0; more {
			break
		}
		left, last = left-1, j.ID
		if quiet {
			err = l.Row(j.ID)
		} else {
			err = l.Row(j.ID, j.Status, l.Size(j.Size), l.Date(j.Submitted), note(&j), j.Filename)
		}
		if err != nil {
			return err
		}
	}
	err := l.End()
	if err == nil && more {
		c.Warnf("%s: there are more, --after %s lists them", queue, last)
	}
	return err
}

// identifiers is like [client.Client.Jobs], but reads no job files.
func identifiers(t *reach.Target) func(context.Context, string, bulk.Filter) iter.Seq2[queuefs.Job, error] {
	return func(ctx context.Context, queue string, page bulk.Filter) iter.Seq2[queuefs.Job, error] {
		return func(yield func(queuefs.Job, error) bool) {
			for left, more := page.Limit, true; left > 0 && more; {
				page.Limit = min(left, state.MaxJobs)
				q, err := t.Queue(ctx, queue, page)
				if err != nil {
					yield(queuefs.Job{}, err)
					return
				}
				for _, id := range q.Jobs.IDs {
					if !yield(queuefs.Job{ID: id}, nil) {
						return
					}
					page.After = id
				}
				left, more = left-len(q.Jobs.IDs), q.Jobs.More && len(q.Jobs.IDs) > 0
			}
		}
	}
}

// note tells in one word more than the status of a job.
func note(j *queuefs.Job) string {
	switch {
	case !j.Held.IsZero():
		return "held"
	case !j.Lease.Ends.IsZero():
		return "leased"
	case j.Outcome != 0:
		return j.Outcome.String()
	}
	return "-"
}

// jobStates prints the states of a page of jobs as they come.
func jobStates(ctx context.Context, c *call, t *reach.Target, form state.Form, queue string, page bulk.Filter) (err error) {
	in, next, err := t.JobStates(ctx, form, queue, page)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, in.Close()); err == nil && next != 0 {
			c.Warnf("%s: there are more, --after %s shows them", queue, next)
		}
	}()
	return c.Out.Text(func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
