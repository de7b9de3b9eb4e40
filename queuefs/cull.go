package queuefs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"cutie/queuefs/home"
)

// CullOptions are the options of [Service.Cull].
type CullOptions struct {
	Queue string      // name; "" for all queues
	Keep  *Thresholds // instead of those of the queue, which must be named; nil: its own
	Dry   bool        // yield the jobs, and leave them
}

func (o *CullOptions) check() error {
	switch k := o.Keep; {
	case k == nil:
		return nil
	case o.Queue == "":
		return fmt.Errorf("%w: thresholds are those of one queue, and none is named", ErrBadName)
	case k.Size < 0 || k.Age < 0 || k.Age > home.MaxHours:
		return fmt.Errorf("%w: thresholds of %d jobs and %d hours are not from 0, and to %d hours", ErrBadName, k.Size, k.Age, home.MaxHours)
	}
	return nil
}

// Cull removes processed jobs by the thresholds of their queues (Cutie 0.3, 3.2
// and 6.5), the longest unchanged first. Processed jobs are consumed or
// deleted, and not under a lease. Once they are more than CullingSize, all jobs
// without an event for CullingAge hours go; if CullingAge is zero or unset,
// only the excess goes. A queue without CullingSize is left alone, and so is a
// job with a Destruction ahead, with a successor at the end of the queue, on its way to a
// consumer, see [Queue.Given], or consumed with a [Take.Key] not five minutes ago.
// Thresholds of the call need no free space, while changing those of the queue does: so
// they make space on a full disk.
//
// It culls as the caller ranges over it, about a thousand jobs at a time, and
// stops when the caller does. Yielded jobs are gone on stable storage, unless
// Dry. An error comes last.
func (s *Service) Cull(ctx context.Context, o CullOptions) iter.Seq2[Culled, error] {
	return func(yield func(Culled, error) bool) {
		queues, err := s.toCull(o)
		if err == nil && !o.Dry {
			err = s.usable()
		}
		if err != nil {
			yield(Culled{}, err)
			return
		}
		for _, q := range queues {
			more, err := q.cull(ctx, o.Keep, o.Dry, func(c Culled) bool { return yield(c, nil) })
			if errors.Is(err, ErrNoQueue) && o.Queue == "" {
				continue // removed meanwhile
			}
			if err != nil {
				yield(Culled{}, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// toCull returns the queues of the options; of all, the ones with thresholds.
func (s *Service) toCull(o CullOptions) ([]*Queue, error) {
	if err := o.check(); err != nil || o.Queue == "" {
		return slices.DeleteFunc(slices.Clone(s.Queues()), func(q *Queue) bool {
			return q.Shut() != nil || q.Mirror().Live() || q.info().CullingSize < 0 && !q.ledger.Vacates()
		}), err
	}
	q, err := s.Ask(o.Queue)
	if err == nil && !o.Dry {
		err = q.original.Refuse()
	}
	return []*Queue{q}, err
}

// Kept returns, for each queue, the number of due jobs left by [Service.Cull] with
// the same options. Call it after Cull has ended. It looks at all due jobs, and
// reads the files of jobs with a retention.
func (s *Service) Kept(ctx context.Context, o CullOptions) (all []Kept, err error) {
	queues, err := s.toCull(o)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		k, err := q.kept(ctx, o.Keep)
		if err != nil {
			return all, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		if k.Spared > 0 {
			all = append(all, k)
		}
	}
	return all, nil
}
