package queuefs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// Culling leaves a job alone until its Destruction, and as long as the job in its
// place is there, after [Queue.RequeueEnd] or [Submission.Replace]. The job file
// says both. A mark in the index names these job files, so other jobs cost
// nothing.

// retention has the Destruction of jobs in memory. After a start [Queue.Due] reads
// the job files, some at a call.
type retention struct {
	mu    sync.Mutex // before the lock of the ledger
	read  JobID      // jobs up to this one were looked at since the start
	known bool       // all of them were
}

// dueReads is how many job files one call of Due reads after a start: a few tens
// of milliseconds. duePages is how many pages of the index it scans for them.
const (
	dueReads = 1000
	duePages = 64
)

// Due returns up to max jobs whose Destruction has come by now, in no order. It
// costs what is due. After a start the first calls also read job files, one or two
// thousand each, and name no job before.
func (q *Queue) Due(ctx context.Context, now time.Time, max int) (ids []JobID, err error) {
	if err := q.readRetention(ctx); err != nil {
		return nil, err
	}
	q.look(func(x *index.Index) {
		x.Destructions.Due(now.UnixMicro(), func(id JobID) bool {
			ids = append(ids, id)
			return len(ids) < max
		})
	})
	return ids, nil
}

// readRetention reads the next job files, until all are known.
func (q *Queue) readRetention(ctx context.Context) error {
	r := &q.retention
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return nil
	}
	ids, to, all := q.unread(r.read)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		j, err := q.Job(id)
		if err != nil && !errors.Is(err, ErrNoJob) {
			return err
		}
		q.ledger.Note(func(x *index.Index) {
			if _, known := x.Destructions.At(id); !known && retains(x, id) && err == nil {
				x.Destructions.Set(id, microOf(j.Destruction))
			}
		})
	}
	r.read, r.known = to, all
	return nil
}

// unread returns the next jobs to read after one, the last job of the index looked
// at, and whether it was the last of all.
func (q *Queue) unread(after JobID) (ids []JobID, to JobID, all bool) {
	to, all = after, true
	q.look(func(x *index.Index) {
		first := int((to + 1) / PageJobs)
		for n := first; n < x.Pages(); n++ {
			if n == first+duePages || len(ids) >= dueReads {
				all = false
				return
			}
			for _, id := range x.Retained(n) {
				if _, known := x.Destructions.At(id); !known {
					ids = append(ids, id)
				}
			}
			to = JobID((n+1)*PageJobs - 1)
		}
	})
	return ids, to, all
}

// retains reports whether the job file says how long the job is retained.
func retains(x *index.Index, id JobID) bool {
	j, _ := x.Job(id)
	return j.Retained
}

// retained reports whether culling leaves the job alone. An unreadable job is
// left alone.
func (q *Queue) retained(id JobID) bool {
	now := q.svc.now()
	var may bool
	var ends int64
	q.look(func(x *index.Index) {
		may = retains(x, id)
		ends, _ = x.Destructions.At(id)
	})
	if !may || ends > now {
		return may
	}
	j, err := q.Job(id)
	if err != nil {
		return !errors.Is(err, ErrNoJob)
	}
	if microOf(j.Destruction) > now {
		return true
	}
	again, err := ParseJobID(j.Extra.Value(job.RequeuedAs))
	if err != nil {
		return false
	}
	st, _ := q.Status(again)
	return st != 0
}

// unretained returns the jobs that may be culled.
func (q *Queue) unretained(ctx context.Context, some []index.Candidate) []index.Candidate {
	may, stays := some[:0], int64(math.MaxInt64)
	for _, c := range some {
		if ctx.Err() != nil {
			return nil
		}
		if q.retained(c.Job) {
			stays = min(stays, c.Changed)
		} else {
			may = append(may, c)
		}
	}
	q.stays(stays)
	return may
}

// microOf returns an instant in microseconds, 0 for the zero time.
func microOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// A Kept is how many jobs of a queue are due for culling and stay all the same.
type Kept struct {
	Queue  string // cleaned identifier
	Needed int    // needed by a follower, see [Keeper]
	Spared int    // retained, see Destruction of [Job]
}

// Kept returns, for each queue, the number of due jobs left by [Service.Cull] with
// the same options. Call it after Cull has ended. It looks at all due jobs, and
// reads the files of jobs with a retention.
func (s *Service) Kept(ctx context.Context, o CullOptions) (all []Kept, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	queues := s.Queues()
	if o.Queue != "" {
		q, err := s.Queue(o.Queue)
		if err != nil {
			return nil, err
		}
		queues = []*Queue{q}
	}
	for _, q := range queues {
		k, err := q.kept(ctx, o.Keep)
		if err != nil {
			return all, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		if k.Needed > 0 || k.Spared > 0 {
			all = append(all, k)
		}
	}
	return all, nil
}

func (q *Queue) kept(ctx context.Context, keep *Thresholds) (k Kept, err error) {
	k.Queue = q.ID()
	before, most := q.due(keep)
	if most == 0 {
		return k, nil
	}
	needed, goes := q.needed(), 0
	for n := range q.Pages() {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		late, old := q.duePage(n, before, needed)
		k.Needed += late
		for _, id := range old {
			if err := ctx.Err(); err != nil {
				return k, err
			}
			if q.retained(id) {
				k.Spared++
			} else {
				goes++
			}
		}
	}
	// With a size alone, as many jobs are due as there are too many.
	left := max(q.extra(keep)-goes, 0)
	if left == 0 || most < math.MaxInt {
		k.Needed = min(k.Needed, left)
		k.Spared = min(k.Spared, left-k.Needed)
	}
	return k, nil
}

// extra returns how many processed jobs there are more than are to be kept.
func (q *Queue) extra(keep *Thresholds) int {
	size := q.info().CullingSize
	if keep != nil {
		size = keep.Size
	}
	var n int64
	q.look(func(x *index.Index) { n = x.Counts.Processed() })
	return int(n - size)
}

// duePage looks at the jobs of a page without a change after before: it counts
// those changed after needed, and returns the others.
func (q *Queue) duePage(n int, before, needed int64) (late int, old []JobID) {
	q.look(func(x *index.Index) { late, old = x.Due(n, before, needed, q.ledger.Giving) })
	return late, old
}
