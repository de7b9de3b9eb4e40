// Package bulk changes many jobs of a queue by one call: a [Selection] says which
// jobs, an [Operation] says the change, and [Selection.Apply] does it and returns
// a list of the changes.
package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Max is how many jobs one call changes at most, and how many it may name.
const Max = 10_000

// A Filter selects jobs by their properties: those matching all fields set. It
// also selects the jobs in the state of a queue.
type Filter struct {
	Status  queuefs.Status  // 0: all
	Outcome queuefs.Outcome // 0: all
	Held    bool            // only jobs on hold
	Batch   string          // "": all
	// Submitter is the user agent of their submission; "": all. It is for the
	// states of jobs, not for references to them.
	Submitter string
	After     queuefs.JobID // 0: from the head
	Limit     int           // of a state, at most [state.MaxJobs]; 0: [state.DefaultJobs]; below 0: none
}

// A Selection selects jobs of a queue: those matching all fields set. At least
// one field besides After, Limit and Dry must be set.
type Selection struct {
	Filter                 // Limit is the most jobs to change; 0: Max
	Jobs   []queuefs.JobID // only these, at most Max
	Older  time.Duration   // only jobs whose last event is older
	Dry    bool            // change nothing
}

// An Operation is a change for many jobs. Unfit jobs are skipped unless they
// are named: requeue is for consumed or deleted jobs, out of work unless
// forced, the others are for pending ones. Release leaves jobs on hold that wait for their
// submitter.
type Operation struct {
	Method string    // "requeue", "delete", "hold" or "release"
	Reason string    // of hold
	Until  time.Time // of hold; zero: until they are released
	End    bool      // requeue as a new job at the end
	Force  bool      // requeue jobs in work too, unless at the end
}

func (o Operation) do(ctx context.Context, q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
	switch o.Method {
	case "requeue":
		switch {
		case o.End:
			return q.RequeueEnd(ctx, id)
		case o.Force:
			return q.Requeue(ctx, id)
		}
		return q.RequeueIdle(ctx, id)
	case "delete":
		return q.Delete(ctx, id)
	case "hold":
		return q.HoldUntil(ctx, id, o.Reason, o.Until)
	case "release":
		return q.Release(ctx, id)
	}
	return queuefs.Job{}, fmt.Errorf("%w: operation %.40q is none of requeue, delete, hold, release", queuefs.ErrBadName, o.Method)
}

// fits reports whether the operation would change the job.
func (o Operation) fits(j *queuefs.Job) bool {
	switch o.Method {
	case "requeue":
		return j.Status != queuefs.Pending && (o.Force || j.Lease.Ends.IsZero()) && (!o.End || j.Extra.Value("requeuedAs") == "")
	case "hold":
		// Holds without an end stay as they are.
		return j.Status == queuefs.Pending && (j.Held.IsZero() || !j.HeldUntil.IsZero() && !j.HeldUntil.Equal(o.Until))
	case "release":
		return j.Status == queuefs.Pending && !j.Held.IsZero() && j.HeldFor != queuefs.NotStarted
	}
	return j.Status == queuefs.Pending
}

// Check refuses a selection of nothing, or of too much.
func (s *Selection) Check() error {
	switch {
	case len(s.Jobs) > Max:
		return web.Errorf(http.StatusRequestEntityTooLarge, "%d jobs are named, more than %d", len(s.Jobs), Max)
	case s.Limit < 0 || s.Limit > Max:
		return web.Errorf(http.StatusBadRequest, "limit %d is not from 1 to %d", s.Limit, Max)
	case s.Older < 0:
		return web.Errorf(http.StatusBadRequest, "older is negative")
	case len(s.Jobs) == 0 && s.Status == 0 && s.Outcome == 0 && !s.Held && s.Batch == "" && s.Submitter == "" && s.Older == 0:
		return web.Errorf(http.StatusBadRequest, "no jobs are selected; say which by job, status, outcome, held, batch, submitter or older")
	}
	return nil
}

// Apply does o with the selected jobs, one after another and the oldest first;
// now is the present time. It stops at the limit, when ctx ends, when storage
// fails, or when over returns true, and returns the true list of changes and the
// job after which to go on. over is not asked before the first job, so repeated
// calls come to an end; it can be nil. An error is returned only if nothing was
// done. Named jobs that could not be changed are Refused.
func (s *Selection) Apply(ctx context.Context, q *queuefs.Queue, o Operation, now time.Time, over func() bool) (state.Changes, error) {
	if err := s.Check(); err != nil {
		return state.Changes{}, err
	}
	w := work{Selection: s, q: q, o: o, now: now}
	var (
		stopped error
		last    queuefs.JobID // already done
	)
	err := s.each(q, func(id queuefs.JobID) bool {
		if stopped = ctx.Err(); stopped == nil && last != 0 && over != nil && over() {
			stopped = errTime
		}
		if stopped == nil {
			stopped = w.one(ctx, id)
		}
		if stopped != nil {
			return false
		}
		last = id
		return true
	})
	switch {
	case err != nil:
		return state.Changes{}, err
	case stopped != nil && last == 0:
		return state.Changes{}, stopped
	case stopped != nil:
		w.done.More, w.done.After = true, last
	}
	if !w.Dry && len(w.done.Changed) == 0 { // nothing has proved yet that the jobs were in these states
		if err := q.Owns(ctx); err != nil {
			return state.Changes{}, err
		}
	}
	return w.done, nil
}

