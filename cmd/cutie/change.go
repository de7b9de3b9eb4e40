package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// manyJobs is the manual of verbs that do one thing to many jobs.
const manyJobs = `

One job that is named is answered with its state, as it is then. Of several, and
of those whose identifiers "-" reads from standard input, the identifier of each
is printed once it is done; one that cannot be is reported and the others go on.
The exit code is that of the first that failed. With -t all are answered with
their states.

Instead of naming jobs, options select them: those for which all of these hold.
The others are passed over, and -n tells beforehand which jobs it would be.`

var deleteVerb = verb{
	name:    "deleteJob",
	aliases: []string{"delete", "rm", "deleteitem"},
	args:    "QUEUE [JOB…|-]",
	min:     1,
	max:     -1,
	about:   "delete pending jobs",
	manual: `
A job that is deleted already stays so; one that is consumed cannot be deleted
(exit code 5).` + manyJobs,
	examples: `cutie deleteJob jobs j000000000002
cutie rm jobs --older 30d -n`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		return changeJobs(fs, "deleted", func() (rest.Operation, change) {
			return rest.Operation{Method: "delete"}, target.Delete
		})
	},
}

var requeueVerb = verb{
	name:    "requeueJob",
	aliases: []string{"requeue"},
	args:    "QUEUE [JOB…|-]",
	min:     1,
	max:     -1,
	about:   "make consumed or deleted jobs pending again",
	manual: `
A job keeps its identifier, and with it its place in the queue. With --end it
stays as it is, and its payload becomes a new job at the end, which is answered.` + manyJobs,
	examples: `cutie requeueJob jobs j000000000001
cutie requeue jobs --status consumed --outcome error --older 24h --end -n`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		end := fs.Bool("end", false, "as a new job at the end of the queue")
		return changeJobs(fs, "requeued", func() (rest.Operation, change) {
			if *end {
				return rest.Operation{Method: "requeue", End: true}, target.RequeueEnd
			}
			return rest.Operation{Method: "requeue"}, target.Requeue
		})
	},
}

var holdVerb = verb{
	name:    "holdJob",
	aliases: []string{"hold"},
	args:    "QUEUE [JOB…|-]",
	min:     1,
	max:     -1,
	about:   "keep pending jobs from being taken",
	manual: `
Consumers pass over a job on hold until releaseJob gives it its place again. One
that is held already stays so, and has the new reason if there is one.` + manyJobs,
	examples: `cutie holdJob jobs j000000000002 --reason 'waits for a licence'
cutie hold jobs --submitter 'curl/7.88.1' -n`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		why := fs.String("reason", "", "`text` that says why")
		return changeJobs(fs, "held", func() (rest.Operation, change) {
			return rest.Operation{Method: "hold", Reason: *why}, func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
				return t.Hold(ctx, queue, job, *why)
			}
		})
	},
}

var releaseVerb = verb{
	name:    "releaseJob",
	aliases: []string{"release"},
	args:    "QUEUE [JOB…|-]",
	min:     1,
	max:     -1,
	about:   "let jobs on hold be taken again",
	manual:  strings.TrimSpace(manyJobs),
	examples: `cutie releaseJob jobs j000000000002
cutie release jobs --held`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		return changeJobs(fs, "released", func() (rest.Operation, change) {
			return rest.Operation{Method: "release"}, target.Release
		})
	},
}

var abortVerb = verb{
	name:    "abortJob",
	aliases: []string{"abort"},
	args:    "QUEUE JOB…|-",
	min:     2,
	max:     -1,
	about:   "take jobs out of work, whoever has them",
	manual: `
A pending job is deleted; of a consumed one the lease is revoked, and what its
consumer reports later is refused. The outcome of both is aborted. A job that
nobody works on cannot be aborted (exit code 5). Several jobs are answered as by
deleteJob.`,
	examples: `cutie abortJob jobs j000000000002 --reason 'wrong input'`,
	takes:    atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		how := manner{done: "aborted"}
		fs.BoolVarP(&how.quiet, "quiet", "q", false, "print nothing")
		why := fs.String("reason", "", "`text` that says why")
		return func(ctx context.Context, c *call) error {
			return c.eachJob(ctx, how, func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
				return t.Abort(ctx, queue, job, *why)
			})
		}
	},
}

// A change does something to a job and returns it.
type change func(t target, ctx context.Context, queue, job string) (queuefs.Job, error)

// A manner is how a verb tells what it did to jobs.
type manner struct {
	done  string // as in "3 jobs deleted"; "" for a verb that asks
	quiet bool
}

