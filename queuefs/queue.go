package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/journal/segment"
)

// A Queue is a first-in-first-out set of jobs (Cutie 0.3, 3.2). Its methods
// are safe for concurrent use. What a method reports as done is on stable
// storage; what a method shows was on stable storage before.
type Queue struct {
	svc  *Service
	id   string
	dirs queueDirs

	packs      packs
	tombstones tombstoneFile
	filing     sync.RWMutex                       // read-held while files of a job are written
	turns      struct{ payload, text sync.Mutex } // held while entries of the directories change

	mu     sync.RWMutex
	set    queueSettings
	since  segment.Position // what the journal has before is of a former queue of the name
	before Seq              // last event of former queues of the name
	gone   bool             // removed
	idx    *index.Index

	// What follows reflects committed events only.
	events    []segment.Position
	firstSeq  Seq // of events[0]
	unfiled   places
	temps     map[JobID]string     // large payloads not yet under their name
	results   map[JobID]resultWork // results not yet under their names, or not yet removed
	retention retention
	dirty     []JobID // whose files are behind the journal, oldest first
	drafted   uint64  // jobs ever taken from dirty

	watch     watch
	consumers consumers
}

// queueDirs are the open directories of a queue; status is by [Status].
type queueDirs struct {
	root, payload *durable.Dir
	status        [Deleted + 1]*durable.Dir
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

// A change is what one call adds to the journal, all of it or nothing.
type change struct {
	q    *Queue
	recs []*record
	at   segment.Position // of the first record
}

// commit mints and journals what build returns, and waits until it is on
// stable storage and visible. build runs with q.mu held; it is called again
// when the journal needed room first. If commit fails nothing has happened,
// except that after ErrFailed the outcome is unknown until the home is opened
// again.
func (q *Queue) commit(build func() ([]*record, error)) error {
	if err := q.svc.begin(); err != nil {
		return err
	}
	defer q.svc.end()
	log := q.svc.log
	for {
		q.mu.Lock()
		if q.gone {
			q.mu.Unlock()
			return fmt.Errorf("%s: %w", q.id, ErrNoQueue)
		}
		saved := q.idx.Minted()
		recs, err := build()
		var b *segment.Batch
		use, size := useOf(recs), 0
		if err == nil && len(recs) > 0 {
			b, size, err = q.append(recs, use)
		}
		if err != nil {
			q.idx.Unmint(saved)
		}
		q.mu.Unlock()
		switch {
		case segment.NeedsRoom(err):
			if err := storageError(log.Room(size, use)); err != nil {
				q.svc.full.CompareAndSwap(false, errors.Is(err, ErrNoSpace)) // Maintain makes some
				return err
			}
		case err != nil:
			return storageError(err)
		case b == nil:
			return nil
		default:
			if err := log.Commit(b); err != nil {
				return storageError(err)
			}
			return nil
		}
	}
}

// append puts the records into the batch that gathers, and returns how many octets
// they have; q.mu is held.
func (q *Queue) append(recs []*record, use segment.Use) (b *segment.Batch, size int, err error) {
	c := &change{q: q, recs: recs}
	for _, r := range recs {
		r.queue = q.id
		r.textSize = len(r.text)
		size += r.length()
	}
	b, err = q.svc.log.Append(size, use, c, func(dst []byte, at segment.Position) {
		c.at = at
		for _, r := range recs {
			k := r.length()
			r.put(dst[:k])
			dst = dst[k:]
			r.payload = nil
		}
	})
	return b, size, err
}

// Committed makes the change visible.
func (c *change) Committed() {
	q := c.q
	q.mu.Lock()
	at := c.at
	for _, r := range c.recs {
		n := r.length()
		if r.flags&recInline != 0 {
			n += int(r.size)
		}
		q.apply(r, at, false)
		at = at.Add(n)
	}
	q.serve()
	for _, r := range c.recs {
		q.watch.wake(r.job)
	}
	q.mu.Unlock()
	q.svc.happened.raise()
}

// Lost marks the service as failed; nothing is known of the outcome.
func (c *change) Lost(err error) { c.q.svc.fail(err) }

// apply brings the memory of the queue to the state after the record at
// position at: in normal running when it is committed, and again when the
// journal is replayed. q.mu is held.
func (q *Queue) apply(r *record, at segment.Position, replayed bool) {
	switch {
	case r.kind == Phase:
		q.idx.Changed = true
		q.note(r, at)
		return
	case r.job == 0:
		q.applyInfo(r, at)
		return
	}
	c := r.change(replayed)
	later := replayed && q.idx.Version(r.job) >= r.seq && q.hasResultFiles(r.job)
	before := q.idx.Apply(&c)
	q.followResults(r, before.Results || later)

	u := q.unfiled.of(r.job)
	u.text = at.Add(r.textAt())
	if r.flags&recInline != 0 {
		u.payload = at.Add(r.payloadAt())
	}
	if r.flags&recTemp != 0 {
		q.temps[r.job] = r.temp
	}
	q.unfiled.put(r.job, u)
	if !before.Behind {
		q.idx.SetBehind(r.job, true)
		q.dirty = append(q.dirty, r.job)
		q.svc.dirty.Add(1)
		if !replayed && before.Filed == 0 {
			q.svc.room.bare.Add(1)
		}
	}
	q.note(r, at)
}

// note keeps the place of the event in the journal.
func (q *Queue) note(r *record, at segment.Position) {
	if len(q.events) == 0 || r.seq != q.firstSeq+Seq(len(q.events)) {
		q.events, q.firstSeq = q.events[:0], r.seq
	}
	q.events = append(q.events, at)
	q.idx.Reach(index.Numbers{Job: r.job, Seq: r.seq, Time: r.time})
}

// take holds a job for one operation and returns its status. It waits while
// another operation on it is on its way to the journal. A job that stands in
// unless is not held: a pending one would let others pass meanwhile.
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

// release gives jobs back that no operation came of.
func (q *Queue) release(ids ...JobID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.idx.Unclaim(id)
	}
	q.serve()
	q.watch.wake(ids...)
}

// storageError says what a failed step means to the caller.
func storageError(err error) error {
	switch {
	case errors.Is(err, segment.ErrFailed): // whatever the reason: the outcome is unknown
		return errors.Join(ErrFailed, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errors.Join(ErrNoSpace, err)
	case errors.Is(err, segment.ErrTooLarge):
		return errors.Join(ErrTooBig, err)
	case errors.Is(err, fs.ErrClosed):
		return errors.Join(ErrClosed, err)
	}
	return err
}
