package queuefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"cutie/queuefs/home"
	"cutie/queuefs/tree"
)

// removedPrefix begins the names of removed queues in cutie-tmp.
const removedPrefix = "removed-"

// RemoveQueue removes a queue without jobs, with its directory, its index and its
// published documents. Consumers waiting for its jobs get [ErrNoQueue]. The error
// is [ErrNotEmpty] if it has jobs, or foreign files in its directory.
//
// The queue stays removed when RemoveQueue returns. Files left after an error are
// reported, and have no use. A later queue of the name is another one, except that
// its numbers of jobs and events go on.
func (s *Service) RemoveQueue(ctx context.Context, name string) error {
	return s.RemoveQueueIf(ctx, name, func(*Queue) error { return nil })
}

// RemoveQueueIf is RemoveQueue with a condition: may is called for the queue
// without jobs, and again once it is sealed, but still found. If may fails, the
// queue stays, with the error of may.
func (s *Service) RemoveQueueIf(ctx context.Context, name string, may func(*Queue) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	q, err := s.Queue(name)
	if err != nil {
		return err
	}
	ask := func() error { return may(q) }
	// Run every check before sealing the queue, so that clients never see a queue
	// vanish and come back.
	if err := s.removable(q, ask); err != nil {
		return err
	}
	if err := q.seal(ctx); err != nil {
		return err
	}
	if err = ask(); err == nil {
		// With the events in the files, the journal is needed for none of them.
		err = s.checkpointLocked(false)
	}
	s.set.Lock()
	defer s.set.Unlock()
	if err == nil {
		err = s.unlist(q)
	}
	if err != nil {
		q.unseal()
		return err
	}
	s.drop(q)
	if err := errors.Join(s.removeDir(q.id), s.forget(q.id)); err != nil {
		s.report(Problem{Path: home.QueuesDir + "/" + q.id, Text: err.Error() + "; left behind of a queue that was removed"})
	}
	return nil
}

// removable returns the reason against a removal, as long as no job comes.
func (s *Service) removable(q *Queue, ask func() error) error {
	q.mu.RLock()
	err := q.bare()
	q.mu.RUnlock()
	if err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	if err := s.checkpointLocked(false); err != nil {
		return err
	}
	strange := q.onlyOurs()
	q.mu.RLock()
	defer q.mu.RUnlock()
	if err := q.bare(); err != nil {
		return err // the files of a new job
	}
	return strange
}

// bare returns [ErrNotEmpty] if the queue has jobs; q.mu is held.
func (q *Queue) bare() error {
	if n := q.idx.Counts.Total(); n > 0 {
		return fmt.Errorf("%s: %w: it has %d jobs", q.id, ErrNotEmpty, n)
	}
	return nil
}

// seal ends all events of a queue without jobs.
func (q *Queue) seal(ctx context.Context) error {
	for {
		if err := q.svc.usable(); err != nil {
			return err
		}
		q.mu.Lock()
		if err := q.bare(); err != nil {
			q.mu.Unlock()
			return err
		}
		if q.idx.Minted().Seq == q.idx.Last().Seq {
			q.life.gone = true
			q.mu.Unlock()
			return nil
		}
		if err := q.sleep(ctx, 0); err != nil { // an event is on its way
			return err
		}
	}
}

func (q *Queue) unseal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.life.gone = false
}

// unlist removes a sealed queue from queues.txt: from then on it does not exist. A
// crash leaves directories without a use.
func (s *Service) unlist(q *Queue) error {
	if err := q.onlyOurs(); err != nil {
		return err
	}
	was, err := home.ReadList(s.home)
	if err != nil {
		return storageError(err)
	}
	if err := was.Drop(q.id).Write(s.home); err != nil {
		now, e := home.ReadList(s.home)
		if e == nil && string(now) == string(was) {
			return storageError(err) // nothing has happened
		}
		// Whether the queue is listed after a crash is in doubt: no job must
		// come to it.
		s.fail(err)
		return errors.Join(ErrFailed, err)
	}
	return nil
}

// onlyOurs refuses a queue directory with foreign files: an operator must look at
// them first.
func (q *Queue) onlyOurs() error {
	err := q.tree.Foreign(home.QueueInfoName)
	if errors.Is(err, tree.ErrForeign) {
		err = fmt.Errorf("%s: %w: %w; look at it and move it away", q.id, ErrNotEmpty, err)
	}
	return err
}

// drop removes a sealed queue from memory.
func (s *Service) drop(q *Queue) {
	s.mu.Lock()
	delete(s.byID, q.id)
	s.queues = slices.DeleteFunc(s.queues, func(o *Queue) bool { return o == q })
	s.mu.Unlock()
	q.mu.Lock()
	for _, w := range q.consumers.line {
		close(w.ready)
	}
	q.consumers.line = nil
	q.watch.WakeAll()
	q.idx.Free()
	q.mu.Unlock()
	s.happened.Raise()
	q.tree.Close()
}

// removeDir removes the directory of a queue that is not listed. It is renamed
// first: the remains of a crash are no queue, and go at the next start.
func (s *Service) removeDir(id string) error {
	if err := s.temp.RemoveTree(removedPrefix + id); err != nil {
		return err
	}
	if err := s.qdir.Rename(id, s.temp, removedPrefix+id); err != nil {
		return err
	}
	if err := s.qdir.Sync(); err != nil {
		return err
	}
	return s.temp.RemoveTree(removedPrefix + id)
}

// sweepRemoved removes the remains of removed queues, and of unfinished ones.
func (s *Service) sweepRemoved() error {
	var left []string
	err := s.temp.Names(func(name string) {
		if strings.HasPrefix(name, removedPrefix) {
			left = append(left, name)
		}
	})
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := s.temp.RemoveTree(name); err != nil { // tried again at the next opening
			s.report(Problem{Path: home.TempDir + "/" + name, Text: err.Error() + "; left behind of a queue that was removed"})
		}
	}
	ix, err := s.ixdir.Sub(home.QueuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ix.Close()
	var names []string
	if err := ix.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if d, err := ix.Sub(name); err == nil {
			err = d.Sweep(nil)
			d.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the index and the published documents of a queue that is not
// listed, and calls the followers.
func (s *Service) forget(id string) error {
	if f, ok := s.follower.(Forgetter); ok {
		if err := f.Forget(id); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
	}
	if err := s.forgetIndex(id); err != nil {
		return err
	}
	d, err := s.home.Sub(home.PublishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.RemoveTree(id); err != nil {
		return err
	}
	return d.Sync()
}
