package queuefs

import (
	"context"
	"errors"
	"sync"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// The destructions say which jobs culling leaves alone for how long: a job until its
// Destruction, and as long as the job in its place is there, after a requeue at the end
// or a submission in its place. The job file says both. A mark in the index names these
// job files, so other jobs cost nothing. The index has the Destruction of each marked job
// in memory; after a start [Queue.Due] reads the job files, some at a call.
type destructions struct {
	mu    sync.Mutex // before the lock of the ledger
	read  job.ID     // jobs up to this one were looked at since the start
	known bool       // all of them were
}

// forgetDestructions forgets which job files were read: jobs have changed since, and their
// Destruction was not noted.
func (q *Queue) forgetDestructions() {
	q.destructions.mu.Lock()
	defer q.destructions.mu.Unlock()
	q.destructions.read, q.destructions.known = 0, false
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
func (q *Queue) Due(ctx context.Context, now time.Time, max int) (ids []job.ID, err error) {
	if err := q.loadDestructions(ctx); err != nil {
		return nil, err
	}
	q.ledger.Look(func(x *index.Index) {
		x.Destructions.Due(now.UnixMicro(), func(id job.ID) bool {
			ids = append(ids, id)
			return len(ids) < max
		})
	})
	return ids, nil
}

// loadDestructions reads the next job files, until all are known.
func (q *Queue) loadDestructions(ctx context.Context) error {
	q.destructions.mu.Lock()
	defer q.destructions.mu.Unlock()
	if q.destructions.known {
		return nil
	}
	ids, to, all := q.unreadDestructions(q.destructions.read)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		j, err := q.content.Job(id)
		if err != nil && !errors.Is(err, ledger.ErrNoJob) {
			return err
		}
		q.ledger.Note(func(x *index.Index) {
			if _, known := x.Destructions.At(id); !known && retains(x, id) && err == nil {
				x.Destructions.Set(id, micros(j.Destruction))
			}
		})
	}
	q.destructions.read, q.destructions.known = to, all
	return nil
}

// unreadDestructions returns the next jobs to read after one, the last job of the index looked
// at, and whether it was the last of all.
func (q *Queue) unreadDestructions(after job.ID) (ids []job.ID, to job.ID, all bool) {
	to, all = after, true
	q.ledger.Look(func(x *index.Index) {
		first := int((to + 1) / index.PageJobs)
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
			to = job.ID((n+1)*index.PageJobs - 1)
		}
	})
	return ids, to, all
}

// retains reports whether the job file says how long the job is retained.
func retains(x *index.Index, id job.ID) bool {
	j, _ := x.Job(id)
	return j.Retained
}

// retained reports whether culling leaves the job alone. An unreadable job is
// left alone.
func (q *Queue) retained(id job.ID) bool {
	now := q.svc.now()
	var may bool
	var ends int64
	q.ledger.Look(func(x *index.Index) {
		may = retains(x, id)
		ends, _ = x.Destructions.At(id)
	})
	if !may || ends > now {
		return may
	}
	j, err := q.content.Job(id)
	if err != nil {
		return !errors.Is(err, ledger.ErrNoJob)
	}
	if micros(j.Destruction) > now {
		return true
	}
	again, err := job.ParseID(j.Extra.Value(job.RequeuedAs))
	if err != nil {
		return false
	}
	st, _ := q.ledger.Status(again)
	return st != 0
}

// micros returns an instant in microseconds, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
