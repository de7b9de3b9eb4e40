// Package bulk changes many jobs of a queue by one call: a [Selection] says which
// jobs, an [Operation] says the change, and [Selection.Apply] does it and returns
// a list of the changes.
package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Max is how many jobs one call changes at most, and how many it may name.
const Max = 10_000

// A Filter selects jobs by their properties: those matching all fields set. It
// also selects the jobs in the state of a queue.
type Filter struct {
	Status  job.Status  // 0: all
	Outcome job.Outcome // 0: all
	Held    bool        // only jobs on hold
	Batch   string      // "": all
	// Submitter is the user agent of their submission; "": all. It is for the
	// states of jobs, not for references to them.
	Submitter string
	After     job.ID // 0: from the head
	Limit     int    // of a state, at most [state.MaxJobs]; 0: [state.DefaultJobs]; below 0: none
}

// A Selection selects jobs of a queue: those matching all fields set. At least
// one field besides After, Limit and Dry must be set.
type Selection struct {
	Filter               // Limit is the most jobs to change; 0: Max
	Jobs   []job.ID      // only these, at most Max
	Older  time.Duration // only jobs whose last event is older
	Dry    bool          // change nothing
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

// Do does the operation with one job. A requeued job in work needs Force.
func (o Operation) Do(ctx context.Context, q *queuefs.Queue, id job.ID) (job.Job, error) {
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
	return job.Job{}, fmt.Errorf("%w: operation %.40q is none of requeue, delete, hold, release", job.ErrBadName, o.Method)
}

// fits reports whether the operation would change the job.
func (o Operation) fits(j *job.Job) bool {
	switch o.Method {
	case "requeue":
		return j.Status != job.Pending && (o.Force || j.Lease.Ends.IsZero()) && (!o.End || j.Extra.Value("requeuedAs") == "")
	case "hold":
		// Holds without an end stay as they are.
		return j.Status == job.Pending && (j.Held.IsZero() || !j.HeldUntil.IsZero() && !j.HeldUntil.Equal(o.Until))
	case "release":
		return j.Status == job.Pending && !j.Held.IsZero() && j.HeldFor != job.NotStarted
	}
	return j.Status == job.Pending
}

// Check refuses a selection of nothing, or of too much.
func (s *Selection) Check() error {
	switch {
	case len(s.Jobs) > Max:
		return web.Errorf(http.StatusRequestEntityTooLarge, "%d jobs are named, more than %d", len(s.Jobs), Max)
	case s.Limit < 0 || s.Limit > Max:
		return web.BadRequest("limit %d is not from 1 to %d", s.Limit, Max)
	case s.Older < 0:
		return web.BadRequest("older is negative")
	case len(s.Jobs) == 0 && s.Status == 0 && s.Outcome == 0 && !s.Held && s.Batch == "" && s.Submitter == "" && s.Older == 0:
		return web.BadRequest("no jobs are selected; say which by job, status, outcome, held, batch, submitter or older")
	}
	return nil
}

// Apply does o with the selected jobs, one after another and the oldest first;
// now is the present time. It stops at the limit, when ctx ends, when storage
// fails, or when over returns true, and returns the true list of changes and the
// job after which to go on. over is not asked before the first job, so repeated
// calls come to an end; it can be nil. An error is returned only if nothing was
// done. Named jobs that could not be changed are Refused.
func (s *Selection) Apply(ctx context.Context, q *queuefs.Queue, o Operation, now time.Time, over func() bool) (done state.Changes, err error) {
	if err := s.Check(); err != nil {
		return done, err
	}
	candidates, err := s.candidates(q)
	if err != nil {
		return done, err
	}
	var last job.ID // already done
	for id := range candidates {
		err := ctx.Err()
		ok := false
		if err == nil {
			ok, err = s.wants(q, o, now, id)
		}
		full := len(done.Changed)+len(done.Chosen) == cmp.Or(s.Limit, Max)
		if last != 0 && (over != nil && over() || ok && full) {
			done.More, done.After = true, last
			break
		}
		switch {
		case err != nil || !ok:
		case s.Dry:
			done.Chosen = append(done.Chosen, id)
		default:
			// A change once begun is finished, so that it is reported.
			var j job.Job
			if j, err = o.Do(context.WithoutCancel(ctx), q, id); err == nil {
				done.Changed = append(done.Changed, j.ID)
			}
		}
		if err != nil && !refuses(err) {
			if last == 0 {
				return state.Changes{}, err
			}
			done.More, done.After = true, last
			break
		}
		if err != nil && len(s.Jobs) > 0 {
			done.Refused = append(done.Refused, id.String()+": "+strings.TrimPrefix(err.Error(), id.String()+": "))
		}
		last = id
	}
	if !s.Dry && len(done.Changed) == 0 { // nothing has proved yet that the jobs were in these states
		if err := q.Owns(ctx); err != nil {
			return state.Changes{}, err
		}
	}
	return done, nil
}

// refuses reports whether the error is about one job.
func refuses(err error) bool {
	for _, target := range []error{ledger.ErrNoJob, job.ErrNotPending, job.ErrConflict} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// candidates are the jobs that may be selected, in order.
func (s *Selection) candidates(q *queuefs.Queue) (iter.Seq[job.ID], error) {
	first, last := s.After+1, ^job.ID(0)
	if s.Batch != "" {
		begin, end, err := BatchRange(q, s.Batch)
		if none, ok := errors.AsType[*web.Error](err); ok && s.After != 0 && none.Status == http.StatusNotFound {
			begin, end, err = 1, 0, nil // the rest was culled
		}
		if err != nil {
			return nil, err
		}
		first, last = max(first, begin), end
	}
	return func(yield func(job.ID) bool) {
		ids := slices.Compact(slices.Sorted(slices.Values(s.Jobs)))
		o := index.Filter{Status: s.Status, Outcome: s.Outcome, Held: s.Held, After: first - 1, Limit: 1000}
		for more := len(ids) == 0; ; o.After = ids[len(ids)-1] {
			if more {
				ids = q.IDs(o)
			}
			for _, id := range ids {
				if id > last || id >= first && !yield(id) {
					return
				}
			}
			if !more || len(ids) < o.Limit {
				return
			}
		}
	}, nil
}

// wants reports whether the job is selected. A named job need not fit the
// operation: the attempt will tell.
func (s *Selection) wants(q *queuefs.Queue, o Operation, now time.Time, id job.ID) (bool, error) {
	named := len(s.Jobs) > 0
	status, changed := q.Status(id)
	switch {
	case status == 0:
		return false, ledger.ErrNoJob
	case s.Status != 0 && status != s.Status, s.Older > 0 && now.Sub(changed) < s.Older:
		return false, nil
	case !named && (status == job.Pending) == (o.Method == "requeue"):
		return false, nil
	}
	// The rest is in the job file.
	j, err := q.Job(id)
	if err != nil {
		return false, err
	}
	return (s.Outcome == 0 || j.Outcome == s.Outcome) && (!s.Held || !j.Held.IsZero()) &&
		(s.Submitter == "" || j.Submitter == s.Submitter) && (named && !s.Dry || o.fits(&j)), nil
}

// BatchRange returns the first and the last possible number of the jobs of a
// batch: they were submitted together.
func BatchRange(q *queuefs.Queue, name string) (first, last job.ID, err error) {
	first, n, err := job.ParseBatch(name)
	if err != nil {
		return 0, 0, err
	}
	last = first + job.ID(n) - 1
	for _, id := range q.IDs(index.Filter{After: first - 1, Limit: 10}) {
		if id > last {
			break
		}
		j, err := q.Job(id)
		switch {
		case errors.Is(err, ledger.ErrNoJob):
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
