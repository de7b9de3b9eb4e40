package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"cutie/queuefs/durable"
)

// Files follow the journal. Nobody waits for them: a call is answered when its
// record is on stable storage. They are written within a second when the
// machine has time for it; while a burst of changes lasts they may stay behind
// by Options.Behind octets of journal, 200,000 jobs or 30 seconds, so that jobs which pass
// through meanwhile cost no files for the states they have left. From that
// limit on every change writes as many files as it causes.

// pace tells a burst from calm.
type pace struct {
	at      time.Time
	written int64
}

// calmRate is the journal octets a second below which files are written at
// once.
const calmRate = 1 << 20

// maxAge is how long files stay behind in a burst, and the time between
// checkpoints.
const maxAge = 30 * time.Second

// Maintain does the upkeep that is due: it brings files up to the journal and
// checkpoints. Call it a few times a second. Errors mean that something could
// not be written; it is tried again at the next call. As long as there is no
// room the error is [ErrNoSpace] in the same words, whichever file it was.
func (s *Service) Maintain(ctx context.Context) error {
	err := s.maintain(ctx)
	var why syscall.Errno
	if errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrFailed) && errors.As(err, &why) {
		return fmt.Errorf("%w: files and index are behind the journal: %w", ErrNoSpace, why)
	}
	return err
}

func (s *Service) maintain(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	now := s.opts.Now()
	s.upkeep.Lock()
	written := s.log.Written()
	elapsed := now.Sub(s.pace.at).Seconds()
	calm := elapsed <= 0 || float64(written-s.pace.written)/elapsed < calmRate
	s.pace = pace{at: now, written: written}
	behind := s.behind()
	due := s.lagging(1) || behind > 0 && (now.Sub(s.lastTime) >= maxAge || now.Before(s.lastTime))
	s.upkeep.Unlock()
	if due {
		return s.checkpoint(false)
	}
	if calm || s.full.Load() {
		return s.fileAll(ctx, written+calmRate/4)
	}
	return nil
}

// fileAll brings the files of all jobs that are behind now up to the journal,
// unless a burst begins: when the journal has grown to most octets.
func (s *Service) fileAll(ctx context.Context, most int64) error {
	if s.full.Load() {
		if err := s.makeRoom(); err != nil {
			return storageError(err)
		}
	}
	for _, q := range s.Queues() {
		q.mu.RLock()
		n := len(q.dirty)
		q.mu.RUnlock()
		for ; n > 0; n-- {
			if err := ctx.Err(); err != nil || s.log.Written() > most {
				return err
			}
			if _, err := q.fileOne(); err != nil {
				s.full.Store(errors.Is(storageError(err), ErrNoSpace))
				return storageError(err)
			}
		}
	}
	s.full.Store(false)
	return nil
}

// makeRoom removes the files of all culled jobs that have some: on a full disk
// those of other jobs can be written when they are gone.
func (s *Service) makeRoom() error {
	for _, q := range s.Queues() {
		for n := q.culledFirst(); n > 0; n-- {
			if _, err := q.fileOne(); err != nil {
				return fmt.Errorf("queue %s: files: %w", q.id, err)
			}
		}
	}
	return nil
}

// culledFirst puts those jobs first whose files are only to be removed, and
// returns how many they are.
func (q *Queue) culledFirst() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	culled := func(id JobID) bool {
		s := q.idx.slot(id)
		return s != nil && s.status() == 0
	}
	if !slices.ContainsFunc(q.dirty, culled) {
		return 0
	}
	var first, rest []JobID
	for _, id := range q.dirty {
		if culled(id) {
			first = append(first, id)
		} else {
			rest = append(rest, id)
		}
	}
	q.dirty = append(first, rest...)
	return len(first)
}

// behind returns the octets of journal since the last checkpoint.
func (s *Service) behind() int64 { return s.log.Written() - s.lastMark.Load() }

// maxDirty is how many jobs may have files behind the journal.
const maxDirty = 200_000

// lagging tells whether the files are behind by n times what they may be.
func (s *Service) lagging(n int64) bool {
	return s.behind() >= n*s.opts.Behind || s.dirty.Load() >= n*maxDirty
}

// admit holds a submission back while the files are too far behind. When
// they cannot be written for lack of room, or the queue is closed, it is
// refused.
func (s *Service) admit(ctx context.Context, q *Queue, n int) error {
	if q.Info().Closed {
		return fmt.Errorf("%s: %w", q.id, ErrRefusing)
	}
	return s.catchUpFiles(ctx, q, n)
}