// work is the work on a selection.
type work struct {
	*Selection
	q    *queuefs.Queue
	o    Operation
	now  time.Time
	done state.Changes
}

// errLimit stops the work when as much is done as was to be, errTime when it
// has lasted long enough.
var (
	errLimit = errors.New("limit of jobs")
	errTime  = errors.New("limit of time")
)

// one does the work with one job. An error stops all of it.
func (w *work) one(ctx context.Context, id queuefs.JobID) error {
	ok, err := w.wants(id)
	switch limit := cmp.Or(w.Limit, Max); {
	case err != nil || !ok:
	case len(w.done.Changed)+len(w.done.Chosen) == limit:
		return errLimit
	case w.Dry:
		w.done.Chosen = append(w.done.Chosen, id)
	default:
		// A change once begun is finished, so that it is reported.
		var j queuefs.Job
		if j, err = w.o.do(context.WithoutCancel(ctx), w.q, id); err == nil {
			w.done.Changed = append(w.done.Changed, j.ID)
		}
	}
	if !refuses(err) {
		return err
	}
	if len(w.Jobs) > 0 {
		w.done.Refused = append(w.done.Refused, id.String()+": "+strings.TrimPrefix(err.Error(), id.String()+": "))
	}
	return nil
}

// refuses reports whether the error is about one job.
func refuses(err error) bool {
	for _, target := range []error{queuefs.ErrNoJob, queuefs.ErrNotPending, queuefs.ErrConflict} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// each visits the candidates, in order, until visit returns false.
func (s *Selection) each(q *queuefs.Queue, visit func(queuefs.JobID) bool) error {
	first, last := s.After+1, ^queuefs.JobID(0)
	if s.Batch != "" {
		begin, end, err := BatchRange(q, s.Batch)
		var none *web.Error
		if s.After != 0 && errors.As(err, &none) && none.Status == http.StatusNotFound {
			return nil // the rest was culled
		}
		if err != nil {
			return err
		}
		first, last = max(first, begin), end
	}
	if len(s.Jobs) > 0 {
		ids := slices.Clone(s.Jobs)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			if first <= id && id <= last && !visit(id) {
				break
			}
		}
		return nil
	}
	o := queuefs.ListOptions{Status: s.Status, Outcome: s.Outcome, Held: s.Held, After: first - 1, Limit: 1000}
	for {
		ids := q.IDs(o)
		for _, id := range ids {
			if id > last || !visit(id) {
				return nil
			}
		}
		if len(ids) < o.Limit {
			return nil
		}
		o.After = ids[len(ids)-1]
	}
}

// wants reports whether the job is selected. A named job need not fit the
// operation: the attempt will tell.
func (w *work) wants(id queuefs.JobID) (bool, error) {
	named := len(w.Jobs) > 0
	status, changed := w.q.Status(id)
	switch {
	case status == 0:
		return false, queuefs.ErrNoJob
	case w.Status != 0 && status != w.Status, w.Older > 0 && w.now.Sub(changed) < w.Older:
		return false, nil
	case !named && (status == queuefs.Pending) == (w.o.Method == "requeue"):
		return false, nil
	}
	// The rest is in the job file.
	j, err := w.q.Job(id)
	if err != nil {
		return false, err
	}
	return (w.Outcome == 0 || j.Outcome == w.Outcome) && (!w.Held || !j.Held.IsZero()) &&
		(w.Submitter == "" || j.Submitter == w.Submitter) && (named && !w.Dry || w.o.fits(&j)), nil
}

// BatchRange returns the first and the last possible number of the jobs of a
// batch: they were submitted together.
func BatchRange(q *queuefs.Queue, name string) (first, last queuefs.JobID, err error) {
	first, n, err := job.ParseBatch(name)
	if err != nil {
		return 0, 0, err
	}
	last = first + queuefs.JobID(n) - 1
	for _, id := range q.IDs(queuefs.ListOptions{After: first - 1, Limit: 10}) {
		if id > last {
			break
		}
		j, err := q.Job(id)
		switch {
		case errors.Is(err, queuefs.ErrNoJob):
			continue // culled meanwhile
		case err != nil:
			return 0, 0, err
		case j.Batch == name:
			return first, last, nil
		}
		break
	}
	return 0, 0, web.Errorf(http.StatusNotFound, "batch %s has no jobs in queue %s", name, q.ID())
}
