package callback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
)

// changes finds the queues to look at: those that have changed since the last time, and
// those to be tried again. All others cost nothing.
type changes struct {
	count uint64 // see [queuefs.Service.Changed]
	retry []*queuefs.Queue
}

func (c *changes) next(svc *queuefs.Service) []*queuefs.Queue {
	queues, now := svc.Changed(c.count)
	c.count = now
	for _, q := range c.retry {
		if open, err := svc.Queue(q.ID()); err == nil && open == q {
			queues = append(slices.Clip(queues), q)
		}
	}
	c.retry = nil
	return queues
}

// again has the queue looked at the next time too.
func (c *changes) again(q *queuefs.Queue) { c.retry = append(c.retry, q) }

// A silence is a queue without a callback, and its last event that was seen: a
// callback begins there.
type silence struct {
	q   *queuefs.Queue
	seq queuefs.Seq
	at  time.Time
}

// secrecy keeps the URLs of callbacks out of property files.
type secrecy struct {
	mu      sync.Mutex
	changes changes
}

// conceal lets the engine take the URLs out of property files that were written by hand.
func (s *secrecy) conceal(ctx context.Context, svc *queuefs.Service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, q := range s.changes.next(svc) {
		if c := q.Info().Callback; c == home.PublicURL(c) {
			continue
		}
		if _, err := svc.SetQueue(ctx, q.ID(), func(*queuefs.QueueInfo) error { return nil }); err != nil {
			s.changes.again(q)
			errs = append(errs, fmt.Errorf("callback of queue %s: it can be read in %s: %w", q.ID(), home.QueueInfoName, err))
		}
	}
	return errors.Join(errs...)
}
