// Package retention says how long culling leaves a job alone.
//
// Culling leaves a job alone until its Destruction, and as long as the job in its
// place is there, after a requeue at the end or a submission in its place. The job file
// says both. A mark in the index names these job files, so other jobs cost
// nothing.
package retention

import (
	"context"
	"errors"
	"sync"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A Retention has the Destruction of the jobs of a queue in memory. After a start Due
// reads the job files, some at a call. Its methods are safe for concurrent use.
type Retention struct {
	Reader *content.Reader

	mu    sync.Mutex // before the lock of the ledger
	read  job.ID     // jobs up to this one were looked at since the start
	known bool       // all of them were
}

// Restart forgets the job files that were read: jobs have changed since without a word of
// their Destruction.
func (r *Retention) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.known = 0, false
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
func (r *Retention) Due(ctx context.Context, now time.Time, max int) (ids []job.ID, err error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	r.Reader.Ledger.Look(func(x *index.Index) {
		x.Destructions.Due(now.UnixMicro(), func(id job.ID) bool {
			ids = append(ids, id)
			return len(ids) < max
		})
	})
	return ids, nil
}

// load reads the next job files, until all are known.
func (r *Retention) load(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		return nil
	}
	ids, to, all := r.unread(r.read)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		j, err := r.Reader.Job(id)
		if err != nil && !errors.Is(err, ledger.ErrNoJob) {
			return err
		}
		r.Reader.Ledger.Note(func(x *index.Index) {
			if _, known := x.Destructions.At(id); !known && retains(x, id) && err == nil {
				x.Destructions.Set(id, Micros(j.Destruction))
			}
		})
	}
	r.read, r.known = to, all
	return nil
}

// unread returns the next jobs to read after one, the last job of the index looked
// at, and whether it was the last of all.
func (r *Retention) unread(after job.ID) (ids []job.ID, to job.ID, all bool) {
	to, all = after, true
	r.Reader.Ledger.Look(func(x *index.Index) {
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

// Retained reports whether culling leaves the job alone. An unreadable job is
// left alone.
func (r *Retention) Retained(id job.ID) bool {
	now := r.Reader.Ledger.Now()
	var may bool
	var ends int64
	r.Reader.Ledger.Look(func(x *index.Index) {
		may = retains(x, id)
		ends, _ = x.Destructions.At(id)
	})
	if !may || ends > now {
		return may
	}
	j, err := r.Reader.Job(id)
	if err != nil {
		return !errors.Is(err, ledger.ErrNoJob)
	}
	if Micros(j.Destruction) > now {
		return true
	}
	again, err := job.ParseID(j.Extra.Value(job.RequeuedAs))
	if err != nil {
		return false
	}
	st, _ := r.Reader.Ledger.Status(again)
	return st != 0
}

// Micros returns an instant in microseconds, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
