package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/mirror"
	"cutie/publisher/destination"
	"cutie/publisher/set"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/uws"
	"cutie/sitemap"
)

// promoteVerb makes a home of a copy.
func promoteVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "promote DIR",
		Short: "make the copy of a daemon's queues a live home",
		Long: `
For the day on which the original is lost: DIR, a copy of its replica sets by cutie
sync, becomes a home. Jobs keep identifiers, order, states, sidecars, holds and leases,
and numbers of jobs and events go on. Then cutie serve --home DIR hands them out.

It refuses while the original still answers, since a queue with two homes hands out
each job twice; --force makes one of the two anyway. Every payload and result is verified
by the digest in its job file first, and every job file by the last change that the copy has
of it: a copy with job files changed, moved or made by other hands is refused. It says how
many job files are from before these changes, and whether queue-info.txt is another. It says
what the copy cannot know: changes of the original after the last event it has seen. The
changes before it stay published, as far as cutie sync has them: who has followed the
original goes on with the home. A promotion that was cut off leaves no home: run it again.

Jobs that were handed out and have no outcome are listed. --requeue-unfinished puts them
back into their queues. A copy whose last sync was cut off, or ended with files in transit,
is promoted, too. Deletions that waited for these files are made. A pending job whose job
file or payload was in transit, so that the copy has a former one or none, is put on hold
and listed. Results and settings in transit are listed: jobs are without such a result, and
queue-info.txt is the former one, with a note. All of this is no error.`,
	}
	o := promotion{refuses: true}
	fs := cmd.Flags()
	fs.BoolVar(&o.force, "force", false, "promote although the original answers, or the copy was never whole, or has other files than published")
	fs.BoolVar(&o.requeue, "requeue-unfinished", false, "put back jobs that were handed out and have no outcome")
	return c.Verb(cmd, optForm|optVerbose, func(ctx context.Context) error { return o.run(ctx, c, c.Args[0]) })
}

type promotion struct {
	force, requeue bool
	refuses        bool // a copy with other files than the original published
}

// A promoted home is the report of the command.
type promoted struct {
	Home       string          `json:"home"`
	Source     string          `json:"source"`
	Queues     []promotedQueue `json:"queues"`
	Jobs       int             `json:"jobs"`
	Octets     int64           `json:"octets"`
	Problems   problems        `json:"problems,omitempty"`
	Unfinished []string        `json:"unfinished,omitempty"`
	Bare       []string        `json:"bare,omitempty"`      // jobs whose job file the copy had not seen, on hold
	Former     []string        `json:"former,omitempty"`    // other jobs with a job file of before their last event
	NoPayload  []string        `json:"noPayload,omitempty"` // jobs whose payload the copy had not seen, pending ones on hold
	NoResult   []string        `json:"noResult,omitempty"`  // results that the copy had not seen
	Requeued   int             `json:"requeued,omitempty"`
}

type promotedQueue struct {
	Queue     string    `json:"queue"`
	LastEvent uint64    `json:"lastEvent"` // of the original; later ones are not known
	Until     time.Time `json:"until"`
	Synced    time.Time `json:"synced,omitzero"`
	First     uint64    `json:"firstChange,omitempty"` // published changes of the original begin with this event
	NoChanges string    `json:"noChanges,omitempty"`   // why none of them is published
	dir       string    // of the queue in the copy
	now       time.Time // of the promotion
	list      string    // Capability List of the original
	since     time.Time // the home publishes all changes after it
	changing  []destination.Changing
	held      []string // files whose deletion waits
	placed    []placed
	lacked    []lacked
	noPayload []job.ID
	Former    bool  `json:"formerSettings,omitempty"` // the original had later settings
	Transit   int   `json:"transit,omitempty"`        // resources without their file
	Later     int   `json:"later,omitempty"`          // job files of later events than LastEvent
	Unproved  int   `json:"unproved,omitempty"`       // job files from before the changes in the copy
	Others    bool  `json:"otherSettings,omitempty"`  // than those of the last change in the copy
	Pending   int64 `json:"pending"`
	Consumed  int64 `json:"consumed"`
}

