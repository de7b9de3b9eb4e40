package queuefs

import (
	"context"
	"fmt"
	"math"
	"time"

	"cutie/queuefs/index"
)

// Due returns up to max jobs whose Destruction has come by now, in no order. It
// costs what is due. After a start the first calls also read job files, one or two
// thousand each, and name no job before.
func (q *Queue) Due(ctx context.Context, now time.Time, max int) ([]JobID, error) {
	return q.retention.Due(ctx, now, max)
}

// unretained returns the jobs that may be culled.
func (q *Queue) unretained(ctx context.Context, some []index.Candidate) []index.Candidate {
	may, stays := some[:0], int64(math.MaxInt64)
	for _, c := range some {
		if ctx.Err() != nil {
			return nil
		}
		if q.retention.Retained(c.Job) {
			stays = min(stays, c.Changed)
		} else {
			may = append(may, c)
		}
	}
	q.stays(stays)
	return may
}

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
			return all, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		if k.Needed > 0 || k.Spared > 0 {
			all = append(all, k)
		}
	}
	return all, nil
}

func (q *Queue) kept(ctx context.Context, keep *Thresholds) (k Kept, err error) {
	k.Queue = q.ID()
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
			if q.retention.Retained(id) {
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
	size := q.info().CullingSize
	if keep != nil {
		size = keep.Size
	}
	var n int64
	q.look(func(x *index.Index) { n = x.Counts.Processed() })
	return int(n - size)
}

// duePage looks at the jobs of a page without a change after before: it counts
// those changed after needed, and returns the others.
func (q *Queue) duePage(n int, before, needed int64) (late int, old []JobID) {
	q.look(func(x *index.Index) { late, old = x.Due(n, before, needed, q.ledger.Giving) })
	return late, old
}
