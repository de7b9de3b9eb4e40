package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"cutie/queuefs/bulk"
	"cutie/queuefs/content"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// lsVerb lists jobs, or shows a queue (Cutie 0.3, 5.3).
func lsVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [QUEUE]",
		Aliases: []string{"getQueueState", "list"},
		Short:   "list the jobs of a queue, or show the queue",
		Long: `
Lists one job a line, in the order of the queue: as a table on a terminal, as
tab-separated fields elsewhere (job, status, size, submitted, note, filename). The
note is held, leased, completed, error, aborted, or "-". With -q a line is the
identifier alone, for commands that read them with "-". There are 100 jobs unless
--limit says otherwise, and --after goes on behind a job. Without a queue it lists
the queues, as cutie status does, and with -t json as an array of objects.

With -t, and called as getQueueState, it prints the state of the queue with up to
1000 jobs; jobsNext in it says where to go on.

--detail prints the states of the jobs instead of that of the queue: as records
separated by empty lines, with -t json as an array, with -t xml in one element.`,
		Example: `cutie ls jobs
cutie ls jobs -q --status consumed
cutie ls jobs --after j000000000001 --limit 5
cutie ls jobs -t xml -o jobs.xml
cutie ls jobs --detail --status consumed -t json`,
	}
	var page bulk.Filter
	fs := cmd.Flags()
	status := fs.String("status", "", "only jobs in `pending|consumed|deleted`")
	outcome := fs.String("outcome", "", "only jobs with the outcome `completed|error|aborted`")
	fs.BoolVar(&page.Held, "held", false, "only jobs on hold")
	fs.StringVar(&page.Batch, "batch", "", "only the jobs of this `batch`")
	fs.StringVar(&page.Submitter, "submitter", "", "only jobs that this `agent` submitted; for the list and --detail")
	after := fs.String("after", "", "only jobs after this `job`")
	fs.IntVar(&page.Limit, "limit", state.DefaultJobs, "up to this `number` of jobs")
	quiet := fs.BoolP("quiet", "q", false, "print identifiers only")
	detail := fs.Bool("detail", false, "print the states of the jobs")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) (err error) {
		list := *quiet || !*detail && c.Form == "" && c.Word() != "getqueuestate"
		switch {
		case *quiet && c.Form != "":
			return usagef("--quiet prints identifiers, and --response-form a state")
		case *quiet && *detail:
			return usagef("--quiet prints identifiers, and --detail states")
		case page.Submitter != "" && !list && !*detail:
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
			page.Limit = -1 // none; 0 is the default
		}
		if page.Status, page.Outcome, err = parseStates(*status, *outcome); err != nil {
			return err
		}
		if *after != "" {
			if page.After, err = job.ParseID(*after); err != nil {
				return err
			}
		}
		if len(c.Args) == 0 {
			if slices.ContainsFunc(ofJobs, fs.Changed) || !list && c.Form == "" {
				return usagef("too few arguments, usage: cutie ls QUEUE")
			}
			if c.Form != "" {
				return c.At(ctx, func(t *target) error { return summarize(ctx, c, t) })
			}
			return serviceState(ctx, c, true, *quiet)
		}
		form, err := c.ResponseForm()
		if err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *target, queue string) error {
			switch {
			case list:
				return listJobs(ctx, c, t, queue, page, *quiet)
			case *detail:
				return jobStates(ctx, c, t, form, queue, page)
			}
			text, err := t.State(ctx, form, queue, "", page)
			if err != nil {
				return err
			}
			return c.Out.Emit(text)
		})
	})
}

// ofJobs are the options for jobs of a queue.
var ofJobs = []string{"status", "outcome", "held", "batch", "submitter", "after", "limit", "detail"}

// parseStates reads a status and an outcome; "" is any.
func parseStates(status, outcome string) (s job.Status, o job.Outcome, err error) {
	if status != "" {
		s, err = job.ParseStatus(strings.ToLower(status))
	}
	if err == nil && outcome != "" {
		o, err = job.ParseOutcome(strings.ToLower(outcome))
	}
	return s, o, err
}

