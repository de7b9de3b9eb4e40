package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/snapshot"
)

// A queue is lost if queues.txt lists it, the index or published documents know it, and
// its directory is missing or empty, as the place of a volume that is not mounted. It is
// not served, and never made again: its numbers would begin anew, and its jobs would count
// as removed by hand. The index keeps what it has, and the journal is not released from the
// first record on that only the directory would have had. The next opening with the
// directory in its place serves the queue as if nothing had happened.

// A lostQueue is a queue without its directory.
type lostQueue struct {
	from journal.LSN // the index has the records before it
	keep journal.LSN // the first record that the index lacks; 0: there is none
}

// hold notes a record of the queue in the journal.
func (l *lostQueue) hold(at journal.LSN) {
	if at >= l.from && (l.keep == 0 || at < l.keep) {
		l.keep = at
	}
}

// Lost returns the queues that are lost, in the order of their identifiers. Those with
// their directory in place again are served after the next opening.
func (s *Service) Lost() []LostError {
	s.known.mu.RLock()
	ids := slices.Sorted(maps.Keys(s.known.lost))
	s.known.mu.RUnlock()
	all := make([]LostError, len(ids))
	for i, id := range ids {
		all[i] = LostError{Queue: id, Back: !s.dirLost(id)}
	}
	return all
}

// lostError returns a [*LostError] if the queue is lost, else nil.
func (s *Service) lostError(id string) error {
	s.known.mu.RLock()
	_, lost := s.known.lost[id]
	s.known.mu.RUnlock()
	if !lost {
		return nil
	}
	return &LostError{Queue: id, Back: !s.dirLost(id)}
}

// findLost reports whether a listed queue is lost, and remembers it. f is its file in the
// index.
func (s *Service) findLost(id string, f *snapshot.File) (bool, error) {
	if !s.dirLost(id) {
		return false, nil
	}
	known, err := s.index.Known(id), error(nil)
	if !known {
		known, err = home.Published(s.dirs.home, id)
	}
	if err != nil || !known {
		return false, err
	}
	if s.stored != nil {
		return false, errStale // the store has it
	}
	s.known.mu.Lock()
	if s.known.lost == nil {
		s.known.lost = map[string]*lostQueue{}
	}
	s.known.lost[id] = &lostQueue{from: f.At}
	s.known.mu.Unlock()
	s.report(home.QueuesDir+"/"+id, "directory lost; the queue is not served: put it back and start again, or remove the queue for good with cutie rmqueue --lost "+id)
	return true, nil
}

// dirLost reports whether the directory of a queue is missing, or has nothing of a queue.
func (s *Service) dirLost(id string) bool {
	dir := s.each.trees.Cache.Dir(s.dirs.queues, id, false)
	defer dir.Close()
	if _, err := dir.Stat(home.QueueInfoName); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if _, err := s.dirs.queues.Stat(id); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	empty := true
	err := dir.Names(func(name string) { empty = empty && name == home.LostFound })
	return empty && err == nil
}

// keepForLost returns from where on the journal is kept: from keep on, or earlier for a
// lost queue.
func (s *Service) keepForLost(keep journal.LSN) journal.LSN {
	s.known.mu.RLock()
	defer s.known.mu.RUnlock()
	for _, lost := range s.known.lost {
		if lost.keep != 0 {
			keep = min(keep, lost.keep)
		}
	}
	return keep
}

// RemoveLost removes a lost queue for good, with its published documents; its last numbers
// stay known. The error is [ErrNotLost] if the directory is there, and [ErrNoQueue] if
// there is no such queue.
func (s *Service) RemoveLost(ctx context.Context, name string) error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.properties.Lock()
	defer s.properties.Unlock()
	_, err := s.Queue(name)
	lost, is := errors.AsType[*LostError](err)
	switch {
	case err == nil:
		return fmt.Errorf("%w; without lost a queue without jobs is removed", ErrNotLost)
	case !is:
		return err
	case lost.Back:
		return fmt.Errorf("%w: it is there again; start the daemon again to serve the queue, or move the directory away", ErrNotLost)
	}
	id := lost.Queue
	if err := s.strikeOut(id, func() error { return nil }); err != nil {
		return err
	}
	s.leftBehind(id, errors.Join(s.forgetLost(id), s.properties.callbacks.Settle(id, ""), s.forgetMirror(id)))
	return nil
}

// forgetLost lets go of a lost queue that is not listed any more. upkeep and properties
// are held.
func (s *Service) forgetLost(id string) error {
	if err := s.forget(id); err != nil {
		return err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	delete(s.known.lost, id)
	return nil
}
