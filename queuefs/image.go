package queuefs

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// bringers is how many pages are brought at once.
const bringers = 4

// Bring brings the files of jobs into the directory that a home in a store has made again,
// until all are there, ctx ends, or the store cannot be read. Jobs are served meanwhile. It
// returns why the last image was not made, too. Without a store it does nothing.
func (s *Service) Bring(ctx context.Context) error {
	if s.stored == nil {
		return nil
	}
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(bringers)
	for queue, n := range s.stored.Absent.All() {
		if all.Err() != nil || s.usable() != nil {
			break
		}
		q := s.open(queue)
		if q == nil {
			s.stored.Absent.Brought(queue, n) // it was removed
			continue
		}
		g.Go(func() error {
			_, err := q.content.Far.Page(job.ID(n) * index.PageJobs)
			return err
		})
	}
	err := g.Wait()
	if err == nil && ctx.Err() == nil {
		err = s.sweepFormer(ctx)
	}
	return errors.Join(err, s.stored.Images.Err())
}

// sweepFormer removes the files that the directory had before it was made again, once a
// checkpoint has put the new ones on stable storage.
func (s *Service) sweepFormer(ctx context.Context) error {
	if !s.stored.Former() || s.Coming() || s.usable() != nil {
		return nil
	}
	if err := s.Checkpoint(ctx); err != nil {
		return err
	}
	return s.stored.SweepFormer()
}

// Image makes an image of a home in a store now, and waits for it.
func (s *Service) Image(ctx context.Context) error {
	if s.stored == nil {
		return errUnstored
	}
	if err := s.Published(); err != nil {
		return err
	}
	return s.stored.Images.Now(ctx, func() error { return s.Checkpoint(ctx) })
}