// listJobs prints a line for each job as it comes; long lists need no more memory
// than short ones.
func listJobs(ctx context.Context, c *call, t *target, queue string, page bulk.Filter, quiet bool) error {
	left := page.Limit
	switch {
	case left < 0:
		return c.Out.Emit(nil)
	case left == 0:
		left = state.DefaultJobs
	}
	jobs := t.Jobs
	l := c.Out.Table("JOB", "STATUS", "SIZE", "SUBMITTED", "NOTE", "FILENAME")
	if quiet {
		l = c.Out.Table()
		if page.Submitter == "" {
			jobs = identifiers(t)
		}
	}
	defer l.Discard()
	page.Limit = left + 1 // one more shows whether there are more
	var last job.ID
	more := false
	for j, err := range jobs(ctx, queue, page) {
		if err != nil {
			return err
		}
		if more = left == 0; more {
			break
		}
		left, last = left-1, j.ID
		if quiet {
			err = l.Row(j.ID)
		} else {
			err = l.Row(j.ID, j.Status, l.Size(j.Size), l.Date(j.Submitted), note(&j), j.Filename)
		}
		if err != nil {
			return err
		}
	}
	err := l.End()
	if err == nil && more {
		c.Warnf("%s: there are more, --after %s lists them", queue, last)
	}
	return err
}

// identifiers is like [client.Client.Jobs], but reads no job files.
func identifiers(t *target) func(context.Context, string, bulk.Filter) iter.Seq2[job.Job, error] {
	return func(ctx context.Context, queue string, page bulk.Filter) iter.Seq2[job.Job, error] {
		return func(yield func(job.Job, error) bool) {
			for left, more := page.Limit, true; left > 0 && more; {
				page.Limit = min(left, state.MaxJobs)
				q, err := t.Queue(ctx, queue, page)
				if err != nil {
					yield(job.Job{}, err)
					return
				}
				for _, id := range q.Jobs.IDs {
					if !yield(job.Job{ID: id}, nil) {
						return
					}
					page.After = id
				}
				left, more = left-len(q.Jobs.IDs), q.Jobs.More && len(q.Jobs.IDs) > 0
			}
		}
	}
}

// note tells in one word more than the status of a job.
func note(j *job.Job) string {
	switch {
	case !j.Held.IsZero():
		return "held"
	case !j.Lease.Ends.IsZero():
		return "leased"
	case j.Outcome != 0:
		return j.Outcome.String()
	}
	return "-"
}

// jobStates prints the states of a page of jobs as they come.
func jobStates(ctx context.Context, c *call, t *target, form state.Form, queue string, page bulk.Filter) (err error) {
	in, next, err := t.JobStates(ctx, form, queue, page)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, in.Close()); err == nil && next != 0 {
			c.Warnf("%s: there are more, --after %s shows them", queue, next)
		}
	}()
	return c.Out.Text(func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// statusVerb shows the queues of a service (Cutie 0.3, 5.2).
func statusVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Aliases: []string{"getServiceState"},
		Short:   "list the queues, or show the service",
		Long: `
Lists the queues: as a table on a terminal, as lines of tab-separated fields
elsewhere (queue, pending, consumed, deleted, last event, held, leased, failed,
status). Held jobs are pending; leased and failed jobs are consumed. If the daemon
refuses requests, such as on a full disk, standard error says why. It names the
queues that are not served because their directories are lost.

With -t, and called as getServiceState, it prints the state of the service.`,
		Example: `cutie status
cutie status -q
cutie getServiceState -t json`,
	}
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print the identifiers of the queues only")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		list := *quiet || c.Form == "" && c.Word() != "getservicestate"
		return serviceState(ctx, c, list, *quiet)
	})
}

func serviceState(ctx context.Context, c *call, list, quiet bool) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *target) error {
		if list {
			return listQueues(ctx, c, t, quiet)
		}
		text, err := t.State(ctx, form, "", "")
		if err != nil {
			return err
		}
		return c.Out.Emit(text)
	})
}

