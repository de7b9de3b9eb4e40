package queuefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Files follow the journal. Nobody waits for them: a call is answered when its
// record is on stable storage. They are written within a second when the
// machine has time for it. While a burst of changes wants all processors they
// may stay behind by Options.Behind octets of journal, 400,000 jobs or 90
// seconds, so that jobs which pass through meanwhile cost no files for the
// states they have left; from half of the jobs or octets or a third of the time
// on a burst that leaves some idle has files written with those. Not before:
// they would make bursts, which wait for the same disk, a third to a half slower,
// and longer ones no faster. From the limit on every change writes as many
// files as it causes.

// pace tells a burst from calm.
type pace struct {
	at      time.Time
	written int64
}

// calmRate is the journal octets a second below which files are written at
// once.
const calmRate = 1 << 20

// maxAge is the time between checkpoints. One that would have to write the
// files of more than some jobs waits, in a burst, until idle processors have
// written them, but not longer than overdue.
const (
	maxAge    = 30 * time.Second
	overdue   = 3 * maxAge
	someDirty = 5000
)

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
	age, dirty := now.Sub(s.lastTime), s.dirty.Load()
	old := behind > 0 && (age >= maxAge || age < 0)
	short := behind > 0 && s.log.Short() && age >= time.Second // old segments are the next ones
	due := s.lagging() || short || old && (dirty <= someDirty || calm || age >= overdue || age < 0)
	idle := s.opts.Idle()
	spare := s.leisure.next(idle)
	s.bursts.next(now, written, calm, idle)
	s.survey()
	s.upkeep.Unlock()
	switch {
	case due:
		return s.checkpoint(false)
	case calm || s.full.Load():
		return s.fileAll(ctx, func() bool { return s.log.Written() <= written+calmRate/4 })
	case spare > 0 && (old || 2*dirty >= maxDirty || 2*behind >= s.opts.Behind):
		end := time.Now().Add(spare)
		return s.fileAll(ctx, func() bool { return time.Now().Before(end) })
	}
	return nil
}

// Burst tells whether in the last second a call of Maintain found that the queues
// were busy and left less than one processor idle, or whether they have become busy
// since the last one, so that whatever can wait should.
func (s *Service) Burst() bool { return s.bursts.is(s.opts.Now(), s.log.Written()) }

// fileAll brings the files of all jobs that are behind now up to the journal,
// as long as there is time.
func (s *Service) fileAll(ctx context.Context, inTime func() bool) error {
	if s.full.Load() {
		if err := s.makeRoom(); err != nil {
			return storageError(err)
		}
	}
	for _, q := range s.Queues() {
		q.pack(inTime)
		if err := q.fileMany(func() bool { return ctx.Err() == nil && inTime() }); err != nil {
			s.full.Store(errors.Is(storageError(err), ErrNoSpace))
			return storageError(err)
		}
		if err := ctx.Err(); err != nil || !inTime() {
			return err
		}
	}
	s.full.Store(false)
	return nil
}

// filers is how many goroutines write the files of many jobs, which wait for
// the disk most of the time: for directories, and for what has left the cache.
const filers = 8

// fileMany brings the files of the jobs that are behind now up to the journal,
// as long as there is time. Others may write some of them meanwhile.
func (q *Queue) fileMany(inTime func() bool) error {
	q.mu.RLock()
	n := len(q.dirty)
	until := q.drafted + uint64(n)
	q.mu.RUnlock()
	var failed atomic.Bool
	some := func() error {
		for !failed.Load() && inTime() && q.draftedBelow(until) {
			n, err := q.fileSome(filedAtOnce)
			if err != nil || n == 0 {
				failed.Store(err != nil)
				return err
			}
		}
		return nil
	}
	errs := make([]error, 1+min(n/100, filers-1))
	var others sync.WaitGroup
	for i := range errs[1:] {
		others.Go(func() { errs[1+i] = some() })
	}
	errs[0] = some()
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return err // the others say the same
		}
	}
	return nil
}

// draftedBelow tells whether fewer than n jobs were ever taken from the list of
// those that are behind.
func (q *Queue) draftedBelow(n uint64) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.drafted < n
}

// makeRoom removes the files of all culled jobs that have some, and on a full
// disk what is there only to be quick: those of other jobs can be written when
// they are gone.
func (s *Service) makeRoom() error {
	if s.full.Load() {
		if err := s.shed(); err != nil {
			return err
		}
	}
	for _, q := range s.Queues() {
		for n := q.culledFirst(); n > 0; {
			done, err := q.fileSome(n)
			if err != nil {
				return fmt.Errorf("queue %s: files: %w", q.id, err)
			}
			if n -= done; done == 0 {
				break
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

// Unfiled returns how many jobs have files that are behind the journal.
func (s *Service) Unfiled() int { return int(s.dirty.Load()) }

// maxDirty is how many jobs may have files behind the journal.
const maxDirty = 400_000

// lagging tells whether the files are behind by what they may be: on a disk that
// is short of room by half of what it has, so that they need not all be written
// when it is full. What a crash left does not count for that.
func (s *Service) lagging() bool {
	return s.behind() >= s.opts.Behind || s.dirty.Load() >= maxDirty || s.crowded()
}

// tooFar tells whether the files are behind by twice of that, not counting what
// a crash left: nobody is to wait at the start until all files were looked at.
func (s *Service) tooFar() bool {
	return s.behind() >= 2*s.opts.Behind || s.dirty.Load()-s.found.Load() >= 2*maxDirty
}

// admit holds a submission back while the files are too far behind. When
// they cannot be written for lack of room, or the queue is closed, it is
// refused. What it reserves is given back as [Service.reserve] says.
func (s *Service) admit(ctx context.Context, q *Queue, n int, octets int64) (reserved space, err error) {
	if q.Info().Closed {
		return space{}, fmt.Errorf("%s: %w", q.id, ErrRefusing)
	}
	if err := s.catchUpFiles(ctx, q, n); err != nil {
		return space{}, err
	}
	s.relieve()
	return s.reserve(n, octets)
}

// catchUpFiles writes as many files as n jobs cause if the files are behind,
// and waits while they are too far behind.
func (s *Service) catchUpFiles(ctx context.Context, q *Queue, n int) error {
	if s.full.Load() {
		return ErrNoSpace
	}
	s.assist(q, n)
	for s.tooFar() {
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
	if !s.lagging() || s.begin() != nil {
		return
	}
	defer s.end()
	for n > 0 {
		done, err := q.fileSome(n)
		if err != nil {
			s.full.Store(errors.Is(storageError(err), ErrNoSpace))
			return
		}
		if n -= done; done == 0 {
			return
		}
	}
}
