package queuefs

import (
	"context"
	"fmt"
	"math"
)

// A Kept is how many jobs of a queue are due for culling and stay all the same.
type Kept struct {
	Queue  string // cleaned identifier
	Needed int    // needed by a follower, see [Keeper]
	Spared int    // retained, see Destruction of [Job]
}

// Kept returns, for each queue, the number of due jobs left by [Service.Cull] with
// the same options. Call it after Cull has ended. It looks at all due jobs, and
// reads the files of jobs with a retention.
func (s *Service) Kept(ctx context.Context, o CullOptions) (all []Kept, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	queues := s.Queues()
	if o.Queue != "" {
		q, err := s.Queue(o.Queue)
		if err != nil {
			return nil, err
		}
		queues = []*Queue{q}
	}
	for _, q := range queues {
		k, err := q.kept(ctx, o.Keep)
		if err != nil {
			return all, fmt.Errorf("queue %s: %w", q.id, err)
		}
		if k.Needed > 0 || k.Spared > 0 {
			all = append(all, k)
		}
	}
	return all, nil
}

func (q *Queue) kept(ctx context.Context, keep *Thresholds) (k Kept, err error) {
	k.Queue = q.id
	before, most := q.due(keep)
	if most == 0 {
		return k, nil
	}
	needed, goes := q.needed(), 0
	for n := range q.Pages() {
		if err := ctx.Err(); err != nil {
			return k, err
		}
		late, old := q.duePage(n, before, needed)
		k.Needed += late
		for _, id := range old {
			if err := ctx.Err(); err != nil {
				return k, err
			}
			if q.retained(id) {
				k.Spared++
			} else {
				goes++
			}
		}
	}
	// With a size alone, as many jobs are due as there are too many.
	left := max(q.extra(keep)-goes, 0)
	if left == 0 || most < math.MaxInt {
		k.Needed = min(k.Needed, left)
		k.Spared = min(k.Spared, left-k.Needed)
	}
	return k, nil
}

// extra returns how many processed jobs there are more than are to be kept.
func (q *Queue) extra(keep *Thresholds) int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	size := q.set.info.CullingSize
	if keep != nil {
		size = keep.Size
	}
	return int(q.idx.Counts.Processed() - size)
}

// duePage looks at the jobs of a page without a change after before: it counts
// those changed after needed, and returns the others.
func (q *Queue) duePage(n int, before, needed int64) (late int, old []JobID) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.Due(n, before, needed, q.given)
}
