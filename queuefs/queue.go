package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal/segment"
)

// A Queue is a first-in-first-out set of jobs (Cutie 0.3, 3.2). Its methods
// are safe for concurrent use. What a method reports as done is on stable
// storage; what a method shows was on stable storage before.
type Queue struct {
	svc  *Service
	id   string
	dirs queueDirs

	packs  packs
	filing sync.RWMutex                       // read-held while files of a job are written
	turns  struct{ payload, text sync.Mutex } // held while entries of the directories change

	mu       sync.RWMutex
	set      queueSettings
	since    segment.Position // what the journal has before is of a former queue of the name
	before   Seq              // last event of former queues of the name
	gone     bool             // removed
	graves   graves
	unculled int64 // no processed job changed before, µs; see due
	culled   bool  // jobs whose pages may be vacant by now
	idx      index
	types    []string // media types by number
	typeNums map[string]uint16
	mint     mint

	// What follows reflects committed events only.
	job       JobID // last number of a job
	seq       Seq
	seqTime   int64 // µs; of creation while seq is 0
	submitted int64 // µs of the last submission, 0 if none
	consumed  int64 // µs of the last consumption, 0 if none
	events    []segment.Position
	firstSeq  Seq // of events[0]
	unfiled   places
	temps     map[JobID]string     // large payloads not yet under their name
	results   map[JobID]resultWork // results not yet under their names, or not yet removed
	leases    deadlines
	retention retention
	giving    map[JobID]int // jobs on their way to consumers, by how many
	dirty     []JobID       // whose files are behind the journal, oldest first
	drafted   uint64        // jobs ever taken from dirty
	touched   bool          // since the last checkpoint

	watch   watch
	waiters []*waiter // consumers in the order they came
}

// queueDirs are the open directories of a queue; status is by [Status].
type queueDirs struct {
	root, payload *durable.Dir
	status        [Deleted + 1]*durable.Dir
}

// A mint holds the numbers that the next event takes. It runs ahead of what
// is committed.
type mint struct {
	job  JobID // last one given
	seq  Seq   // last one given
	time int64 // last one given, µs
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.id }

// Info returns the properties of the queue.
func (q *Queue) Info() QueueInfo {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.info
}

// next mints an event. The time grows even when the clock steps back.
func (q *Queue) next() (Seq, int64) {
	q.mint.seq++
	q.mint.time = max(q.svc.now(), q.mint.time+1)
	return q.mint.seq, q.mint.time
}

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
		saved := q.mint
		recs, err := build()
		var b *segment.Batch
		use, size := useOf(recs), 0
		if err == nil && len(recs) > 0 {
			b, size, err = q.append(recs, use)
		}
		if err != nil {
			q.mint = saved
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
		q.touched = true
		q.note(r, at)
		q.seqTime = max(q.seqTime, r.time)
		return
	case r.job == 0:
		q.applyInfo(r, at)
		return
	}
	p := q.idx.grow(r.job)
	s := p.slot(int(r.job % PageJobs))
	if r.kind == Submit && replayed {
		s.clear(flagPayload)
	}
	q.followResults(r, s.hasResults() || replayed && p.version >= r.seq && q.hasResultFiles(r.job))
	q.idx.stand(p, s, r.job, r.marks())
	q.leases.set(r.job, r.ends)
	q.retention.set(r.job, r.destroy)
	q.fill(p, s, r)
	p.version, p.at, p.changed = max(p.version, r.seq), max(p.at, r.time), true
	q.touched = true

	u := q.unfiled.of(r.job)
	u.text = at.Add(r.textAt())
	if r.flags&recInline != 0 {
		u.payload = at.Add(r.payloadAt())
	}
	if r.flags&recTemp != 0 {
		q.temps[r.job] = r.temp
	}
	q.unfiled.put(r.job, u)
	if !s.has(flagDirty) {
		s.set(flagDirty)
		q.dirty = append(q.dirty, r.job)
		q.svc.dirty.Add(1)
		if !replayed && s.filed() == 0 {
			q.svc.room.bare.Add(1)
		}
	}
	if replayed {
		s.setFiled(filedUnknown)
	}

	q.note(r, at)
	q.seqTime = max(q.seqTime, r.time)
	switch r.kind {
	case Submit:
		q.submitted = max(q.submitted, r.time)
	case Consume:
		q.consumed = max(q.consumed, r.time)
	case Cull:
		q.graves.add(r)
		q.culled = true
	}
}

// note keeps the place of the event in the journal.
func (q *Queue) note(r *record, at segment.Position) {
	if len(q.events) == 0 || r.seq != q.firstSeq+Seq(len(q.events)) {
		q.events, q.firstSeq = q.events[:0], r.seq
	}
	q.events = append(q.events, at)
	q.job, q.seq = max(q.job, r.job), max(q.seq, r.seq)
	q.mint.job = max(q.mint.job, r.job)
	q.mint.seq = max(q.mint.seq, r.seq)
	q.mint.time = max(q.mint.time, r.time)
}

// typeNumber numbers a media type. A queue tells about 65,000 kinds apart;
// what comes after is listed as octets of no particular type.
func (q *Queue) typeNumber(t string) uint16 {
	if t == "" {
		return 0
	}
	if n, ok := q.typeNums[t]; ok {
		return n
	}
	if len(q.types) > 65000 {
		return 0
	}
	t = strings.Clone(t) // as a rule it is a part of a job file
	n := uint16(len(q.types))
	q.types = append(q.types, t)
	q.typeNums[t] = n
	return n
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
		p := q.idx.page(id)
		var s slot
		if p != nil {
			s = p.slot(int(id % PageJobs))
		}
		if s == nil || s.status() == 0 {
			q.mu.Unlock()
			return 0, q.noJob()
		}
		if !s.has(flagBusy) {
			st := s.status()
			if st != unless {
				q.idx.setBusy(p, s)
			}
			q.mu.Unlock()
			return st, nil
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
		p := q.idx.page(id)
		if p == nil {
			continue
		}
		if s := p.slot(int(id % PageJobs)); s.has(flagBusy) {
			s.clear(flagBusy)
			q.idx.regain(p, s, id)
		}
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
