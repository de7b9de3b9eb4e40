package queuefs

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// Maintain does the upkeep that is due: it brings files up to the journal and
// checkpoints. Call it a few times a second. Errors mean that something could
// not be written; it is tried again at the next call. As long as there is no
// free space the error is [ErrNoSpace] in the same words, whichever file it was. After
// [ErrBehind] a standby must be opened again, and so must an owner that was one.
func (s *Service) Maintain(ctx context.Context) error {
	err := s.maintain(ctx)
	if s.stored != nil && errors.Is(err, journal.ErrReleased) {
		// The image of the owner, or of the one before, has these jobs. A directory without
		// a checkpoint since a takeover is made again.
		err = behind(err)
		s.shared.Gate.Fail(err)
		return err
	}
	var why syscall.Errno
	if errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrFailed) && errors.As(err, &why) {
		return fmt.Errorf("%w: files and index are behind the journal: %w", ErrNoSpace, why)
	}
	return err
}

func (s *Service) maintain(ctx context.Context) (err error) {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	due, image, calm, written := s.due()
	defer func() {
		if image && err != nil {
			s.stored.Images.Later(s.opts.Now())
		}
	}()
	if image && s.shared.Behind.Load() > soonFiled && s.space.InTime() && !s.space.Full() {
		err := s.checkpoint(noFiles) // the files may take long
		if !errors.Is(err, ErrNoSpace) {
			return err
		}
	}
	switch {
	case !s.space.InTime():
	case due || image:
		return s.checkpoint(allFiles)
	case calm || s.space.Full():
		return s.fileAll(ctx, func() bool { return s.shared.Journal.Stats().Written <= written+calmRate/4 })
	}
	return nil
}

// soonFiled is for how many jobs an image waits until their files are written: a start of
// this directory has less of the journal to read then.
const soonFiled = 5_000

// due is [diskSpace.Due]. An image needs a checkpoint, too.
func (s *Service) due() (due, image, calm bool, written int64) {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	due, calm, written = s.space.Due(s.opts.Now(), s.upkeep.last)
	image = s.stored != nil && !s.Standby() && !s.Coming() && s.stored.Images.Due(s.shared.Journal.Stats(), s.opts.Now())
	return due, image, calm, written
}

// fileAll brings the files of all jobs that are behind now up to the journal,
// as long as there is time.
func (s *Service) fileAll(ctx context.Context, inTime func() bool) error {
	if s.space.Full() {
		if err := s.makeSpace(); err != nil {
			return storageError(err)
		}
	}
	for _, q := range s.of(s.shared.Unfiled()) {
		if !s.space.Full() {
			q.writePacks(inTime)
		}
		if err := q.fileMany(func() bool { return ctx.Err() == nil && inTime() }); err != nil {
			s.space.Tried(err)
			return storageError(err)
		}
		if err := ctx.Err(); err != nil || !inTime() {
			return err
		}
	}
	s.space.Tried(nil)
	return nil
}

// makeFit returns [ErrNoSpace] unless there is free space for the files of n jobs with
// so many bytes. If few files are to be written it writes them first: then their true
// size is known.
func (s *Service) makeFit(n int, bytes int64) error {
	if s.space.Fits(n, bytes) {
		return nil
	}
	if s.space.Hopeless() {
		return ErrNoSpace
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if s.space.Fits(n, bytes) {
		return nil
	}
	if err := s.shed(); err != nil {
		return storageError(err)
	}
	if err := s.checkpointLocked(allFiles); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	if s.space.Fits(n, bytes) {
		return nil
	}
	s.space.NoGrowth()
	return ErrNoSpace
}

// spool makes a temporary file for a large payload, with the same check as it
// grows.
func (s *Service) spool() (*durable.Spool, error) {
	f, err := s.dirs.temp.Spool()
	if err != nil {
		return nil, err
	}
	f.Reserve = func(bytes int64) error { return s.makeFit(0, bytes) }
	return f, nil
}

// relieve makes space for the journal by a checkpoint, which releases old segments. It
// reports whether to try again. It never waits for another checkpoint. The caller may hold
// properties, as an image does: but a journal in a store never lacks space.
func (s *Service) relieve() bool {
	if s.space.Behind() <= 0 || !s.upkeep.TryLock() {
		return false
	}
	defer s.upkeep.Unlock()
	return s.checkpointLocked(allFiles) == nil || s.space.GiveUp()
}
