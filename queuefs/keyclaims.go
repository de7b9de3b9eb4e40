package queuefs

import (
	"context"
	"errors"
	"sync"
	"time"

	"cutie/queuefs/job"
)

// keyWait is how long Claim waits for another request at most.
const keyWait = 30 * time.Second

// keyClaims are the keys of requests on their way. They are safe for concurrent use. The
// zero value is ready for use.
type keyClaims struct {
	mu sync.Mutex
	on map[job.KeySum]chan struct{} // closed at the end of the request
}

// claim claims all of the keys, or none. It waits for requests with one of them, up to
// [keyWait] or the end of ctx; then the error is [ErrKeyBusy]. sleep returns an error if ctx
// ends, or the service stops, before wake is closed. Call release in the end.
func (c *keyClaims) claim(ctx context.Context, sums []job.KeySum, sleep func(ctx context.Context, wake <-chan struct{}) error) (release func(), err error) {
	limited, cancel := context.WithTimeout(ctx, keyWait)
	defer cancel()
	for {
		busy := c.try(sums)
		if busy == nil {
			return func() { c.release(sums) }, nil
		}
		if err := sleep(limited, busy); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = ErrKeyBusy
			}
			return nil, err
		}
	}
}

// try claims the keys. If one is claimed already it returns the channel of that claim.
func (c *keyClaims) try(sums []job.KeySum) (busy <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range sums {
		if wake := c.on[k]; wake != nil {
			return wake
		}
	}
	if c.on == nil {
		c.on = map[job.KeySum]chan struct{}{}
	}
	wake := make(chan struct{})
	for _, k := range sums {
		c.on[k] = wake
	}
	return nil
}

func (c *keyClaims) release(sums []job.KeySum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.on[sums[0]])
	for _, k := range sums {
		delete(c.on, k)
	}
}
