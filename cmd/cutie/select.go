package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs/bulk"
)

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
		return false, fault.Usagef("either name jobs, or select them by --%s", which)
	case which == "" && !named:
		return false, fault.Hint(fault.Usagef("no jobs are named"), "name them, or - for standard input, or select them by --status, --outcome, --held, --batch, --submitter or --older")
	case named && (o.limit != 0 || o.s.Dry):
		return false, fault.Usagef("--limit and --dry-run are for jobs that are selected, not named")
	case o.limit < 0 || o.flags.Changed("limit") && o.limit == 0:
		return false, fault.Usagef("--limit %d is not a number of jobs", o.limit)
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
		return 0, fault.Usagef("--older %.40q is neither hours nor a duration such as 90m or 7d", s)
	}
	return d, nil
}

// changeSelected changes the selected jobs and prints their identifiers. One request
// ends after some time or some jobs, and the next one goes on after them.
func changeSelected(ctx context.Context, c *call, t *reach.Target, queue string, how manner, o *selector, op bulk.Operation) error {
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
				err = fault.Hint(err, fmt.Sprintf("%s %s before", inWords(n), how.done))
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
