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

// Files follow the journal, and nobody waits for them: a call is answered when its
// record is on stable storage. In calm they are written within a second. In a burst
// they wait, because both want the same disk, and a job that passes through costs no
// files for the states it has left. The lag has one bound: Options.Behind bytes of
// journal, maxDirty jobs, or maxLag. From there on files are written in the background,
// oldest first, and every change writes as many as it causes; at twice the bound
// submissions wait.
const (
	calmRate  = 1 << 20 // bytes of journal a second, below which it is calm
	maxDirty  = 400_000
	maxLag    = 90 * time.Second
	someDirty = 5000             // jobs whose files a burst does not notice
	maxAge    = 30 * time.Second // between checkpoints in calm, or with few files to write
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
	log := s.log.Stats()
	written, behind := log.Written, s.behind()
	elapsed := now.Sub(s.seen.at).Seconds()
	calm := elapsed <= 0 || float64(written-s.seen.written)/elapsed < calmRate
	s.seen.at, s.seen.written = now, written
	age := now.Sub(s.lastTime)
	light := calm || s.dirty.Load() <= someDirty
	due := s.lagging()
	if behind > 0 {
		short := log.Short && age >= time.Second // released segments are the next ones
		due = due || short || age < 0 || age >= maxLag || light && age >= maxAge
	}
	s.keepReserve()
	s.upkeep.Unlock()
	switch {
	case due:
		return s.checkpoint(false)
	case calm || s.full.Load():
		return s.fileAll(ctx, func() bool { return s.log.Stats().Written <= written+calmRate/4 })
	}
	return nil
}

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
	n := len(q.backlog.dirty)
	until := q.backlog.drafted + uint64(n)
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
	return q.backlog.drafted < n
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
		j, ok := q.idx.Known(id)
		return ok && j.Status == 0
	}
	if !slices.ContainsFunc(q.backlog.dirty, culled) {
		return 0
	}
	var first, rest []JobID
	for _, id := range q.backlog.dirty {
		if culled(id) {
			first = append(first, id)
		} else {
			rest = append(rest, id)
		}
	}
	q.backlog.dirty = append(first, rest...)
	return len(first)
}

// behind returns the octets of journal since the last checkpoint.
func (s *Service) behind() int64 { return s.log.Stats().Written - s.lastMark.Load() }

// Unfiled returns how many jobs have files that are behind the journal.
func (s *Service) Unfiled() int { return int(s.dirty.Load()) }

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
// they cannot be written for lack of room it is refused.
func (s *Service) admit(ctx context.Context, q *Queue, n int, octets int64) error {
	if err := s.catchUpFiles(ctx, q, n); err != nil {
		return err
	}
	return s.makeFit(n, octets)
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
