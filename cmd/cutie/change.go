package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs/bulk"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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
		return bulk.Operation{Method: "delete"}, (*target).Delete, nil
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
			return usagef("--end and --force exclude each other: a job in work is not put at the end")
		}
		return nil
	}
	return changeJobs(c, cmd, "requeued", func() (bulk.Operation, change, error) {
		op := bulk.Operation{Method: "requeue", End: *end, Force: *force}
		switch {
		case *end:
			return op, (*target).RequeueEnd, nil
		case *force:
			return op, (*target).RequeueForced, nil
		}
		return op, func(t *target, ctx context.Context, queue, jobID string) (job.Job, error) {
			j, err := t.Requeue(ctx, queue, jobID)
			if errors.Is(err, job.ErrConflict) {
				err = withHint(err, "--force takes the job from its consumer")
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
		return bulk.Operation{Method: "hold", Reason: *why, Until: until}, func(t *target, ctx context.Context, queue, job string) (job.Job, error) {
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
		return bulk.Operation{Method: "release"}, (*target).Release, nil
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
		return eachJob(ctx, c, how, func(t *target, ctx context.Context, queue, job string) (job.Job, error) {
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
			return usagef("--response-form and --output are for jobs that are named")
		}
		if err := selector.parse(); err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *target, queue string) error { return changeSelected(ctx, c, t, queue, how, selector, op) })
	})
}

// A change changes a job and returns it.
type change func(t *target, ctx context.Context, queue, job string) (job.Job, error)

// A manner is how a verb reports the jobs it has changed.
type manner struct {
	done  string // as in "3 jobs deleted"; "" for a verb that asks
	quiet bool
}

// eachJob changes, or asks for, each job named after the queue.
func eachJob(ctx context.Context, c *call, how manner, do change) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	if _, err := c.QueueArg(); err != nil {
		return err
	}
	ids, err := jobArgs(c, c.Args[1:])
	if err != nil {
		return err
	}
	states := how.done == "" || c.Form != "" || len(c.Args) == 2 && c.Args[1] != "-"
	return c.AtQueue(ctx, func(t *target, queue string) error {
		if how.done != "" { // nothing is changed before all names were looked at
			for _, id := range ids {
				if err := mayExist(ctx, t, queue, id); err != nil {
					return jobError(queue, id, err)
				}
			}
		}
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
					err = jobError(queue, id, err)
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
func sum(c *call, queue string, all, done int, how manner, err error) error {
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
	for _, e := range []error{ledger.ErrNoJob, job.ErrNotPending, job.ErrConflict} {
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
// only argument "-".
func jobArgs(c *call, args []string) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		words := bufio.NewScanner(c.Stdin)
		words.Split(bufio.ScanWords)
		for args = nil; words.Scan(); {
			if args = append(args, words.Text()); len(args) > maxIDs {
				return nil, usagef("more than %d identifiers", maxIDs)
			}
		}
		if err := words.Err(); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
	return args, nil
}

// A selector holds the options for selecting jobs instead of naming them.
type selector struct {
	flags   *pflag.FlagSet
	status  string
	outcome string
	older   string
	limit   int
	s       bulk.Selection
}

// selecting are the options for selecting jobs.
var selecting = []string{"status", "outcome", "held", "batch", "submitter", "older"}

func bindSelector(fs *pflag.FlagSet) *selector {
	o := &selector{flags: fs}
	fs.StringVar(&o.status, "status", "", "the jobs in `pending|consumed|deleted`")
	fs.StringVar(&o.outcome, "outcome", "", "the jobs with the outcome `completed|error|aborted`")
	fs.BoolVar(&o.s.Held, "held", false, "the jobs on hold")
	fs.StringVar(&o.s.Batch, "batch", "", "the jobs of this `batch`")
	fs.StringVar(&o.s.Submitter, "submitter", "", "the jobs of this `agent`, as the submitter in their states")
	fs.StringVar(&o.older, "older", "", "the jobs with no event since this `age`, such as 90m, 24h or 7d")
	fs.IntVar(&o.limit, "limit", 0, "up to this `number` of the selected jobs, the oldest first")
	fs.BoolVarP(&o.s.Dry, "dry-run", "n", false, "print the jobs and change nothing")
	return o
}

// selected reports whether options select jobs. It refuses names beside them.
func (o *selector) selected(c *call) (bool, error) {
	which := ""
	for _, name := range selecting {
		if o.flags.Changed(name) {
			which = name
		}
	}
	switch named := len(c.Args) > 1; {
	case which != "" && named:
		return false, usagef("either name jobs, or select them by --%s", which)
	case which == "" && !named:
		return false, withHint(usagef("no jobs are named"), "name them, or - for standard input, or select them by --status, --outcome, --held, --batch, --submitter or --older")
	case named && (o.limit != 0 || o.s.Dry):
		return false, usagef("--limit and --dry-run are for jobs that are selected, not named")
	case o.limit < 0 || o.flags.Changed("limit") && o.limit == 0:
		return false, usagef("--limit %d is not a number of jobs", o.limit)
	}
	return which != "", nil
}

func (o *selector) parse() (err error) {
	o.s.Status, o.s.Outcome, err = parseStates(o.status, o.outcome)
	if err == nil && o.older != "" {
		o.s.Older, err = parseAge(o.older)
	}
	return err
}

// parseAge reads the age of --older: a duration, in days too; a number alone is hours, as in the
// thresholds of queues.
func parseAge(s string) (time.Duration, error) {
	unit, number := time.Hour, s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		unit, number = 24*time.Hour, days
	}
	d, err := time.ParseDuration(s)
	if n, e := strconv.ParseUint(number, 10, 32); e == nil && n <= math.MaxInt64/uint64(unit) {
		d, err = time.Duration(n)*unit, nil
	}
	if err != nil || d <= 0 {
		return 0, usagef("--older %.40q is neither hours nor a duration such as 90m or 7d", s)
	}
	return d, nil
}

// changeSelected changes the selected jobs and prints their identifiers. One request
// ends after some time or some jobs, and the next one goes on after them.
func changeSelected(ctx context.Context, c *call, t *target, queue string, how manner, o *selector, op bulk.Operation) error {
	n, s := 0, o.s
	for {
		s.Limit = 0
		if o.limit > 0 {
			s.Limit = min(o.limit-n, bulk.Max)
		}
		done, err := t.Bulk(ctx, queue, op, s)
		changed := append(done.Changed, done.Chosen...)
		n += len(changed)
		if err == nil && !how.quiet {
			var ids []string
			for _, id := range changed {
				ids = append(ids, id.String())
			}
			err = c.Out.Lines(ids)
		}
		if err != nil {
			if n > 0 {
				err = withHint(err, fmt.Sprintf("%s %s before", inWords(n), how.done))
			}
			return err
		}
		if done.More && done.After > s.After && (o.limit == 0 || n < o.limit) {
			s.After = done.After
			continue
		}
		switch {
		case how.quiet:
		case s.Dry && done.More:
			c.Warnf("%s: %s and more would be %s", queue, inWords(n), how.done)
		case s.Dry:
			c.Warnf("%s: %s would be %s", queue, inWords(n), how.done)
		default:
			c.Warnf("%s: %s %s", queue, inWords(n), how.done)
		}
		return nil
	}
}

// inWords is a number of jobs in words.
func inWords(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// whenLayouts are the forms of a time by the clock here.
var whenLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// parseWhen reads the time of an option, the zero time if it is empty: RFC 3339, a
// date with or without a time by the clock here, or a time from now, in days too.
func parseWhen(option, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	for _, layout := range whenLayouts {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 100*366 {
			return now.Add(time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, usagef("--%s %.40q is neither a time such as 2026-11-25T08:00 nor one from now such as 90m or 7d", option, s)
}
