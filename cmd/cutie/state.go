package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

var serviceStateVerb = verb{
	name:    "getServiceState",
	aliases: []string{"status"},
	about:   "show the service",
	manual: `
Called as status it lists the queues: as a table on a terminal, as lines of
tab-separated fields elsewhere (queue, pending, consumed, deleted, last event).`,
	takes: atTarget | withForm | toOutput,
	setup: func(*pflag.FlagSet) action { return serviceState },
}

var queueStateVerb = verb{
	name:    "getQueueState",
	aliases: []string{"ls", "list"},
	args:    "QUEUE",
	min:     1,
	max:     1,
	about:   "show a queue and its jobs",
	manual: `
Jobs are listed in the order of the queue, 100 unless --limit says otherwise,
and at most 1000; jobsNext in the answer tells where to go on, and --after does.

Called as ls it lists one job a line: as a table on a terminal, as
tab-separated fields elsewhere (job, status, size, submitted, filename).`,
	takes: atTarget | withForm | toOutput,
	setup: setupQueueState,
}

var jobStateVerb = verb{
	name:    "getJobState",
	aliases: []string{"show", "stat"},
	args:    "QUEUE JOB…|-",
	min:     2,
	max:     -1,
	about:   "show jobs",
	manual: `
Several states are separated by empty lines, or with -t json stand one on a
line. - reads the identifiers from standard input.`,
	takes: atTarget | withForm | toOutput,
	setup: func(*pflag.FlagSet) action {
		return func(ctx context.Context, c *call) error { return c.eachJob(ctx, false, target.Job) }
	},
}

// responseForm is the form asked for, ANVL if none was (Cutie 0.3, 4).
func (c *call) responseForm() (state.Form, error) {
	if c.form == "" {
		return state.ANVL, nil
	}
	f, err := state.ParseForm(c.form)
	if err == nil && !f.Writable() {
		err = state.ErrForm
	}
	if err != nil {
		return 0, withHint(usagef("response form %.40q is not known", c.form), "-t anvl or -t json")
	}
	return f, nil
}

func serviceState(ctx context.Context, c *call) (err error) {
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if c.word == "status" && c.form == "" {
		return c.listQueues(ctx, t)
	}
	text, err := t.State(ctx, form, "", "")
	if err != nil {
		return err
	}
	return c.emit(text)
}

func setupQueueState(fs *pflag.FlagSet) action {
	var status, after string
	var limit int
	fs.StringVar(&status, "status", "", "only jobs that are `pending`, consumed or deleted")
	fs.StringVar(&after, "after", "", "only jobs behind this `job`")
	fs.IntVar(&limit, "limit", state.DefaultJobs, "at most this `number` of jobs")
	return func(ctx context.Context, c *call) error {
		page := rest.Page{Limit: limit}
		if limit < 0 || limit > state.MaxJobs {
			return usagef("--limit %d is not between 0 and %d", limit, state.MaxJobs)
		}
		if limit == 0 {
			page.Limit = -1 // none, where 0 is the default
		}
		var err error
		if status != "" {
			if page.Status, err = queuefs.ParseStatus(status); err != nil {
				return err
			}
		}
		if after != "" {
			if page.After, err = queuefs.ParseJobID(after); err != nil {
				return err
			}
		}
		return c.queueState(ctx, page)
	}
}

func (c *call) queueState(ctx context.Context, page rest.Page) (err error) {
	form, err := c.responseForm()
	if err != nil {
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
	if (c.word == "ls" || c.word == "list") && c.form == "" {
		return c.listJobs(ctx, t, queue, page)
	}
	text, err := t.State(ctx, form, queue, "", page)
	if err != nil {
		return about(queue, err)
	}
	return c.emit(text)
}
