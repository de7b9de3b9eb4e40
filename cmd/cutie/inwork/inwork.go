// Package inwork counts the changes in progress of an owner of a home, so that it finishes
// them before it gives the home up.
package inwork

import (
	"context"
	"sync/atomic"
	"time"
)

// A Phase is how far an owner is in giving its home up.
type Phase int32

const (
	Owning    Phase = iota
	Finishing       // changes begun before end; others begin with their whole body here
	Handing         // no change begins
)

// Changes are those in progress. Ones begun before the phase Finishing may take their time
// to come in. Later ones are as short as the store is fast. The zero value is ready, and
// the methods are safe for concurrent use.
type Changes struct {
	at     atomic.Int32 // a phase
	before atomic.Int64 // in progress, begun before the phase Finishing
	since  atomic.Int64 // and since
}

// Phase returns the phase.
func (c *Changes) Phase() Phase { return Phase(c.at.Load()) }

// Enter begins a phase.
func (c *Changes) Enter(at Phase) { c.at.Store(int32(at)) }

// GoOn ends the phases: this process is an owner as before, or a standby.
func (c *Changes) GoOn() { c.Enter(Owning) }

// Begin counts a change in; end must follow. It returns false in another phase than at.
func (c *Changes) Begin(at Phase) (end func(), ok bool) {
	n := &c.before
	if at == Finishing {
		n = &c.since
	}
	end = func() { n.Add(-1) }
	n.Add(1)
	if c.Phase() != at {
		end()
		return nil, false
	}
	return end, true
}

// Count returns the changes in progress.
func (c *Changes) Count() int64 { return c.before.Load() + c.since.Load() }

// waitEvery is the pause between two looks at the changes in progress.
const waitEvery = 2 * time.Millisecond

// Wait returns when no change of the phase before at is in progress, or after most. The
// error is that of ctx.
func (c *Changes) Wait(ctx context.Context, at Phase, most time.Duration) error {
	n := &c.before
	if at == Handing {
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
