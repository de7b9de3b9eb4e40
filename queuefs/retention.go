package queuefs

import (
	"context"
	"errors"
	"math"
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
	read  JobID // jobs up to this one were looked at since the start
	known bool  // all of them were
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
	q.mu.RLock()
	known := q.retention.known
	q.mu.RUnlock()
	if !known {
		if err := q.readRetention(ctx); err != nil {
			return nil, err
		}
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.idx.Destructions.Due(now.UnixMicro(), func(id JobID) bool {
		ids = append(ids, id)
		return len(ids) < max
	})
	return ids, nil
}

// readRetention reads the next job files.
func (q *Queue) readRetention(ctx context.Context) error {
	q.mu.RLock()
	ids, to, all := q.unreadRetention()
	q.mu.RUnlock()
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		j, err := q.Job(id)
		if err != nil && !errors.Is(err, ErrNoJob) {
			return err
		}
		q.mu.Lock()
		if _, known := q.idx.Destructions.At(id); !known && q.retains(id) && err == nil {
			q.idx.Destructions.Set(id, microOf(j.Destruction))
		}
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retention.read, q.retention.known = to, all
	return nil
}

// unreadRetention returns the next jobs to read, the last job of the index looked
// at, and whether it was the last of all. q.mu is held.
func (q *Queue) unreadRetention() (ids []JobID, to JobID, all bool) {
	to = q.retention.read
	first := int((to + 1) / PageJobs)
	for n := first; n < q.idx.Pages(); n++ {
		if n == first+duePages || len(ids) >= dueReads {
			return ids, to, false
		}
		for _, id := range q.idx.Retained(n) {
			if _, known := q.idx.Destructions.At(id); !known {
				ids = append(ids, id)
			}
		}
		to = JobID((n+1)*PageJobs - 1)
	}
	return ids, to, true
}

// retains reports whether the job file says how long the job is retained; q.mu
// is held.
func (q *Queue) retains(id JobID) bool {
	j, _ := q.idx.Job(id)
	return j.Retained
}

// retained reports whether culling leaves the job alone. An unreadable job is
// left alone.
func (q *Queue) retained(id JobID) bool {
	now := q.svc.now()
	q.mu.RLock()
	retains := q.retains(id)
	ends, _ := q.idx.Destructions.At(id)
	q.mu.RUnlock()
	if !retains || ends > now {
		return retains
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
