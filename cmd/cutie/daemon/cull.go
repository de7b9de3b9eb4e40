package daemon

import (
	"context"
	"errors"
	"time"

	"cutie/queuefs"
)

// A culler removes the due processed jobs: of changed queues a few times a
// second, so that a load that lasts keeps to the threshold of its queue, and of all
// queues once a minute, for jobs that have become old.
type culler struct {
	svc  *queuefs.Service
	seen uint64               // changes up to this count were seen
	due  map[string]time.Time // changed queues, and when they may be looked at
	all  time.Time            // when all queues were looked at
	done func(jobs int, octets int64)

	jobs   int // since the last call of done
	octets int64
}

// A look at a queue is followed by a pause of cullPause times as long, without cullWorth
// for each culled job: most jobs of the queue may be retained, and be looked at in vain.
const (
	cullPause = 8
	cullWorth = time.Millisecond
)

func (d *daemon) culler() *culler {
	return &culler{svc: d.svc, seen: 1, due: map[string]time.Time{}, all: time.Now(), done: func(jobs int, octets int64) {
		d.Log.Info().Int("jobs", jobs).Int64("octets", octets).Msg("culled")
	}}
}

// cull is called a few times a second.
func (c *culler) cull(ctx context.Context) error {
	now := time.Now()
	if now.Sub(c.all) >= cullEvery {
		c.all = now
		_, err := c.some(ctx, queuefs.CullOptions{})
		if c.jobs > 0 {
			c.done(c.jobs, c.octets)
		}
		c.jobs, c.octets = 0, 0
		return err
	}
	changed, seen := c.svc.Changed(c.seen)
	c.seen = seen
	for _, q := range changed {
		if _, ok := c.due[q.ID()]; !ok && q.Info().CullingSize >= 0 {
			c.due[q.ID()] = now
		}
	}
	for id, at := range c.due {
		if now.Before(at) {
			continue
		}
		delete(c.due, id)
		if q, err := c.svc.Queue(id); err != nil || q.Shut() != nil {
			continue
		}
		n, err := c.some(ctx, queuefs.CullOptions{Queue: id})
		if err != nil && !errors.Is(err, queuefs.ErrNoQueue) {
			return err
		}
		took := time.Since(now)
		now = now.Add(took)
		if pause := cullPause*took - time.Duration(n)*cullWorth; pause > maintainEvery {
			c.due[id] = now.Add(pause)
		}
	}
	return nil
}

// some culls, and counts what was culled.
func (c *culler) some(ctx context.Context, o queuefs.CullOptions) (n int, err error) {
	for one, err := range c.svc.Cull(ctx, o) {
		if err != nil {
			return n, err
		}
		n++
		c.jobs, c.octets = c.jobs+1, c.octets+one.Size
	}
	return n, nil
}