func (o *promotion) run(ctx context.Context, c *call, dir string) error {
	if err := asOwner(dir); err != nil {
		return err
	}
	base, sets, err := destination.Standings(dir)
	if err != nil {
		return hinted(err)
	}
	for _, s := range sets {
		if !s.Baseline && !o.force {
			return withHint(fmt.Errorf("%s: the copy of queue %s was never whole", dir, strings.TrimSuffix(s.Name, wholeQueue)), "--force makes a home of what there is")
		}
	}
	if !o.force && mirror.Answers(ctx, strings.TrimSuffix(base, "/")) {
		return withHint(fmt.Errorf("%s still answers: with two homes each job would be handed out twice", base),
			"stop it first; --force promotes the copy all the same")
	}
	r, err := o.promote(ctx, dir)
	if err != nil {
		return err
	}
	if err := printPromoted(c, r); err != nil {
		return err
	}
	return r.verdict("cutie check --repair " + dir)
}

// verdict is the error of a home with problems.
func (r *promoted) verdict(hint string) error {
	if len(r.Problems) == 0 {
		return nil
	}
	return withHint(fmt.Errorf("%w: %d problems", errDiffers, len(r.Problems)), hint)
}

// wholeQueue ends the name of a set with all files of a queue.
const wholeQueue = "/replica"

// promote makes a home of the copy in dir. After a crash it goes on.
func (o *promotion) promote(ctx context.Context, dir string) (*promoted, error) {
	base, sets, err := destination.Standings(dir)
	if err != nil {
		return nil, hinted(err)
	}
	r := &promoted{Home: dir, Source: base}
	last := map[string]check.Last{}
	p := destination.Promotion{Source: base, Time: time.Now().UTC(), Events: map[string]uint64{}, Until: map[string]time.Time{}}
	for _, s := range sets {
		queue, ok := strings.CutSuffix(s.Name, wholeQueue)
		if !ok {
			return nil, withHint(fmt.Errorf("%s: the copy has the set %s, which is no whole queue", dir, s.Name), "cutie sync URL DIR into a directory of its own copies replica sets")
		}
		last[queue], p.Events[queue], p.Until[queue] = check.Last{Seq: job.Seq(s.Event), Time: s.Until}, s.Event, s.Until
		r.Queues = append(r.Queues, promotedQueue{Queue: queue, LastEvent: s.Event, Until: s.Until, Synced: s.Synced, Transit: s.Transit, list: s.URI, changing: s.Changing, held: s.Held})
	}
	if len(r.Queues) == 0 {
		return nil, withHint(fmt.Errorf("%s: the copy has no queues", dir), "cutie sync URL DIR copies the queues of a daemon")
	}
	if err := o.prove(ctx, dir, r); err != nil {
		return nil, err
	}
	if err := destination.Promote(dir, p); err != nil {
		return nil, err
	}
	if err := home.BeginMaking(dir); err != nil {
		return nil, err
	}
	if err := sweepQueues(dir, r.Queues); err != nil {
		return nil, err
	}
	if err := directories(dir, r.Queues); err != nil {
		return nil, err
	}
	for i := range r.Queues {
		if err := r.Queues[i].place(dir, p.Time); err != nil {
			return nil, err
		}
	}
	report, err := check.Home(dir, check.Options{Rebuild: true, Making: true, Last: last, Job: uws.Check})
	if err != nil {
		return nil, err
	}
	for i := range r.Queues {
		if err := r.Queues[i].inherit(dir); err != nil {
			return nil, err
		}
		if err := r.Queues[i].noteSettings(); err != nil {
			return nil, err
		}
	}
	r.Jobs, r.Octets = report.Jobs, report.Octets
	for _, p := range report.Problems {
		if !slices.ContainsFunc(r.Queues, func(q promotedQueue) bool { return q.lacksPayload(p.Path) }) {
			r.Problems = append(r.Problems, p)
		}
	}
	if err := o.finish(ctx, dir, p.Time, r); err != nil {
		return nil, err
	}
	if err := home.EndMaking(dir); err != nil {
		return nil, err
	}
	p.Done = true
	return r, destination.Promote(dir, p)
}

