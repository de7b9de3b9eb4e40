package queuefs

import (
	"context"
	"errors"
	"fmt"

	"cutie/queuefs/home"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
)

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
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	q, err := s.Ask(name)
	if err == nil {
		err = q.original.Refuse()
	}
	if err != nil {
		return err
	}
	ask := func() error { return may(q) }
	// Run every check before sealing the queue, so that clients never see a queue
	// vanish and come back.
	if err := s.removable(q, ask); err != nil {
		return err
	}
	if err := q.ledger.Seal(ctx); err != nil {
		return err
	}
	if err = ask(); err == nil {
		// With the events in the files, the journal is needed for none of them.
		err = s.checkpointLocked(allFiles)
	}
	s.properties.Lock()
	defer s.properties.Unlock()
	if err == nil {
		err = s.unlist(q)
	}
	if err != nil {
		q.ledger.Unseal()
		return err
	}
	s.takeAway(q)
	return nil
}

// takeAway ends the service of a queue that is not listed any more, and removes its files.
func (s *Service) takeAway(q *Queue) {
	s.drop(q)
	s.leftBehind(q.ID(), errors.Join(home.RemoveQueue(s.dirs.queues, s.dirs.temp, q.ID()), s.forget(q.ID()),
		s.properties.callbacks.Settle(q.ID(), ""), s.forgetMirror(q.ID())))
}

// removable returns the reason against a removal, as long as no job comes.
func (s *Service) removable(q *Queue, ask func() error) error {
	if err := q.ledger.Bare(); err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	if err := s.checkpointLocked(allFiles); err != nil {
		return err
	}
	strange := q.onlyOurs()
	if err := q.ledger.Bare(); err != nil {
		return err // the files of a new job
	}
	return strange
}

// unlist removes a sealed queue from queues.txt: from then on it does not exist. A
// crash leaves directories without a use.
func (s *Service) unlist(q *Queue) error {
	if err := q.onlyOurs(); err != nil {
		return err
	}
	return s.delist(q)
}

// delist is unlist of a queue whatever its files.
func (s *Service) delist(q *Queue) error {
	return s.strikeOut(q.ID(), func() error { return s.noteGone(q) })
}

// strikeOut takes a line out of queues.txt, after note.
func (s *Service) strikeOut(id string, note func() error) error {
	was, err := home.ReadList(s.dirs.home)
	if err == nil {
		err = note()
	}
	if err != nil {
		return storageError(err)
	}
	if err := was.Drop(id).Write(s.dirs.home); err != nil {
		now, e := home.ReadList(s.dirs.home)
		if e == nil && string(now) == string(was) && s.stored == nil {
			return storageError(err) // nothing has happened
		}
		// Whether the queue is listed after a crash is in doubt: no job must
		// come to it.
		s.shared.Gate.Fail(err)
		return errors.Join(ErrFailed, err)
	}
	return nil
}

// noteGone puts the end of a queue into the journal of a home in a store.
func (s *Service) noteGone(q *Queue) error {
	return s.stored.Note(record.HomeChange{Kind: record.QueueGone, Queue: q.ID()})
}

// onlyOurs refuses a queue directory with foreign files: an operator must look at
// them first.
func (q *Queue) onlyOurs() error {
	err := q.tree.Foreign(home.QueueInfoName)
	if errors.Is(err, tree.ErrForeign) {
		err = fmt.Errorf("%s: %w: %w; look at it and move it away", q.ID(), ErrNotEmpty, err)
	}
	return err
}

// sweepRemoved removes the remains of removed queues, and of unfinished ones.
func (s *Service) sweepRemoved() error {
	if err := home.SweepRemoved(s.dirs.temp, s.report); err != nil {
		return err
	}
	if s.stored == nil {
		if err := home.SweepFormer(s.dirs.temp, func() error { return nil }); err != nil {
			return err
		}
	}
	return s.index.Sweep()
}

// forget removes the index and the published documents of a queue that is not
// listed, and calls the followers.
func (s *Service) forget(id string) error {
	if f, ok := s.upkeep.follower.(Forgetter); ok {
		if err := f.Forget(id); err != nil {
			return fmt.Errorf("follower: %w", err)
		}
	}
	if err := s.index.Forget(id); err != nil {
		return err
	}
	return home.RemovePublished(s.dirs.home, id)
}

// leftBehind reports files left of a removed queue.
func (s *Service) leftBehind(id string, err error) {
	if err != nil {
		s.report(home.QueuesDir+"/"+id, err.Error()+"; left behind of a queue that was removed")
	}
}

// forgetMirror removes the file of a former mirror.
func (s *Service) forgetMirror(id string) error {
	delete(s.known.mirrors, id)
	return s.properties.mirrors.Remove(id)
}
