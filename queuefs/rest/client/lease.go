package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/queuefs"
)

// maxBeat is the longest time between two extensions of a lease, so that an abort is
// noticed within it.
const maxBeat = 5 * time.Second

// KeepLease extends the lease of a job, each time by lease, until stop is called. held
// ends then, and before when ctx ends or the lease is lost: the job was aborted or given
// to others, or the service was out of reach for too long. The cause of held is then an
// [queuefs.ErrLease], and so is the error of stop; else stop returns nil.
func (c *Client) KeepLease(ctx context.Context, d *Delivery, lease time.Duration) (held context.Context, stop func() error) {
	held, end := context.WithCancelCause(ctx)
	beating, still := context.WithCancel(held)
	var beat sync.WaitGroup
	beat.Go(func() { c.beat(beating, d, lease, end) })
	return held, func() error {
		still()
		beat.Wait()
		end(nil)
		if err := context.Cause(held); errors.Is(err, queuefs.ErrLease) {
			return err
		}
		return nil
	}
}

func (c *Client) beat(ctx context.Context, d *Delivery, lease time.Duration, lost context.CancelCauseFunc) {
	over := time.Now().Add(lease)
	every := min(lease/3, maxBeat)
	for sleep(ctx, every); ctx.Err() == nil; sleep(ctx, every) {
		asked := time.Now()
		to, cancel := context.WithDeadline(ctx, over)
		_, err := c.Extend(to, d.Queue, d.Job, d.Lease, lease)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			over = asked.Add(lease)
		case errors.Is(err, queuefs.ErrLease), !Temporary(err), !time.Now().Before(over):
			lost(fmt.Errorf("%w: %w", queuefs.ErrLease, err))
			return
		}
	}
}
