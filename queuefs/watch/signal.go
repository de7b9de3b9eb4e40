package watch

import "sync/atomic"

// A Signal counts the events of all queues, and wakes callers waiting for one. It needs
// no lock. The zero value is ready for use.
type Signal struct {
	count atomic.Uint64
	wake  atomic.Pointer[chan struct{}] // closed the next time; nil: nobody waits
}

// Raise counts an event and wakes the callers.
func (g *Signal) Raise() {
	g.count.Add(1)
	if wake := g.wake.Swap(nil); wake != nil {
		close(*wake)
	}
}

// Count returns how many events there were.
func (g *Signal) Count() uint64 { return g.count.Load() }

// Next returns the channel closed by the next Raise. Take it before looking at Count, so
// that no event is missed.
func (g *Signal) Next() <-chan struct{} {
	made := make(chan struct{})
	for {
		if wake := g.wake.Load(); wake != nil {
			return *wake
		}
		if g.wake.CompareAndSwap(nil, &made) {
			return made
		}
	}
}
