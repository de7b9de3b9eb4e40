package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

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
tab-separated fields elsewhere (queue, pending, consumed, deleted, last event,
held, leased, failed, status). Of the pending some are held, of the consumed
some are leased to a consumer who is to report, and some have failed.`,
	examples: `cutie status
cutie status -q
cutie getServiceState -t json`,
	takes: atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		quiet := fs.BoolP("quiet", "q", false, "print the identifiers of the queues only")
		return func(ctx context.Context, c *call) error { return c.serviceState(ctx, *quiet) }
	},
}

var queueStateVerb = verb{
	name:    "getQueueState",
	aliases: []string{"ls", "list"},
	args:    "QUEUE",
	max:     1,
	about:   "show a queue and its jobs",
	manual: `
Jobs are listed in the order of the queue, 100 unless --limit says otherwise,
and at most 1000; jobsNext in the answer tells where to go on, and --after does.

Called as ls it lists one job a line, and as many as --limit says: as a table on
a terminal, as tab-separated fields elsewhere (job, status, size, submitted,
note, filename). The note is held, leased, completed, error, aborted, or "-".
With -q it is the identifier alone, for a command that reads them with "-".
Without a queue ls lists the queues, as status does.

--detail prints the states of the jobs instead of that of the queue: as records
separated by empty lines, with -t json as an array, with -t xml in one element.`,
	examples: `cutie ls jobs
cutie ls jobs -q --status consumed
cutie ls jobs --after j000000000001 --limit 5
cutie getQueueState jobs -t xml -o jobs.xml
cutie getQueueState jobs --detail --status consumed -t json`,
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
	examples: `cutie show jobs j000000000001
cutie ls jobs -q | cutie show jobs - -t json`,
	takes: atTarget | withForm | toOutput,
	setup: func(*pflag.FlagSet) action {
		return func(ctx context.Context, c *call) error {
			return c.eachJob(ctx, manner{}, func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
				if err := mayExist(ctx, t, queue, job); err != nil {
					return queuefs.Job{}, err
				}
				return t.Job(ctx, queue, job)
			})
		}
	},
}

// mayExist returns an error for a name that no job has: that of the queue, if
// there is none, or [queuefs.ErrNoJob]. Such names do not survive in a URL.
func mayExist(ctx context.Context, t target, queue, job string) error {
	if _, err := queuefs.ParseJobID(job); err == nil {
		return nil
	}
	if _, err := t.Queue(ctx, queue, rest.Page{Limit: -1}); err != nil {
		return err
	}
	return queuefs.ErrNoJob
}

// responseForm is the form asked for, ANVL if none was (Cutie 0.3, 4).
func (c *call) responseForm() (state.Form, error) {
	if c.form == "" {
		return state.ANVL, nil
	}
	f, err := state.ParseForm(c.form)
	if err != nil {
		return 0, withHint(usagef("response form %.40q is not known", c.form), "-t anvl, json, turtle, xhtml, xml or soif")
	}
	return f, nil
}

func (c *call) serviceState(ctx context.Context, quiet bool) (err error) {
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if quiet || c.word != strings.ToLower(c.verb.name) && c.form == "" {
		return c.listQueues(ctx, t, quiet)
	}
	text, err := t.State(ctx, form, "", "")
	if err != nil {
		return err
	}
	return c.emit(text)
}

func setupQueueState(fs *pflag.FlagSet) action {
	var page rest.Page
	var status, outcome, after string
	var quiet, detail bool
	fs.StringVar(&status, "status", "", "only jobs in `pending|consumed|deleted`")
	fs.StringVar(&outcome, "outcome", "", "only jobs whose outcome is `completed|error|aborted`")
	fs.BoolVar(&page.Held, "held", false, "only jobs on hold")
	fs.StringVar(&page.Batch, "batch", "", "only the jobs of this `batch`")
	fs.StringVar(&page.Submitter, "submitter", "", "only jobs that this `agent` submitted; for ls and --detail")
	fs.StringVar(&after, "after", "", "only jobs behind this `job`")
	fs.IntVar(&page.Limit, "limit", state.DefaultJobs, "at most this `number` of jobs")
	fs.BoolVarP(&quiet, "quiet", "q", false, "print identifiers only")
	fs.BoolVar(&detail, "detail", false, "print the states of the jobs")
	return func(ctx context.Context, c *call) error {
		list := quiet || c.word != strings.ToLower(c.verb.name) && c.form == ""
		if quiet && c.form != "" {
			return usagef("--quiet prints identifiers, and --response-form a state")
		}
		switch {
		case detail && quiet:
			return usagef("--quiet prints identifiers, and --detail states")
		case detail:
			list = false
		case page.Submitter != "" && !list:
			return usagef("--submitter is for ls and --detail")
		}
		most := state.MaxJobs
		if list {
			most = maxIDs
		}
		switch {
		case page.Limit < 0 || page.Limit > most:
			return usagef("--limit %d is not between 0 and %d", page.Limit, most)
		case page.Limit == 0:
			page.Limit = -1 // none, where 0 is the default
		}
		var err error
		if status != "" {
			if page.Status, err = queuefs.ParseStatus(strings.ToLower(status)); err != nil {
				return err
			}
		}
		if outcome != "" {
			if page.Outcome, err = queuefs.ParseOutcome(strings.ToLower(outcome)); err != nil {
				return err
			}
		}
		if after != "" {
			if page.After, err = queuefs.ParseJobID(after); err != nil {
				return err
			}
		}
		if len(c.args) == 0 {
			if of := slices.IndexFunc(ofJobs, fs.Changed); of >= 0 || !list {
				return usagef("too few arguments, usage: cutie %s %s", c.verb.name, c.verb.args)
			}
			return c.serviceState(ctx, quiet)
		}
		return c.queueState(ctx, page, list, quiet, detail)
	}
}

// ofJobs are the options that want a queue.
var ofJobs = []string{"status", "outcome", "held", "batch", "submitter", "after", "limit", "detail"}

func (c *call) queueState(ctx context.Context, page rest.Page, list, quiet, detail bool) (err error) {
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
	if list {
		return c.listJobs(ctx, t, queue, page, quiet)
	}
	if detail {
		return c.jobStates(ctx, t, form, queue, page)
	}
	text, err := t.State(ctx, form, queue, "", page)
	if err != nil {
		return about(queue, err)
	}
	return c.emit(text)
}

// jobStates prints the states of a page of jobs as they come.
func (c *call) jobStates(ctx context.Context, t target, form state.Form, queue string, page rest.Page) (err error) {
	in, next, err := t.JobStates(ctx, form, queue, page)
	if err != nil {
		return about(queue, err)
	}
	defer func() {
		if err = errors.Join(err, in.Close()); err == nil && next != 0 {
			c.warnf("%s: there are more, --after %s shows them", queue, next)
		}
	}()
	if c.output == "" {
		_, err = io.Copy(screenOf(c.stdout), in)
		return err
	}
	r, err := createResult(c.output)
	if err != nil {
		return err
	}
	if _, err := io.Copy(r, in); err != nil {
		r.Discard()
		return about(queue, err)
	}
	return r.Commit()
}
