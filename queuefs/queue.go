package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"cutie/queuefs/index"
	"cutie/queuefs/journal"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
	"cutie/queuefs/watch"
)

// A Queue is a first-in-first-out set of jobs (Cutie 0.3, 3.2). Its methods are
// safe for concurrent use. Changes are on stable storage when a method returns,
// and before any method shows them.
type Queue struct {
	svc  *Service
	id   string
	tree *tree.Tree // its files

	packs      packs
	tombstones tombstoneFile

	mu        sync.RWMutex // guards all below
	set       queueSettings
	life      life
	idx       *index.Index // of committed changes
	pending   []*change    // on their way to the journal, in order
	backlog   backlog
	retention retention
	watch     watch.Watch
	consumers consumers
}

// A life has the beginning of a queue, after former ones of its name, and its end.
type life struct {
	since  journal.LSN // records before are of a former queue
	before Seq         // last event of a former queue
	gone   bool        // removed
}

// A backlog is the work of the journal on the files of jobs.
type backlog struct {
	dirty   []JobID                      // jobs behind the journal, oldest first
	drafted uint64                       // jobs ever taken from dirty
	temps   map[JobID]string             // large payloads not yet under their names
	results map[JobID]tree.ResultBacklog // results not yet under their names, or not yet removed
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.id }

// Info returns the properties of the queue.
func (q *Queue) Info() QueueInfo {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.info
}

// next mints an event.
func (q *Queue) next() (Seq, int64) { return q.idx.Mint(q.svc.now()) }

// A change is the records of one call, journaled all or none.
type change struct {
	recs   []*record.Record
	ticket journal.Ticket
	shown  atomic.Bool
}

// commit mints and journals the records build returns, and waits until they are on
// stable storage and visible. build runs with q.mu held; it is called again if the
// journal was not ready for them. If commit fails nothing has happened, except that
// after ErrFailed the outcome is unknown until the home is opened again.
func (q *Queue) commit(build func() ([]*record.Record, error)) error {
	if err := q.svc.begin(); err != nil {
		return err
	}
	defer q.svc.end()
	for {
		c, use, size, err := q.append(build)
		switch {
		case err == journal.ErrUnready:
			err := storageError(q.svc.log.Reserve(use, size))
			if errors.Is(err, ErrNoSpace) && q.svc.relieve() {
				continue
			}
			if err != nil {
				q.svc.full.CompareAndSwap(false, errors.Is(err, ErrNoSpace)) // Maintain makes some
				return err
			}
			continue
		case err != nil:
			return storageError(err)
		case c == nil:
			return nil
		}
		durable, err := c.ticket.Wait()
		if err != nil {
			q.svc.fail(err)
			return storageError(err)
		}
		if !c.shown.Load() {
			q.show(durable)
		}
		return nil
	}
}

// append puts the records build returns into the journal. Without records the
// change is nil.
func (q *Queue) append(build func() ([]*record.Record, error)) (c *change, use journal.Use, size int, err error) {
	e := record.NewEncoder()
	defer e.Free()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life.gone {
		return nil, 0, 0, fmt.Errorf("%s: %w", q.id, ErrNoQueue)
	}
	saved := q.idx.Minted()
	recs, err := build()
	if err != nil || len(recs) == 0 {
		if err != nil {
			q.idx.Unmint(saved)
		}
		return nil, 0, 0, err
	}
	for _, r := range recs {
		r.Queue, r.File.Size = q.id, len(r.File.Text)
		size += e.Add(r)
	}
	use = useOf(recs)
	t, err := q.svc.log.Append(use, e.Records)
	if err != nil {
		q.idx.Unmint(saved)
		return nil, use, size, err
	}
	for _, r := range recs {
		r.Payload.Data = nil
	}
	c = &change{recs: recs, ticket: t}
	q.pending = append(q.pending, c)
	return c, use, size, nil
}

// show makes the changes before the record durable visible, in their order.
func (q *Queue) show(durable journal.LSN) {
	q.mu.Lock()
	n := 0
	for n < len(q.pending) && q.pending[n].ticket.First < durable {
		c := q.pending[n]
		for i, r := range c.recs {
			q.apply(r, c.ticket.First+journal.LSN(i), false)
			q.watch.Wake(r.Job)
		}
		c.shown.Store(true)
		n++
	}
	if n > 0 {
		q.pending = slices.Delete(q.pending, 0, n)
		q.serve()
	}
	q.mu.Unlock()
	if n > 0 {
		q.svc.happened.Raise()
	}
}

// apply brings the memory of the queue to the state after the record of
// number at: in normal running when it is committed, and again when the
// journal is replayed. q.mu is held.
func (q *Queue) apply(r *record.Record, at journal.LSN, replayed bool) {
	switch {
	case r.Kind == Phase:
		q.idx.Changed = true
		q.note(r, at)
		return
	case r.Job == 0:
		q.applyInfo(r, at)
		return
	}
	c := r.Change(at, replayed)
	later := replayed && q.idx.Version(r.Job) >= r.Seq && q.tree.HasResults(r.Job)
	before := q.idx.Apply(&c)
	q.followResults(r, before.Results || later)

	if r.Flags&record.InTemp != 0 {
		q.backlog.temps[r.Job] = r.Temp
	}
	if !before.Behind {
		q.backlog.dirty = append(q.backlog.dirty, r.Job)
		q.svc.dirty.Add(1)
	}
	q.note(r, at)
}

// note keeps the place of the event in the journal.
func (q *Queue) note(r *record.Record, at journal.LSN) {
	q.idx.History.Note(r.Seq, at)
	q.idx.Reach(index.Numbers{Job: r.Job, Seq: r.Seq, Time: r.Time})
}

// take claims a job for one operation and returns its status. It waits for
// another operation on its way to the journal. A job in the status unless is
// not claimed: claiming a pending one would let others pass meanwhile.
func (q *Queue) take(ctx context.Context, id JobID, unless Status) (Status, error) {
	for {
		if err := q.svc.usable(); err != nil {
			return 0, err
		}
		q.mu.Lock()
		j, ok := q.idx.Job(id)
		if !ok {
			q.mu.Unlock()
			return 0, q.noJob()
		}
		if !j.Claimed {
			if j.Status != unless {
				q.idx.Claim(id)
			}
			q.mu.Unlock()
			return j.Status, nil
		}
		if err := q.sleep(ctx, id); err != nil {
			return 0, err
		}
	}
}

// release ends claims without an operation.
func (q *Queue) release(ids ...JobID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.idx.Unclaim(id)
	}
	q.serve()
	q.watch.Wake(ids...)
}

// storageError returns the error of a failed step for callers.
func storageError(err error) error {
	switch {
	case errors.Is(err, journal.ErrFailed), errors.Is(err, journal.ErrFenced): // in any case the outcome is unknown
		return errors.Join(ErrFailed, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errors.Join(ErrNoSpace, err)
	case errors.Is(err, journal.ErrTooLarge):
		return errors.Join(ErrTooBig, err)
	case errors.Is(err, fs.ErrClosed), errors.Is(err, journal.ErrClosed):
		return errors.Join(ErrClosed, err)
	}
	return err
}