// listQueues prints a line for each queue.
func listQueues(ctx context.Context, c *call, t *target, quiet bool) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	if quiet {
		return c.Out.Lines(s.Queues)
	}
	l := c.Out.Table("QUEUE", "PENDING", "CONSUMED", "DELETED", "LAST EVENT", "HELD", "LEASED", "FAILED", "STATUS")
	defer l.Discard()
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, bulk.Filter{Limit: -1})
		if errors.Is(err, ledger.ErrNoQueue) {
			continue // removed since
		}
		if err != nil {
			return nameError(id, err)
		}
		err = l.Row(id, q.Pending, q.Consumed, q.Deleted, l.Date(q.LastEvent), q.Held, q.Leased, q.Failed, queueStatus(&q))
		if err != nil {
			return err
		}
	}
	if err := l.End(); err != nil {
		return err
	}
	for _, id := range s.Lost {
		c.Warnf("%v", &content.LostError{Queue: id})
	}
	if why := t.Trouble(ctx); why != "" {
		c.Warnf("the daemon is not ready: %s; cutie doctor has the cure", why)
	}
	return nil
}

// summarize prints an object for each queue.
func summarize(ctx context.Context, c *call, t *target) error {
	s, err := t.Service(ctx)
	if err != nil {
		return err
	}
	var facts []state.Document
	for _, id := range s.Queues {
		q, err := t.Queue(ctx, id, bulk.Filter{Limit: -1})
		if errors.Is(err, ledger.ErrNoQueue) {
			continue // removed since
		}
		if err != nil {
			return nameError(id, err)
		}
		status := "running"
		if !q.Info.Paused.IsZero() {
			status = "paused"
		}
		facts = append(facts, state.OfFacts(state.SummaryClass, id, q.Pending, q.Consumed, q.Deleted, q.LastEvent,
			q.Held, q.Leased, q.Failed, status, q.Info.Closed))
	}
	return c.Facts(true, facts...)
}

// queueStatus is running, paused, closed, or the latter two.
func queueStatus(q *state.Queue) string {
	var all []string
	if !q.Info.Paused.IsZero() {
		all = append(all, "paused")
	}
	if q.Info.Closed {
		all = append(all, "closed")
	}
	if len(all) == 0 {
		return "running"
	}
	return strings.Join(all, ", ")
}

func watchVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "watch [QUEUE…]",
		Aliases: []string{"follow", "events"},
		Short:   "follow the events of jobs",
		Args:    between(0, maxWatched),
		Long: `
Prints a line for each event of the queues, or of all queues, from now on and
until it is interrupted: in columns on a terminal, as tab-separated fields
elsewhere (time, queue, number, kind, job, from, to, octets, media type), and with
-t json as the object from the daemon. Each event comes at least once; the number
tells them apart.

A lost connection is made again, and the events since then follow. If the daemon
no longer has these events, a line on standard error says so, and with -t json an
object of the kind reset names the state to read instead.

Only a daemon has events to follow.`,
		Example: `cutie watch jobs --from 1 --count 2
cutie watch jobs --from 1 --count 1 --kind submit -t json`,
	}
	w := &watcher{call: c}
	fs := cmd.Flags()
	fs.Int64Var(&w.events.From, "from", 0, "begin with the event of this `number` of the named queues, 1 for the first")
	fs.StringVar(&w.events.Kind, "kind", "", "only events of these kinds, a `list` such as submit,requeue")
	fs.StringVar(&w.events.Status, "status", "", "only events that lead to these statuses, a `list` such as pending")
	fs.IntVarP(&w.count, "count", "n", 0, "end after this `number` of events")
	return c.Verb(cmd, optTarget|optForm, func(ctx context.Context) error {
		switch {
		case c.Form != "" && !strings.EqualFold(c.Form, "json"):
			return withHint(usagef("events have no response form %.40q", c.Form), "-t json, or no -t")
		case w.events.From < 0 || w.count < 0:
			return usagef("--from and --count are not negative")
		case w.events.From > 0 && len(c.Args) == 0:
			return usagef("--from is for queues that are named")
		}
		w.json = c.Form != ""
		return w.run(ctx)
	})
}

