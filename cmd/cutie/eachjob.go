package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A change changes a job and returns it.
type change func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error)

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
	return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
		if how.done != "" { // nothing is changed before all names were looked at
			for _, id := range ids {
				if err := mayExist(ctx, t, queue, id); err != nil {
					return fault.AboutJob(queue, id, err)
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
// only argument "-".
func jobArgs(c *call, args []string) ([]string, error) {
	if len(args) == 1 && args[0] == "-" {
		words := bufio.NewScanner(c.Stdin)
		words.Split(bufio.ScanWords)
		for args = nil; words.Scan(); {
			if args = append(args, words.Text()); len(args) > maxIDs {
				return nil, fault.Usagef("more than %d identifiers", maxIDs)
			}
		}
		if err := words.Err(); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
	return args, nil
}
