package queuefs

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/snapshot"
)

// Tombstones are the notes of culled jobs of a queue: the newest in the index, the
// others in a file. Its methods are safe for concurrent use.
type tombstones struct {
	ledger *ledger.Ledger
	index  *snapshot.Store

	mu   sync.Mutex // before the lock of the ledger
	file indexfile.Tombstones
}

// newTombstones returns the tombstones of a queue; call Load first.
func newTombstones(l *ledger.Ledger, x *snapshot.Store) *tombstones {
	return &tombstones{ledger: l, index: x, file: indexfile.Tombstones{Queue: l.ID()}}
}

func (t *tombstones) there() bool { return t.index.HasDir(t.ledger.ID()) }

func (t *tombstones) open() (*durable.Dir, error) { return t.index.Queue(t.ledger.ID()) }

// Load finds the end of the file in dir. The error is [indexfile.ErrTombstones] for a
// damaged file; then nothing is known of jobs culled before.
func (t *tombstones) Load(dir *durable.Dir) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, err := t.file.Load(dir)
	if err == nil || errors.Is(err, indexfile.ErrTombstones) {
		t.ledger.Note(func(x *index.Index) { x.Tombstones.SetLast(last) })
	}
	return err
}

// Verify reads the whole file, and reports whether it is damaged. To repair it keeps
// the tombstones that make sense.
func (t *tombstones) Verify(repair bool) (damaged bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.there() {
		return false, nil
	}
	dir, err := t.open()
	if err != nil {
		return false, err
	}
	defer dir.Close()
	good, damaged, err := t.file.Verify(dir)
	if err == nil && damaged && repair {
		err = t.file.Mend(dir, good)
	}
	return damaged, err
}

// Since returns up to limit tombstones after an instant, in the order of their events.
func (t *tombstones) Since(since time.Time, limit int) ([]index.Tombstone, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	filed, err := t.filed(since, limit)
	if err != nil {
		return nil, err
	}
	var fresh []index.Tombstone
	t.ledger.Look(func(x *index.Index) { fresh = slices.Clone(x.Tombstones.Fresh()) })
	var stones []index.Tombstone
	for _, s := range slices.Concat(filed, fresh) {
		if len(stones) < limit && s.Culled > since.UnixMicro() {
			stones = append(stones, s)
		}
	}
	return stones, nil
}

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    job.ID
	Culled time.Time
	Seq    job.Seq // of the event
}

// maxDated is how many one call returns.
const maxDated = 10_000

// Dated is Since, for at most 10,000 tombstones; a limit of 0 means 1000.
func (t *tombstones) Dated(since time.Time, limit int) (stones []Tombstone, err error) {
	if limit <= 0 {
		limit = 1000
	}
	found, err := t.Since(since, min(limit, maxDated))
	for _, x := range found {
		stones = append(stones, Tombstone{Job: x.Job, Culled: time.UnixMicro(x.Culled).UTC(), Seq: x.Seq})
	}
	return stones, err
}

// filed is Since for those in the file.
func (t *tombstones) filed(since time.Time, limit int) ([]index.Tombstone, error) {
	if !t.there() {
		return nil, nil
	}
	dir, err := t.open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return t.file.Read(dir, since, limit)
}

// Write moves the tombstones in the index to the file, without those from before an
// instant. It is called at checkpoints, before the journal is released. An
// [*indexfile.SyncError] is final.
func (t *tombstones) Write(before time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var fresh []index.Tombstone
	t.ledger.Look(func(x *index.Index) { fresh = x.Tombstones.Fresh() })
	if len(fresh) == 0 {
		return nil
	}
	dir, err := t.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := t.file.Prune(dir, before); err != nil {
		return err
	}
	for len(fresh) > 0 {
		n := min(len(fresh), indexfile.TombstoneBatch)
		if err := t.file.Append(dir, fresh[:n]); err != nil {
			return err
		}
		fresh = fresh[n:]
		t.ledger.Note(func(x *index.Index) { x.Tombstones.Filed(n) })
	}
	return nil
}