// catchUpFiles writes as many files as n jobs cause if the files are behind,
// and waits while they are too far behind.
func (s *Service) catchUpFiles(ctx context.Context, q *Queue, n int) error {
	if s.full.Load() {
		return ErrNoSpace
	}
	s.assist(q, n)
	for s.lagging(2) {
		if s.full.Load() {
			return ErrNoSpace
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := s.catchUp(); err != nil {
			return err
		}
	}
	return nil
}

// assist writes the files of n jobs if the files are behind, so that a
// sustained load settles at what the file system carries.
func (s *Service) assist(q *Queue, n int) {
	if !s.lagging(1) || s.begin() != nil {
		return
	}
	defer s.end()
	for ; n > 0; n-- {
		more, err := q.fileOne()
		if err != nil {
			s.full.Store(errors.Is(storageError(err), ErrNoSpace))
			return
		}
		if !more {
			return
		}
	}
}

// fileOne brings the files of the job that is behind longest up to the
// journal. It returns false if there is none. Only one caller at a time works
// on a job: it stays marked dirty, and is not in the list, until it is done.
func (q *Queue) fileOne() (bool, error) {
	q.filing.RLock()
	defer q.filing.RUnlock()
	q.mu.Lock()
	if len(q.dirty) == 0 {
		q.dirty = nil
		q.mu.Unlock()
		return false, nil
	}
	id := q.dirty[0]
	s := q.idx.slot(id)
	if s == nil { // closed
		q.mu.Unlock()
		return false, ErrClosed
	}
	q.dirty = q.dirty[1:]
	var v view
	copy(v.slot[:], s)
	v.u, v.temp = q.unfiled[id], q.temps[id]
	q.mu.Unlock()

	err := q.file(id, &v)

	q.mu.Lock()
	defer q.mu.Unlock()
	s = q.idx.slot(id)
	if s == nil { // closed
		return false, ErrClosed
	}
	if err != nil {
		s.setFiled(filedUnknown)
		q.dirty = append(q.dirty, id)
		return true, err
	}
	s.setFiled(v.s().status())
	if v.s().status() != 0 {
		s.set(flagPayload)
	}
	delete(q.temps, id)
	if u := q.unfiled[id]; u != v.u {
		u.payload = 0
		q.unfiled[id] = u
		q.dirty = append(q.dirty, id)
		return true, nil
	}
	delete(q.unfiled, id)
	s.clear(flagDirty)
	q.svc.dirty.Add(-1)
	return true, nil
}

// file writes the files of a job as v has it. It may be called again after
// any of its steps: a file that could not be trusted is written anew.
func (q *Queue) file(id JobID, v *view) error {
	s := v.s()
	var b [13]byte
	name := string(id.Append(b[:0]))
	if err := q.fileResults(id); err != nil {
		return err
	}
	if s.status() == 0 {
		return q.unfile(name, v.temp)
	}
	if !s.payloadDone() {
		if err := q.filePayload(name, v); err != nil {
			return err
		}
	}
	text := make([]byte, s.textLen())
	if err := q.svc.log.ReadAt(text, v.u.text); err != nil {
		return err
	}
	to := q.dirs.status[s.status()]
	from := s.filed()
	if from == filedUnknown {
		for st := Pending; st <= Deleted; st++ {
			if err := q.dirs.status[st].Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		from = 0
	}
	if from == 0 {
		return replaceOld(to, name, text)
	}
	// The new lines first, then the move. A crash between the two leaves
	// pending/ID that says consumed; the journal still has the event.
	old := q.dirs.status[from]
	err := old.Rewrite(name, text)
	if err == nil && from != s.status() {
		err = old.Rename(name, to, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return replaceOld(to, name, text) // other hands took it away
	}
	return err
}

func (q *Queue) filePayload(name string, v *view) error {
	if v.temp != "" {
		err := q.svc.temp.Rename(v.temp, q.dirs.payload, name)
		if errors.Is(err, fs.ErrNotExist) {
			if st, e := q.dirs.payload.Stat(name); e == nil && st.Size == v.s().size() {
				return nil // renamed before a crash
			}
		}
		return err
	}
	if v.u.payload == 0 {
		return nil
	}
	data := make([]byte, v.s().size())
	if err := q.svc.log.ReadAt(data, v.u.payload); err != nil {
		return err
	}
	return replaceOld(q.dirs.payload, name, data)
}

// replaceOld is Put over what a former life may have left.
func replaceOld(d *durable.Dir, name string, data []byte) error {
	err := d.Put(name, data)
	if errors.Is(err, fs.ErrExist) {
		if err := d.Remove(name); err != nil {
			return err
		}
		err = d.Put(name, data)
	}
	return err
}

// unfile removes the files of a culled job, also one that never got its name.
func (q *Queue) unfile(name, temp string) error {
	if temp != "" {
		if err := q.svc.temp.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, d := range []*durable.Dir{q.dirs.status[Pending], q.dirs.status[Consumed], q.dirs.status[Deleted], q.dirs.payload} {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
