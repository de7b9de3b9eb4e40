package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

var deleteVerb = verb{
	name:    "deleteJob",
	aliases: []string{"delete", "rm", "deleteitem"},
	args:    "QUEUE JOB…|-",
	min:     2,
	max:     -1,
	about:   "delete pending jobs",
	manual: `
Prints the state of each job, as it is then. - reads the identifiers from
standard input. A job that is deleted already stays so; one that is consumed
cannot be deleted (exit code 5). The jobs are taken one after the other, and the
first that fails ends the command.`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action { return changeJobs(fs, target.Delete) },
}

var requeueVerb = verb{
	name:    "requeueJob",
	aliases: []string{"requeue"},
	args:    "QUEUE JOB…|-",
	min:     2,
	max:     -1,
	about:   "make consumed or deleted jobs pending again",
	manual: `
Prints the state of each job, as it is then. - reads the identifiers from
standard input. A job keeps its identifier, and with it its place in the queue.
The jobs are taken one after the other, and the first that fails ends the
command.`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action { return changeJobs(fs, target.Requeue) },
}

// changeJobs is the action of verbs that do one thing to many jobs.
func changeJobs(fs *pflag.FlagSet, do func(target, context.Context, string, string) (queuefs.Job, error)) action {
	quiet := fs.BoolP("quiet", "q", false, "print nothing")
	return func(ctx context.Context, c *call) error {
		return c.eachJob(ctx, *quiet, do)
	}
}

// eachJob does something to, or asks something of, every job that the
// arguments after the queue name, and prints the states: ANVL records with
// empty lines between them, or JSON objects, one a line.
func (c *call) eachJob(ctx context.Context, quiet bool, do func(target, context.Context, string, string) (queuefs.Job, error)) (err error) {
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	ids, err := c.jobArgs(c.args[1:])
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
	base := state.NewBase(service.BaseURI)

	var out []byte
	var failed error
	for i, id := range ids {
		j, err := do(t, ctx, queue, id)
		if err != nil {
			// What was done before is shown all the same.
			failed = aboutJob(queue, id, err)
			if i > 0 {
				failed = withHint(failed, fmt.Sprintf("%d of %d jobs were done, up to %s", i, len(ids), ids[i-1]))
			}
			break
		}
		if form == state.ANVL && i > 0 {
			out = append(out, '\n')
		}
		d := state.OfJob(base, &j)
		out = form.Append(out, &d)
	}
	if quiet || len(out) == 0 {
		return failed
	}
	return errors.Join(failed, c.emit(out))
}

// maxIDs is how many jobs one command takes from standard input.
const maxIDs = 1_000_000

// jobArgs reads job identifiers from arguments, or from standard input for the
// only argument "-". They are all checked before anything is done.
func (c *call) jobArgs(args []string) ([]string, error) {
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
		if _, err := queuefs.ParseJobID(a); err != nil {
			return nil, err
		}
	}
	return args, nil
}
