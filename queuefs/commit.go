package queuefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// changeable returns the error of ctx, or [replay.ErrMirror].
func (q *Queue) changeable(ctx context.Context) error {
	return cmp.Or(ctx.Err(), q.original.Refuse())
}

// commit is [ledger.Ledger.Commit] for a queue that is no mirror.
func (q *Queue) commit(build func(b *ledger.Batch) error) error {
	return q.record(func(b *ledger.Batch) error {
		if err := q.original.Refuse(); err != nil {
			return err
		}
		return build(b)
	})
}

// record is [ledger.Ledger.Commit]. Without storage for the records it makes some by a
// checkpoint.
func (q *Queue) record(build func(b *ledger.Batch) error) error {
	if err := q.svc.begin(); err != nil {
		return err
	}
	defer q.svc.end()
	for {
		err := q.ledger.Commit(build)
		var reserve *ledger.ReserveError
		if !errors.As(err, &reserve) {
			return err
		}
		full := errors.Is(err, ErrNoSpace)
		if full && q.svc.relieve() {
			continue
		}
		if full {
			q.svc.space.NoGrowth() // Maintain makes some
		}
		return reserve.Err
	}
}

// mint gives out the next job number.
func (q *Queue) mint(b *ledger.Batch) (job.ID, error) {
	number, ok := b.Index().MintJob()
	if !ok {
		return 0, fmt.Errorf("%w: queue %s has given out all job identifiers", ledger.ErrNoSpace, q.ID())
	}
	return number, nil
}

// makeRoom holds a submission back while the files are too far behind. When
// they cannot be written for lack of space it is refused.
func (q *Queue) makeRoom(ctx context.Context, n int, bytes int64) error {
	if err := q.catchUp(ctx, n); err != nil {
		return err
	}
	return q.svc.makeFit(n, bytes)
}

// catchUp writes as many files as n jobs cause if the files are behind,
// and waits while they are too far behind.
func (q *Queue) catchUp(ctx context.Context, n int) error {
	s := q.svc
	if s.space.Full() {
		return ErrNoSpace
	}
	q.assist(n)
	for s.space.TooFar() {
		if !s.space.InTime() {
			return ErrClosed
		}
		if s.space.Full() {
			return ErrNoSpace
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.checkpointIfTooFar(); err != nil {
			return err
		}
	}
	return nil
}

// checkpointIfTooFar checkpoints if the files are still too far behind when the turn
// comes.
func (s *Service) checkpointIfTooFar() error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	if !s.space.TooFar() {
		return nil
	}
	return s.checkpointLocked(allFiles)
}

// assist writes the files of n jobs if many are behind, so that a
// sustained load settles at what the file system carries.
func (q *Queue) assist(n int) {
	s := q.svc
	if !s.space.Overdue() || s.begin() != nil {
		return
	}
	defer s.end()
	for n > 0 {
		done, err := q.fileSome(n)
		if err != nil {
			s.space.Tried(err)
			return
		}
		if n -= done; done == 0 {
			return
		}
	}
}