// changeJobs is the action of verbs that do one thing to many jobs. After the
// options are read, what returns that thing.
func changeJobs(fs *pflag.FlagSet, done string, what func() (rest.Operation, change)) action {
	how := manner{done: done}
	fs.BoolVarP(&how.quiet, "quiet", "q", false, "print nothing")
	chosen := bindChooser(fs)
	return func(ctx context.Context, c *call) (err error) {
		op, do := what()
		many, err := chosen.selected(c)
		if err != nil {
			return err
		}
		if !many {
			return c.eachJob(ctx, how, do)
		}
		if c.form != "" || c.output != "" {
			return usagef("--response-form and --output are for jobs that are named")
		}
		if err := chosen.parse(); err != nil {
			return err
		}
		queue, err := c.queueArg()
		if err != nil {
			return err
		}
		t, err := c.target(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		return c.bulk(ctx, t, queue, how, chosen, op)
	}
}

// eachJob does something to, or asks something of, every job that the
// arguments after the queue name.
func (c *call) eachJob(ctx context.Context, how manner, do change) (err error) {
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	ids, err := c.jobArgs(c.args[1:], how.done != "")
	if err != nil {
		return err
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	service, err := t.Service(ctx)
	if err != nil {
		return err
	}
	r := results{call: c, how: how, form: form, base: state.NewBase(service.BaseURI), queue: queue, all: len(ids)}
	// Verbs that ask, and -t, are answered with states.
	r.states = how.done == "" || c.form != "" || len(c.args) == 2 && c.args[1] != "-"
	for _, id := range ids {
		j, err := do(t, ctx, queue, id)
		if r.add(id, &j, err) {
			break
		}
	}
	return r.end()
}

// results are what became of many jobs.
type results struct {
	*call
	how    manner
	form   state.Form
	base   state.Base
	queue  string
	all    int
	states bool

	out   []byte
	done  int
	first error // of those that failed
	stop  bool
}

// stateBuffer is how many octets of states are gathered before they are
// written.
const stateBuffer = 1 << 20

// add takes in the next job, and tells whether to stop: where the error is not
// that of the job alone.
func (r *results) add(id string, j *queuefs.Job, err error) (stop bool) {
	if err != nil {
		err = aboutJob(r.queue, id, err)
		r.stop = !ofOneJob(err)
		if r.first == nil {
			r.first = err
		}
		if r.all > 1 {
			r.warnf("%v", err)
		}
		return r.stop
	}
	r.done++
	switch {
	case r.how.quiet:
	case r.states:
		if r.form == state.ANVL && r.done > 1 {
			r.out = append(r.out, '\n')
		}
		d := state.OfJob(r.base, j)
		r.out = r.form.Append(r.out, &d)
	default:
		r.out = append(j.ID.Append(r.out), '\n')
	}
	if r.output == "" && (!r.states || len(r.out) > stateBuffer) {
		return r.flush()
	}
	return false
}

// flush writes what there is: lines at once, so that nobody waits for those of
// jobs to come.
func (r *results) flush() (stop bool) {
	if _, err := screenOf(r.stdout).Write(r.out); err != nil {
		r.first, r.stop = err, true
	}
	r.out = r.out[:0]
	return r.stop
}

// ofOneJob tells whether other jobs may do better.
func ofOneJob(err error) bool {
	for _, e := range []error{queuefs.ErrNoJob, queuefs.ErrNotPending, queuefs.ErrConflict} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// end writes the rest, sums up, and returns the error of the first that failed.
func (r *results) end() error {
	if len(r.out) > 0 {
		if err := r.emit(r.out); err != nil {
			return err
		}
	}
	what := r.how.done
	if what == "" {
		what = "found"
	}
	switch {
	case r.all <= 1:
		return r.first
	case r.first != nil:
		return summed{fmt.Sprintf("%s: %d of %s %s", r.queue, r.done, jobs(r.all), what), r.first}
	case !r.how.quiet && r.how.done != "":
		r.warnf("%s: %s %s", r.queue, jobs(r.done), what)
	}
	return nil
}

// A summed error sums up errors that were reported each; it counts as the
// first of them.
type summed struct {
	text  string
	first error
}

func (e summed) Error() string { return e.text }
func (e summed) Unwrap() error { return e.first }

// maxIDs is how many jobs one command takes from standard input.
const maxIDs = 1_000_000

// jobArgs reads job identifiers from arguments, or from standard input for the
// only argument "-". For a verb that changes them they are all checked before
// anything is done; one that asks finds nothing by what names no job.
func (c *call) jobArgs(args []string, changes bool) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		for lines := bufio.NewScanner(c.stdin); ; {
			if !lines.Scan() {
				if err := lines.Err(); err != nil {
					return nil, fmt.Errorf("standard input: %w", err)
				}
				break
			}
			args = append(args, strings.Fields(lines.Text())...)
			if len(args) > maxIDs {
				return nil, usagef("more than %d identifiers", maxIDs)
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
