package jobs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/state"
)

// manyJobs is the manual of verbs that change many jobs.
const manyJobs = `

The answer for one named job is its new state. For several, and for identifiers
that "-" reads from standard input, each identifier is printed once its job is
done. A job that fails is reported and the others go on; the exit code is that of
the first failure. With -t the answers are states always.

Options select jobs instead of names: those for which all options hold. Other
jobs are passed over. -n prints the jobs and changes nothing.`

// Remove deletes pending jobs (Cutie 0.3, 5.8).
func Remove(c *call.Call) *cobra.Command {
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
	return changeJobs(c, cmd, "deleted", func() (bulk.Operation, change) {
		return bulk.Operation{Method: "delete"}, (*reach.Target).Delete
	})
}

// Requeue makes consumed or deleted jobs pending again.
func Requeue(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "requeue QUEUE [JOB…|-]",
		Aliases: []string{"requeueJob"},
		Short:   "make consumed or deleted jobs pending again",
		Long: `
A job keeps its identifier and its place in the queue. With --end it stays as it
is, and its payload becomes a new job at the end; the answer is the new job.` + manyJobs,
		Example: `cutie requeue jobs j000000000001
cutie requeue jobs --status consumed --outcome error --older 24h --end -n`,
	}
	end := cmd.Flags().Bool("end", false, "as a new job at the end of the queue")
	return changeJobs(c, cmd, "requeued", func() (bulk.Operation, change) {
		if *end {
			return bulk.Operation{Method: "requeue", End: true}, (*reach.Target).RequeueEnd
		}
		return bulk.Operation{Method: "requeue"}, (*reach.Target).Requeue
	})
}

// Hold keeps pending jobs from being taken.
func Hold(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hold QUEUE [JOB…|-]",
		Aliases: []string{"holdJob"},
		Short:   "keep pending jobs from being taken",
		Long: `
Consumers pass over a job on hold. cutie release gives it its place again. A job
on hold stays so, with the new reason if there is one.` + manyJobs,
		Example: `cutie hold jobs j000000000002 --reason 'waits for a licence'
cutie hold jobs --submitter 'curl/7.88.1' -n`,
	}
	why := cmd.Flags().String("reason", "", "`text` with the reason")
	return changeJobs(c, cmd, "held", func() (bulk.Operation, change) {
		return bulk.Operation{Method: "hold", Reason: *why}, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			return t.Hold(ctx, queue, job, *why)
		}
	})
}

// Release lets jobs on hold be taken again.
func Release(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "release QUEUE [JOB…|-]",
		Aliases: []string{"releaseJob"},
		Short:   "let jobs on hold be taken again",
		Long:    manyJobs,
		Example: `cutie release jobs j000000000002
cutie release jobs --held`,
	}
	return changeJobs(c, cmd, "released", func() (bulk.Operation, change) {
		return bulk.Operation{Method: "release"}, (*reach.Target).Release
	})
}

// Abort takes jobs out of work.
func Abort(c *call.Call) *cobra.Command {
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
	return c.Verb(cmd, call.Target|call.Form|call.Output, func(ctx context.Context) error {
		return eachJob(ctx, c, how, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			return t.Abort(ctx, queue, job, *why)
		})
	})
}

// A change changes a job and returns it.
type change func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error)

// A manner is how a verb reports the jobs it has changed.
type manner struct {
	done  string // as in "3 jobs deleted"; "" for a verb that asks
	quiet bool
}

// changeJobs completes a verb that changes many jobs. It calls operation once
// the options are read.
func changeJobs(c *call.Call, cmd *cobra.Command, done string, operation func() (bulk.Operation, change)) *cobra.Command {
	how := manner{done: done}
	cmd.Flags().BoolVarP(&how.quiet, "quiet", "q", false, "print nothing")
	selector := bindSelector(cmd.Flags())
	return c.Verb(cmd, call.Target|call.Form|call.Output, func(ctx context.Context) error {
		op, do := operation()
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

// eachJob changes, or asks for, each job named after the queue.
func eachJob(ctx context.Context, c *call.Call, how manner, do change) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	if _, err := c.QueueArg(); err != nil {
		return err
	}
	ids, err := jobArgs(c, c.Args[1:], how.done != "")
	if err != nil {
		return err
	}
	states := how.done == "" || c.Form != "" || len(c.Args) == 2 && c.Args[1] != "-"
	return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
		service, err := t.Service(ctx)
		if err != nil {
			return err
		}
		base := state.NewBase(service.BaseURI)
		done, first := 0, error(nil)
		err = c.Out.Text(func(w io.Writer) error {
			out := bufio.NewWriterSize(w, 1<<20)
			for _, id := range ids {
				j, err := do(t, ctx, queue, id)
				if err != nil {
					err = fault.AboutJob(queue, id, err)
					first = cmp.Or(first, err)
					if len(ids) > 1 {
						c.Warnf("%v", err)
					}
					if !ofOneJob(err) {
						break
					}
					continue
				}
				done++
				switch {
				case how.quiet:
				case states:
					if form == state.ANVL && done > 1 {
						out.WriteByte('\n')
					}
					d := state.OfJob(base, &j)
					out.Write(form.Append(nil, &d))
				default: // each line is for programs waiting for it
					out.WriteString(j.ID.String() + "\n")
					if err := out.Flush(); err != nil {
						return err
					}
				}
			}
			if done == 0 {
				return first
			}
			return out.Flush()
		})
		if err != nil && (done > 0 || first == nil) { // of the output
			return err
		}
		return sum(c, queue, len(ids), done, how, first)
	})
}

// sum reports how many of all jobs are done. err is the first failure.
func sum(c *call.Call, queue string, all, done int, how manner, err error) error {
	what := cmp.Or(how.done, "found")
	switch {
	case all <= 1:
		return err
	case err != nil:
		return summed{fmt.Sprintf("%s: %d of %s %s", queue, done, inWords(all), what), err}
	case !how.quiet && how.done != "":
		c.Warnf("%s: %s %s", queue, inWords(done), what)
	}
	return nil
}

// ofOneJob reports whether other jobs may still succeed.
func ofOneJob(err error) bool {
	for _, e := range []error{queuefs.ErrNoJob, queuefs.ErrNotPending, queuefs.ErrConflict} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A summed error is the sum of reported errors, with the exit code of the first.
type summed struct {
	text  string
	first error
}

func (e summed) Error() string { return e.text }
func (e summed) Unwrap() error { return e.first }

// maxIDs is the most jobs of one command.
const maxIDs = 1_000_000

// jobArgs reads job identifiers from arguments, or from standard input for the
// only argument "-". With changes it checks all of them, and finds mistakes before
// the first change.
func jobArgs(c *call.Call, args []string, changes bool) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		for lines := bufio.NewScanner(c.Stdin); ; {
			if !lines.Scan() {
				if err := lines.Err(); err != nil {
					return nil, fmt.Errorf("standard input: %w", err)
				}
				break
			}
			args = append(args, strings.Fields(lines.Text())...)
			if len(args) > maxIDs {
				return nil, fault.Usagef("more than %d identifiers", maxIDs)
			}
		}
	}
	for _, a := range args {
		if _, err := queuefs.ParseJobID(a); err != nil && changes {
			return nil, err
		}
	}
	return args, nil
}
