package queuefs

import (
	"context"
	"errors"
	"fmt"

	"cutie/queuefs/imaging"
)

// Push moves the home from the directory into the store of [Options.PushTo]: an image of
// all there is, and a journal that goes on after it. Then the directory is a cache. Close
// the service after it, whatever the error; a later Push goes on. Followers are set and up
// to date, and nothing changes meanwhile.
func (s *Service) Push(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	queues := s.Queues()
	if lost := s.Lost(); len(lost) > 0 {
		return &lost[0]
	}
	for _, q := range queues {
		if q.Mirror().Live() {
			return fmt.Errorf("queue %s is a mirror: the first copy of a mirror is in no journal", q.ID())
		}
		if err := q.Shut(); err != nil {
			return err
		}
	}
	if err := s.checkpointLocked(allFiles); err != nil {
		return err
	}
	at := s.upkeep.past
	if s.upkeep.keep != at {
		return errors.New("a follower needs the journal before the image")
	}
	b := s.push.Begin(at, s.opts.Now())
	defer b.Close()
	s.properties.Lock()
	err := imaging.Home(b, s.dirs.home, s.index, nil, imaged(queues))
	s.properties.Unlock()
	if err != nil {
		return err
	}
	for _, q := range imaged(queues) {
		if err := imaging.Jobs(ctx, b, q); err != nil {
			return err
		}
		if err := imaging.Put(ctx, q, s.push.File); err != nil {
			return err
		}
	}
	if err := imaging.Published(ctx, b, s.dirs.home); err != nil {
		return err
	}
	if next := s.shared.Journal.Stats().Next; next != at {
		return fmt.Errorf("the home has changed while it was copied: the journal goes to %d, and the image to %d", next, at)
	}
	return s.push.Finish(ctx, b, at)
}

// MoveHere brings all of a home in a store into the directory, and has Close move it there.
// where names the directory for people. A home of another owner is not moved. After an
// error the home is in the store as before, and the directory is its cache.
func (s *Service) MoveHere(ctx context.Context, where string) error {
	if err := s.beginChange(); err != nil {
		return err
	}
	defer s.end()
	if s.stored == nil {
		return errUnstored
	}
	if err := s.Bring(ctx); err != nil {
		return err
	}
	for _, q := range imaged(s.Queues()) {
		if err := imaging.Bring(ctx, q); err != nil {
			return err
		}
	}
	return s.stored.MoveHere(where)
}
