package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

var setQueueVerb = verb{
	name:    "setQueue",
	aliases: []string{"setqueuebehavior", "set"},
	args:    "QUEUE",
	min:     1,
	max:     1,
	about:   "change the properties of a queue",
	manual: `
What no option names stays as it is. A paused queue takes jobs and hands out
none; a closed one hands out what it has and takes none.

With --acknowledge required each job is handed out with a lease, and goes back
when its consumer reports nothing before that ends; with timeout it is completed
then. A job that was handed out --max-attempts times has failed instead. Jobs
are told of to --callback. The thresholds say what cull removes. -1 and the
empty text unset what may be unset.

Prints nothing; with -t the state of the queue.`,
	examples: `cutie setQueue jobs -S pause
cutie setQueue jobs -S restart --size 1000 --age 720
cutie setQueue jobs --acknowledge required --lease 10m --max-attempts 5 -t anvl`,
	takes: atTarget | withForm | toOutput,
	setup: setupSetQueue,
}

func setupSetQueue(fs *pflag.FlagSet) action {
	var behavior string
	var closes, opens bool
	fs.StringVarP(&behavior, "behavior", "S", "", "`pause|restart` the handing out of jobs")
	fs.BoolVar(&closes, "close", false, "take no more jobs")
	fs.BoolVar(&opens, "open", false, "take jobs again")
	fs.String("name", "", "`name` for people")
	fs.String("description", "", "`text` about the queue")
	fs.Int64("size", -1, "`number` of processed jobs to keep; -1 for all")
	fs.Int64("age", -1, "`hours` to keep processed jobs at least; -1 for unset")
	fs.Bool("verify-on-read", false, "compare the digests of a job when it is handed out; =false ends that")
	fs.Bool("verify-on-write", false, "compare the digests that submitters give; =false ends that")
	fs.String("acknowledge", "", "what a consumer's silence means: `none|required|timeout`")
	lease := fs.Duration("lease", 0, "`time` of a lease that nobody asked for, such as 10m; 0 for unset")
	fs.Int64("max-attempts", 0, "`number` of times to hand a job out; 0 for no limit")
	fs.String("callback", "", "`URI` to tell of what happens to jobs; empty for none")
	fs.String("digests", "", "`types` of digests to compute of every payload beside SHA-256, such as \"SHA-256 MD5\"; empty for none")
	return func(ctx context.Context, c *call) (err error) {
		var settings rest.Settings
		switch strings.ToLower(behavior) {
		case "":
		case "pause", "restart":
			settings.Add("S", strings.ToLower(behavior))
		default:
			return usagef("-S %.40q is neither pause nor restart", behavior)
		}
		if closes && opens {
			return usagef("--close and --open exclude each other")
		}
		if closes || opens {
			settings.Add("closed", strconv.FormatBool(closes))
		}
		if *lease < 0 || *lease%time.Second != 0 {
			return usagef("--lease %v is not whole seconds", *lease)
		}
		for _, p := range properties {
			if !fs.Changed(p.option) {
				continue
			}
			value := fs.Lookup(p.option).Value.String()
			if p.option == "lease" {
				value = strconv.FormatInt(int64(*lease/time.Second), 10)
			}
			if value == p.unset {
				value = ""
			}
			settings.Add(p.name, value)
		}
		if len(settings) == 0 {
			return usagef("nothing to set")
		}
		return c.answerQueue(ctx, func(t target, queue string) (state.Queue, error) {
			q, err := t.SetQueue(ctx, queue, settings)
			if errors.Is(err, queuefs.ErrNoSpace) {
				err = withHint(err, "cutie cull "+queue+" --size N needs no room: it makes some")
			}
			return q, err
		})
	}
}

// properties are those of a queue by their options, and how an option says
// that one is unset.
var properties = []struct{ option, name, unset string }{
	{"name", "name", ""},
	{"description", "description", ""},
	{"size", "cullingSizeThreshold", "-1"},
	{"age", "cullingAgeThreshold", "-1"},
	{"verify-on-read", "verifyOnRead", ""},
	{"verify-on-write", "verifyOnWrite", ""},
	{"acknowledge", "acknowledge", ""},
	{"lease", "leaseDuration", "0"},
	{"max-attempts", "maxAttempts", "0"},
	{"callback", "callback", ""},
	{"digests", "digests", ""},
}

// answerQueue does something that returns a queue, and prints its state if a
// form was asked for.
func (c *call) answerQueue(ctx context.Context, do func(t target, queue string) (state.Queue, error)) (err error) {
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	if c.form == "" && c.output != "" {
		return usagef("--output wants --response-form")
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
	q, err := do(t, queue)
	if err != nil {
		return about(queue, err)
	}
	if c.form == "" {
		return nil
	}
	text, err := t.State(ctx, form, q.Info.ID, "")
	if err != nil {
		return about(queue, err)
	}
	return c.emit(text)
}

var removeQueueVerb = verb{
	name:    "removeQueue",
	aliases: []string{"rmqueue"},
	args:    "QUEUE",
	min:     1,
	max:     1,
	about:   "remove a queue that has no jobs",
	manual: `
A queue with jobs of any status stays (exit code 5): take or delete them, and
cull them. What was published of the queue goes with it.`,
	examples: `cutie removeQueue empty`,
	takes:    atTarget,
	setup: func(*pflag.FlagSet) action {
		return func(ctx context.Context, c *call) (err error) {
			queue, err := c.queueArg()
			if err != nil {
				return err
			}
			t, err := c.target(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, t.Close()) }()
			err = t.RemoveQueue(ctx, queue)
			if errors.Is(err, queuefs.ErrNotEmpty) {
				err = withHint(err, "cutie cull "+queue+" --size 0 removes processed jobs; cutie ls "+queue+" shows the others")
			}
			if err != nil {
				return about(queue, err)
			}
			return nil
		}
	},
}
