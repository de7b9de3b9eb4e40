package imaging

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/content"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/tree"
)

// Large payloads and large results are apart from the image, in objects of their own.

// atOnce is how many of them are moved at once.
const atOnce = 8

// Put calls put with the large payloads and the large results of a queue, several at a time. Lost
// and damaged ones are reported, and left out.
func Put(ctx context.Context, q Queue, put func(ctx context.Context, sum [sha256.Size]byte, f io.ReadSeeker, size int64) error) error {
	whole := func(ctx context.Context, path string, sum [sha256.Size]byte, f io.ReadSeekCloser, size int64) error {
		defer f.Close()
		d := sha256.New()
		if _, err := io.Copy(d, f); err != nil {
			return err
		}
		if [sha256.Size]byte(d.Sum(nil)) != sum {
			q.Reader.Report(path, "does not have its digest, and stays behind")
			return nil
		}
		return put(ctx, sum, f, size)
	}
	return q.apart(ctx, func(ctx context.Context, id job.ID, j index.Job) error {
		if j.Size <= content.Inline {
			return nil
		}
		p, err := q.Reader.Payload(id)
		if err != nil {
			return q.lost(err)
		}
		return whole(ctx, q.Reader.Tree.Path(tree.Payloads, id.String()), j.SHA256, p, p.Size())
	}, func(ctx context.Context, id job.ID, r job.Result) error {
		if r.Size <= content.SmallResult {
			return nil
		}
		_, f, err := q.Reader.Result(id, r.Name)
		if err != nil {
			return q.lost(err)
		}
		return whole(ctx, q.Reader.Tree.Path(tree.Results, id.String()+"/"+r.Name), r.SHA256, f, r.Size)
	})
}

// Bring brings the large payloads and the results of a queue into the directory. Lost and
// damaged ones are reported, and left out.
func Bring(ctx context.Context, q Queue) error {
	return q.apart(ctx, func(_ context.Context, id job.ID, j index.Job) error {
		if j.Size <= content.Inline {
			return nil
		}
		return q.lost(q.Reader.Find(id))
	}, func(_ context.Context, id job.ID, r job.Result) error {
		_, f, err := q.Reader.Result(id, r.Name)
		if err == nil {
			err = f.Close()
		}
		return q.lost(err)
	})
}

// apart calls payload with jobs with a large payload or with results, and result with each
// result.
func (q *Queue) apart(ctx context.Context, payload func(ctx context.Context, id job.ID, j index.Job) error, result func(ctx context.Context, id job.ID, r job.Result) error) error {
	type one struct {
		id job.ID
		index.Job
	}
	for n, pages := 0, 1; n < pages; n++ {
		var jobs []one
		q.Ledger.Look(func(x *index.Index) {
			pages = x.Pages()
			x.EachOf(n, func(id job.ID, j index.Job) {
				if j.Size > content.Inline || j.Results {
					jobs = append(jobs, one{id, j})
				}
			})
		})
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, j := range jobs {
			g.Go(func() error {
				if err := payload(ctx, j.id, j.Job); err != nil || !j.Results {
					return err
				}
				of, err := q.Reader.Job(j.id)
				if err != nil {
					return imaged(err)
				}
				for _, r := range of.Results {
					if err := result(ctx, j.id, r); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("queue %s: %w", q.Ledger.ID(), err)
		}
	}
	return ctx.Err()
}

// lost reports a lost file, unless it was reported, and returns other errors.
func (q *Queue) lost(err error) error {
	switch {
	case err == nil, errors.Is(err, ledger.ErrNoJob), errors.Is(err, content.ErrResultDamaged), errors.As(err, new(*image.DamageError)):
		return nil
	case content.Transient(err):
		return err
	}
	q.Reader.Report("queue "+q.Ledger.ID(), err.Error())
	return nil
}
