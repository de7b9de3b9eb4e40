package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
)

// manyJobs is the manual of verbs that change many jobs.
const manyJobs = `

The answer for one named job is its new state. For several, and for identifiers
that "-" reads from standard input, each identifier is printed once its job is
done. A job that fails is reported and the others go on; the exit code is that of
the first failure. With -t the answers are states always.

Options select jobs instead of names: those for which all options hold. Other
jobs are passed over. -n prints the jobs and changes nothing.`

// removeVerb deletes pending jobs (Cutie 0.3, 5.8).
func removeVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm QUEUE [JOB…|-]",
		Aliases: []string{"deleteJob", "delete", "deleteItem"},
		Short:   "delete pending jobs",
		Long: `
Deleting a deleted job changes nothing; a consumed job cannot be deleted (exit
code 5).` + manyJobs,
		Example: `cutie rm jobs j000000000002
cutie rm jobs --older 30d -n`,
	}
	return changeJobs(c, cmd, "deleted", func() (bulk.Operation, change, error) {
		return bulk.Operation{Method: "delete"}, (*reach.Target).Delete, nil
	})
}

// requeueVerb makes consumed or deleted jobs pending again.
func requeueVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "requeue QUEUE [JOB…|-]",
		Aliases: []string{"requeueJob"},
		Short:   "make consumed or deleted jobs pending again",
		Long: `
A job keeps its identifier and its place in the queue, and a failed one has all its
attempts again. With --end it stays as it is, and its payload becomes a new job at
the end; the answer is the new job. A job that a consumer works on is refused (exit
code 5), and passed over when jobs are selected; with --force it is taken from its
consumer, whose report is refused then. With --end and without it a closed queue
takes the job, and the limits of users do not count: both are for submissions.` + manyJobs,
		Example: `cutie requeue jobs j000000000001
cutie requeue jobs --outcome error
cutie requeue jobs --status consumed --outcome error --older 24h --end -n`,
	}
	end := cmd.Flags().Bool("end", false, "as a new job at the end of the queue")
	force := cmd.Flags().Bool("force", false, "take jobs from their consumers too")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *end && *force {
			return fault.Usagef("--end and --force exclude each other: a job in work is not put at the end")
		}
		return nil
	}
	return changeJobs(c, cmd, "requeued", func() (bulk.Operation, change, error) {
		op := bulk.Operation{Method: "requeue", End: *end, Force: *force}
		switch {
		case *end:
			return op, (*reach.Target).RequeueEnd, nil
		case *force:
			return op, (*reach.Target).RequeueForced, nil
		}
		return op, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			j, err := t.Requeue(ctx, queue, job)
			if errors.Is(err, queuefs.ErrConflict) {
				err = fault.Hint(err, "--force takes the job from its consumer")
			}
			return j, err
		}, nil
	})
}

// holdVerb keeps pending jobs from being taken.
func holdVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hold QUEUE [JOB…|-]",
		Aliases: []string{"holdJob"},
		Short:   "keep pending jobs from being taken",
		Long: `
Consumers pass over a job on hold. cutie release gives it its place again, and so
does the end of the hold, if it has one. A job on hold stays so, with the new
reason if there is one, and with the new end or without one.

Options select the jobs that are not on hold, and those whose hold has another
end.` + manyJobs,
		Example: `cutie hold jobs j000000000002 --reason 'waits for a licence'
cutie hold jobs j000000000005 --until 7d
cutie hold jobs --submitter 'curl/7.88.1' --until 90m -n`,
	}
	why := cmd.Flags().String("reason", "", "`text` with the reason")
	end := cmd.Flags().String("until", "", "release them at this `time`, such as 2026-12-24T18:00, or after 90m or 7d")
	return changeJobs(c, cmd, "held", func() (bulk.Operation, change, error) {
		until, err := parseWhen("until", *end, time.Now())
		return bulk.Operation{Method: "hold", Reason: *why, Until: until}, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			return t.HoldUntil(ctx, queue, job, *why, until)
		}, err
	})
}

// releaseVerb lets jobs on hold be taken again.
func releaseVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "release QUEUE [JOB…|-]",
		Aliases: []string{"releaseJob"},
		Short:   "let jobs on hold be taken again",
		Long:    manyJobs,
		Example: `cutie release jobs j000000000002
cutie release jobs --held`,
	}
	return changeJobs(c, cmd, "released", func() (bulk.Operation, change, error) {
		return bulk.Operation{Method: "release"}, (*reach.Target).Release, nil
	})
}

// abortVerb takes jobs out of work.
func abortVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "abort QUEUE JOB…|-",
		Aliases: []string{"abortJob"},
		Short:   "take jobs out of work, even from their consumers",
		Long: `
A pending job is deleted. A consumed job loses its lease, and later reports of its
consumer are refused. The outcome of both is aborted. A job without a lease cannot
be aborted (exit code 5). The answers are those of cutie rm.`,
		Example: `cutie abort jobs j000000000002 --reason 'wrong input'`,
	}
	how := manner{done: "aborted"}
	fs := cmd.Flags()
	fs.BoolVarP(&how.quiet, "quiet", "q", false, "print nothing")
	why := fs.String("reason", "", "`text` with the reason")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		return eachJob(ctx, c, how, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			return t.Abort(ctx, queue, job, *why)
		})
	})
}

// changeJobs completes a verb that changes many jobs. It calls operation once
// the options are read.
func changeJobs(c *call, cmd *cobra.Command, done string, operation func() (bulk.Operation, change, error)) *cobra.Command {
	how := manner{done: done}
	cmd.Flags().BoolVarP(&how.quiet, "quiet", "q", false, "print nothing")
	selector := bindSelector(cmd.Flags())
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		op, do, err := operation()
		if err != nil {
			return err
		}
		many, err := selector.selected(c)
		if err != nil {
			return err
		}
		if !many {
			return eachJob(ctx, c, how, do)
		}
		if c.Form != "" || c.Out.Name != "" {
			return fault.Usagef("--response-form and --output are for jobs that are named")
		}
		if err := selector.parse(); err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *reach.Target, queue string) error { return changeSelected(ctx, c, t, queue, how, selector, op) })
	})
}
