// Package keys serves requests that carry a key, so that a client without an answer may
// send them again. [Claims] let one request at a time work with a key. [Takes] remember
// the jobs a request has consumed.
//
// Nothing here is on disk: the job files have the keys. The index finds the job that was
// submitted with one.
package keys

import (
	"context"
	"errors"
	"sync"
	"time"

	"cutie/queuefs/job"
)

// ErrBusy is the error for a key that another request works with.
var ErrBusy = errors.New("another request with this key is on its way")

// Wait is how long Claim waits for another request at most.
const Wait = 30 * time.Second

// Claims are the keys of requests on their way. They are safe for concurrent use. The
// zero value is ready for use.
type Claims struct {
	mu sync.Mutex
	on map[job.KeySum]chan struct{} // closed at the end of the request
}

// Claim claims all of the keys, or none. It waits for requests with one of them, up to
// [Wait] or the end of ctx; then the error is [ErrBusy]. sleep returns an error if ctx
// ends, or the service stops, before wake is closed. Call release in the end.
func (c *Claims) Claim(ctx context.Context, sums []job.KeySum, sleep func(ctx context.Context, wake <-chan struct{}) error) (release func(), err error) {
	limited, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	for {
		busy := c.try(sums)
		if busy == nil {
			return func() { c.release(sums) }, nil
		}
		if err := sleep(limited, busy); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = ErrBusy
			}
			return nil, err
		}
	}
}

// try claims the keys. If one is claimed already it returns the channel of that claim.
func (c *Claims) try(sums []job.KeySum) (busy <-chan struct{}) {
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

func (c *Claims) release(sums []job.KeySum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.on[sums[0]])
	for _, k := range sums {
		delete(c.on, k)
	}
}