// sweepQueues removes directories of other queues, but no files: of a queue removed at the
// original the copy has empty ones, and the home would get the queue again.
func sweepQueues(dir string, queues []promotedQueue) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var empty []string // perhaps
	err = fs.WalkDir(root.FS(), home.QueuesDir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if path.Dir(name) == home.QueuesDir && slices.ContainsFunc(queues, func(q promotedQueue) bool { return q.Queue == path.Base(name) }) {
			return fs.SkipDir
		}
		if name != home.QueuesDir {
			empty = append(empty, name)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range slices.Backward(empty) {
		if e := root.Remove(name); e != nil && !errors.Is(e, unix.ENOTEMPTY) && err == nil {
			err = e
		}
	}
	return err
}

// directories makes directories of queues missing in a copy without files in them.
func directories(dir string, queues []promotedQueue) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, q := range queues {
		for _, sub := range []string{"payload", "pending", "consumed", "deleted"} {
			if err := root.MkdirAll(filepath.Join("queues", q.Queue, sub), 0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// inherit hands the changes in the copy to the publisher of the home. A copy without them
// has begun with a former version, or has lost them.
func (q *promotedQueue) inherit(dir string) error {
	h, err := destination.OpenHistory(dir, q.Queue+wholeQueue)
	if err == nil {
		defer h.Close()
		of := set.Inherited{Base: h.Base, From: h.From, First: job.Seq(h.First), Last: job.Seq(h.Last)}
		var disk error // ours, not the one of the copy
		err = set.Inherit(dir, q.Queue, &of, func(add func(*sitemap.Entry) error) error {
			return h.Read(func(e *sitemap.Entry) error {
				disk = add(e)
				return disk
			})
		})
		if disk != nil {
			return err
		}
	}
	if q.First, q.since = 0, q.Until; err != nil {
		q.NoChanges = err.Error()
		return nil
	}
	q.First, q.since = h.First, h.From
	return nil
}

// finish opens the home, counts its jobs, and sees to jobs without a report.
func (o *promotion) finish(ctx context.Context, dir string, now time.Time, r *promoted) (err error) {
	svc, err := queuefs.Open(dir, queuefs.Options{Making: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.Close()) }()
	for i := range r.Queues {
		q, err := svc.Ask(r.Queues[i].Queue)
		if err != nil {
			return err
		}
		st := q.State()
		r.Queues[i].Pending, r.Queues[i].Consumed = int64(st.Pending), int64(st.Consumed)
		of := &r.Queues[i]
		m := home.Mirror{Source: r.Source, List: of.list, Event: job.Seq(of.LastEvent), At: of.since,
			Ended: now, Last: job.Seq(of.LastEvent), Until: of.Synced}
		if err := q.Succeed(m); err != nil {
			return err
		}
		if err := of.report(ctx, q, r); err != nil {
			return err
		}
		if err := o.unfinished(ctx, q, r); err != nil {
			return err
		}
	}
	return nil
}

// report makes an event of each job that was placed, or lacks results. The lists of the
// original had other files, so that followers would wait for these in vain.
func (q *promotedQueue) report(ctx context.Context, of *queuefs.Queue, r *promoted) error {
	for _, p := range q.placed {
		_, err := of.Amend(ctx, p.id, q.drop)
		switch name := q.Queue + "/" + p.id.String(); {
		case errors.Is(err, ledger.ErrNoJob): // a problem, named by then
		case err != nil:
			return err
		case p.why == replay.NoPayload: // named below
		case p.st == job.Pending:
			r.Bare = append(r.Bare, name)
		default:
			r.Former = append(r.Former, name)
		}
	}
	for _, id := range q.noPayload {
		r.NoPayload = append(r.NoPayload, q.Queue+"/"+id.String())
	}
	for _, l := range q.lacked {
		r.NoResult = append(r.NoResult, q.Queue+"/"+l.id.String()+"/"+l.name)
		if slices.ContainsFunc(q.placed, func(p placed) bool { return p.id == l.id }) {
			continue
		}
		if _, err := of.Amend(ctx, l.id, q.drop); err != nil && !errors.Is(err, ledger.ErrNoJob) {
			return err
		}
	}
	return nil
}

// maxUnfinished is how many unfinished jobs a report names.
const maxUnfinished = 1000

// unfinished sees to jobs handed out and without outcome. Jobs under a lease come back by
// themselves.
func (o *promotion) unfinished(ctx context.Context, q *queuefs.Queue, r *promoted) error {
	for {
		some := q.Unfinished(maxUnfinished)
		for _, id := range some {
			if !o.requeue {
				r.Unfinished = append(r.Unfinished, q.ID()+"/"+id.String())
				continue
			}
			if _, err := q.Requeue(ctx, id); err != nil {
				return err
			}
			r.Requeued++
		}
		if !o.requeue || len(some) == 0 {
			return nil
		}
	}
}

func printPromoted(c *call, r *promoted) error {
	return c.report(r, r.write)
}

// problems are texts in JSON.
type problems []durable.Finding

func (p problems) MarshalJSON() ([]byte, error) {
	texts := make([]string, len(p))
	for i, f := range p {
		texts[i] = f.String()
	}
	return json.Marshal(texts)
}

func (r *promoted) write(w io.Writer) {
	for _, q := range r.Queues {
		fmt.Fprintf(w, "%s: %d pending, %d consumed; the last event seen is %d", q.Queue, q.Pending, q.Consumed, q.LastEvent)
		if !q.Until.IsZero() {
			fmt.Fprintf(w, " of %s", q.Until.Format(time.RFC3339Nano))
		}
		fmt.Fprintln(w, "; later ones are not known")
		if q.First > 0 {
			fmt.Fprintf(w, "%s: its changes from event %d on stay published\n", q.Queue, q.First)
		} else {
			fmt.Fprintf(w, "%s: changes up to then are not published, and followers behind begin anew: %s\n", q.Queue, q.NoChanges)
		}
		if q.Later > 0 {
			fmt.Fprintf(w, "%s: %d jobs are as they were after later events: the copy was cut off\n", q.Queue, q.Later)
		}
		if q.Unproved > 0 {
			fmt.Fprintf(w, "%s: %d job files are from before the changes in the copy, and no digest of theirs is known\n", q.Queue, q.Unproved)
		}
		if q.Others {
			fmt.Fprintf(w, "%s: queue-info.txt is not that of the last change in the copy: from a later one, or changed by other hands\n", q.Queue)
		}
		if q.Former {
			fmt.Fprintf(w, "%s: former settings: the original had later ones, which were not in the copy\n", q.Queue)
		}
	}
	for _, l := range []struct {
		line string
		of   []string
	}{
		{"unfinished: %s", r.Unfinished},
		{"on hold: %s: " + replay.NoJobFile + "; cutie release hands it out", r.Bare},
		{"former job file: %s: the one of its last event was not in the copy", r.Former},
		{"no payload: %s: it was not in the copy; a pending job is on hold", r.NoPayload},
		{"no result: %s: it was not in the copy", r.NoResult},
	} {
		for _, name := range l.of {
			fmt.Fprintf(w, l.line+"\n", name)
		}
	}
	if n := len(r.Bare) + len(r.Former) + len(r.NoPayload) + len(r.NoResult); n > 0 {
		fmt.Fprintf(w, "%d files were in transit when the copy ended, as listed\n", n)
	}
	writeFindings(w, r.Problems)
	fmt.Fprintf(w, "%s is a home: %d queues, %d jobs, %d octets, %d requeued, %d problems\n",
		r.Home, len(r.Queues), r.Jobs, r.Octets, r.Requeued, len(r.Problems))
}
