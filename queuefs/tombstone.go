package queuefs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/indexfile"
)

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    JobID
	Culled time.Time
	Seq    Seq // of the event
}

// maxTombstones is how many one call returns.
const maxTombstones = 10_000

// Tombstones returns the jobs culled after since, in the order of their events, at
// most limit of them: 0 means 1000, and 10,000 is the most. They are kept for
// [ServiceInfo].TombstoneAge. The time of the last one is the since of the next
// call.
func (q *Queue) Tombstones(since time.Time, limit int) ([]Tombstone, error) {
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, maxTombstones)
	if kept := q.tombstonesSince(); since.Before(kept) {
		since = kept
	}
	q.tombstones.mu.Lock()
	defer q.tombstones.mu.Unlock()
	dir, err := q.indexDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	filed, err := q.tombstones.Read(dir, since, limit)
	if err != nil {
		return nil, fmt.Errorf("queue %s: tombstones: %w", q.id, err)
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	var stones []Tombstone
	for _, t := range slices.Concat(filed, q.idx.Tombstones.Fresh()) {
		if at := micro(t.Culled); len(stones) < limit && at.After(since) {
			stones = append(stones, Tombstone{Job: t.Job, Culled: at, Seq: t.Seq})
		}
	}
	return stones, nil
}

// tombstonesSince returns the time of the oldest tombstones to keep.
func (q *Queue) tombstonesSince() time.Time {
	hours := q.svc.Info().TombstoneAge
	if hours == 0 {
		hours = 90 * 24
	}
	return q.svc.opts.Now().Add(-time.Duration(hours) * time.Hour)
}

// loadTombstones reads the end of the file.
func (q *Queue) loadTombstones(dir *durable.Dir) error {
	last, err := q.tombstones.Load(dir)
	if errors.Is(err, indexfile.ErrTombstones) {
		q.svc.report(Problem{Path: q.indexPath(indexfile.TombstonesName), Text: err.Error() + "; which jobs were culled before is forgotten"})
		err = nil
	}
	q.idx.Tombstones.SetLast(last)
	return err
}

// fileTombstones moves the tombstones in memory to the file.
func (q *Queue) fileTombstones() error {
	q.tombstones.mu.Lock()
	defer q.tombstones.mu.Unlock()
	q.mu.RLock()
	fresh := q.idx.Tombstones.Fresh()
	q.mu.RUnlock()
	if len(fresh) == 0 {
		return nil
	}
	dir, err := q.indexDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := q.tombstones.Prune(dir, q.tombstonesSince()); err != nil {
		return err
	}
	for len(fresh) > 0 {
		n := min(len(fresh), indexfile.TombstoneBatch)
		if err := q.tombstones.Append(dir, fresh[:n]); err != nil {
			var unsynced *indexfile.SyncError
			if errors.As(err, &unsynced) {
				err = errors.Join(ErrFailed, err)
				q.svc.fail(err)
			}
			return err
		}
		fresh = fresh[n:]
		q.mu.Lock()
		q.idx.Tombstones.Filed(n)
		q.mu.Unlock()
	}
	return nil
}

// A tombstoneFile is the file of tombstones. It is written at checkpoints, before the
// journal is released.
type tombstoneFile struct {
	mu sync.Mutex // taken before mu of the queue
	indexfile.Tombstones
}