// maxWatched is the most queues of one command.
const maxWatched = 100

// A watcher prints the events of one or more streams.
type watcher struct {
	*call
	events client.Events
	count  int // 0: no end
	json   bool

	mu   sync.Mutex // one line at a time
	seen int
	stop context.CancelFunc
}

// errSeen ends the streams after --count events.
var errSeen = errors.New("enough events")

func (w *watcher) run(ctx context.Context) error {
	daemon, err := w.NeedDaemon(ctx)
	if err != nil {
		return err
	}
	defer daemon.Close()
	ctx, w.stop = context.WithCancel(ctx)
	defer w.stop()
	names := w.Args
	if len(names) == 0 {
		names = []string{""}
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			defer w.stop() // the end of one is the end of all
			events := w.events
			events.Queue, events.Lost = name, w.lost
			errs[i] = daemon.Follow(ctx, events, w.print)
			if name != "" && ctx.Err() == nil {
				errs[i] = nameError(name, errs[i])
			}
		})
	}
	all.Wait()
	if errors.Is(errors.Join(errs...), errSeen) {
		return nil
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return context.Cause(ctx)
}

// lost reports a lost connection.
func (w *watcher) lost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Warnf("connection lost, trying again: %v", err)
}

// print prints one event.
func (w *watcher) print(e client.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 && w.seen == w.count {
		return errSeen
	}
	_, err := onScreen(w.Out.Stdout).Write(w.line(&e))
	if err != nil || e.Kind == client.Reset {
		return err
	}
	if w.seen++; w.seen == w.count {
		return errSeen
	}
	return nil
}

func (w *watcher) line(e *client.Event) []byte {
	if e.Kind == client.Reset {
		w.Warnf("events are missing: %s; see %s", strings.TrimPrefix(e.Queue+": "+e.Reason, ": "), e.State)
		if !w.json {
			return nil
		}
	}
	if w.json {
		return append(bytes.Clone(e.Data), '\n')
	}
	f := w.Out.Format()
	r := f.Fields(f.Date(e.Time), e.Queue, e.Seq, e.Kind, cmp.Or(e.Job, "queue-info.txt"), cmp.Or(e.From, "-"), cmp.Or(e.To, "-"), f.Size(e.Size), cmp.Or(e.Type, "-"))
	if f.People {
		return fmt.Appendf(nil, "%s  %s  %-7s  %s  %s\n", r[0], r[1], r[3], r[4], moved(r[5], r[6]))
	}
	return []byte(strings.Join(r, "\t") + "\n")
}

// moved tells where a job went, or where it is.
func moved(from, to string) string {
	switch {
	case from == to:
		return to
	case from == "-":
		return to
	case to == "-":
		return from + " → gone"
	}
	return from + " → " + to
}

// showVerb shows jobs (Cutie 0.3, 5.4).
func showVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show QUEUE JOB…|-",
		Aliases: []string{"getJobState", "stat"},
		Short:   "show jobs",
		Long: `
Prints the states of jobs: an empty line stands between two, or with -t json each
has a line. - reads the identifiers from standard input.`,
		Example: `cutie show jobs j000000000001
cutie ls jobs -q | cutie show jobs - -t json`,
	}
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		return eachJob(ctx, c, manner{}, func(t *target, ctx context.Context, queue, jobID string) (job.Job, error) {
			if err := mayExist(ctx, t, queue, jobID); err != nil {
				return job.Job{}, err
			}
			return t.Job(ctx, queue, jobID)
		})
	})
}

// mayExist refuses names impossible for a job, which no URL could carry: with the
// error for the queue, or with [ledger.ErrNoJob].
func mayExist(ctx context.Context, t *target, queue, jobID string) error {
	if _, err := job.ParseID(jobID); err == nil {
		return nil
	}
	if _, err := t.Queue(ctx, queue, bulk.Filter{Limit: -1}); err != nil {
		return err
	}
	return ledger.ErrNoJob
}
