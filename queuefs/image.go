package queuefs

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/imaging"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// makeImage begins an image of a home in a store up to the record at, right after a
// checkpoint, and goes on with it in the background. What is to be of the time of the
// checkpoint is copied here; jobs and published documents may be newer, as after a crash.
// The files here may be behind the image: the journal stays from their checkpoint c on.
// upkeep is held.
func (s *Service) makeImage(c indexfile.Checkpoint, at journal.LSN, queues []*Queue) {
	images, of := s.stored.Images, c
	if of.Past = at; c.Keep == c.Past {
		of.Keep = at
	}
	b := images.Begin(of.Past, of.From(), s.opts.Now())
	if b == nil {
		return
	}
	all := imaged(queues)
	s.properties.Lock()
	err := imaging.Home(b, s.dirs.home, s.index, &of, all)
	s.properties.Unlock()
	if err != nil {
		images.Fail(b, err)
		return
	}
	fill := func(ctx context.Context) error {
		for _, q := range all {
			if err := imaging.Jobs(ctx, b, q); err != nil {
				return err
			}
		}
		return imaging.Published(ctx, b, s.dirs.home)
	}
	live := func(yield func(sum [32]byte)) error { return imaging.Live(imaged(s.Queues()), yield) }
	images.Go(b, c.From(), fill, func() error { return s.stored.Sweep(live) }, func(err error) {
		if errors.Is(err, ErrFenced) {
			s.shared.Gate.Fail(err)
		}
	})
}

// imaged returns queues for an image.
func imaged(queues []*Queue) []imaging.Queue {
	all := make([]imaging.Queue, len(queues))
	for i, q := range queues {
		all[i] = imaging.Queue{Root: q.tree.Root(), Ledger: q.ledger, Reader: q.content}
		q.look(func(x *index.Index) { all[i].Pages = x.Pages() })
	}
	return all
}

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
		s.stored.SweepFormer()
	}
	return errors.Join(err, s.stored.Images.Err())
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
