package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A chooser is the options that select jobs instead of naming them.
type chooser struct {
	flags   *pflag.FlagSet
	status  string
	outcome string
	older   string
	limit   int
	s       rest.Selection
}

// selecting are the names of the options that say which jobs are meant.
var selecting = []string{"status", "outcome", "held", "batch", "submitter", "older"}

func bindChooser(fs *pflag.FlagSet) *chooser {
	o := &chooser{flags: fs}
	fs.StringVar(&o.status, "status", "", "the jobs in `pending|consumed|deleted`")
	fs.StringVar(&o.outcome, "outcome", "", "the jobs whose outcome is `completed|error|aborted`")
	fs.BoolVar(&o.s.Held, "held", false, "the jobs on hold")
	fs.StringVar(&o.s.Batch, "batch", "", "the jobs of this `batch`")
	fs.StringVar(&o.s.Submitter, "submitter", "", "the jobs that this `agent` submitted, as their state has it")
	fs.StringVar(&o.older, "older", "", "the jobs whose last event is this `age` ago, such as 90m, 24h or 7d")
	fs.IntVar(&o.limit, "limit", 0, "of the selected jobs no more than this `number`, the oldest first")
	fs.BoolVarP(&o.s.Dry, "dry-run", "n", false, "print which jobs it would be, and change nothing")
	return o
}

// selected tells whether jobs are selected, and refuses both ways at once.
func (o *chooser) selected(c *call) (bool, error) {
	which := ""
	for _, name := range selecting {
		if o.flags.Changed(name) {
			which = name
		}
	}
	switch named := len(c.args) > 1; {
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

func (o *chooser) parse() (err error) {
	if o.status != "" {
		if o.s.Status, err = queuefs.ParseStatus(strings.ToLower(o.status)); err != nil {
			return err
		}
	}
	if o.outcome != "" {
		if o.s.Outcome, err = queuefs.ParseOutcome(strings.ToLower(o.outcome)); err != nil {
			return err
		}
	}
	if o.older != "" {
		o.s.Older, err = parseAge("--older", o.older)
	}
	return err
}

// parseAge reads a duration, also of days; a number alone is hours, as of the
// thresholds of queues.
func parseAge(option, s string) (time.Duration, error) {
	unit, number := time.Hour, s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		unit, number = 24*time.Hour, days
	}
	d, err := time.ParseDuration(s)
	if n, e := strconv.ParseUint(number, 10, 32); e == nil && n <= math.MaxInt64/uint64(unit) {
		d, err = time.Duration(n)*unit, nil
	}
	if err != nil || d <= 0 {
		return 0, usagef("%s %.40q is neither hours nor a duration such as 90m or 7d", option, s)
	}
	return d, nil
}

// bulk does what one call after another does with the selected jobs, and prints
// their identifiers. A call stops after some time or some jobs, perhaps before
// it has found any; the next goes on behind what that has seen.
func (c *call) bulk(ctx context.Context, t target, queue string, how manner, o *chooser, op rest.Operation) error {
	n, s := 0, o.s
	for {
		s.Limit = 0
		if o.limit > 0 {
			s.Limit = min(o.limit-n, rest.MaxSelection)
		}
		done, err := t.Bulk(ctx, queue, op, s)
		changed := append(done.Changed, done.Chosen...)
		n += len(changed)
		if err == nil && !how.quiet {
			var ids []string
			for _, id := range changed {
				ids = append(ids, id.String())
			}
			_, err = c.stdout.Write(lines(ids))
		}
		if err != nil {
			err = about(queue, err)
			if n > 0 {
				err = withHint(err, fmt.Sprintf("%s %s before", jobs(n), how.done))
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
			c.warnf("%s: %s and more would be %s", queue, jobs(n), how.done)
		case s.Dry:
			c.warnf("%s: %s would be %s", queue, jobs(n), how.done)
		default:
			c.warnf("%s: %s %s", queue, jobs(n), how.done)
		}
		return nil
	}
}

// jobs says how many.
func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
