package daemon

import (
	"context"
	"sync/atomic"
	"time"
)

// A phase is how far an owner is in giving its home up.
type phase int32

const (
	owning    phase = iota
	finishing       // changes begun before end; short ones begin still
	handing         // no change begins
)

// An inWork counts the changes in progress, so that an owner finishes them before it gives its
// home up. The zero value is ready, and the methods are safe for concurrent use.
type inWork struct {
	at     atomic.Int32 // a phase
	before atomic.Int64 // in progress, begun before the phase finishing
	since  atomic.Int64 // and since
}

func (c *inWork) phase() phase { return phase(c.at.Load()) }

// enter begins a phase.
func (c *inWork) enter(at phase) { c.at.Store(int32(at)) }

// begin counts a change in; end must follow. It returns false in another phase than at.
func (c *inWork) begin(at phase) (end func(), ok bool) {
	n := &c.before
	if at == finishing {
		n = &c.since
	}
	end = func() { n.Add(-1) }
	n.Add(1)
	if c.phase() != at {
		end()
		return nil, false
	}
	return end, true
}

// count returns the changes in progress.
func (c *inWork) count() int64 { return c.before.Load() + c.since.Load() }

// waitEvery is the pause between two looks at the changes in progress.
const waitEvery = 2 * time.Millisecond

// wait returns when no change of the phase before at is in progress, or after most. The
// error is that of ctx.
func (c *inWork) wait(ctx context.Context, at phase, most time.Duration) error {
	n := &c.before
	if at == handing {
		n = &c.since
	}
	over := time.NewTimer(most)
	defer over.Stop()
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for n.Load() > 0 {
		select {
		case <-tick.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
