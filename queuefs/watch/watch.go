// Package watch wakes callers waiting for events. There is one way to wait: a caller
// takes a channel, looks at the state, sleeps until the next event closes the channel,
// and looks again. The package has only the channels; it knows no queues.
package watch

import (
	"sync/atomic"

	"cutie/queuefs/job"
)

// A Watch has the channels of a queue. The lock of its ledger guards it. The zero value
// is ready for use.
type Watch struct {
	any  chan struct{} // closed at the next event of the queue; nil: nobody waits
	jobs map[job.ID]*one
}

type one struct {
	wake    chan struct{}
	waiting int
}

// Any returns the channel closed at the next event of the queue.
func (w *Watch) Any() <-chan struct{} {
	if w.any == nil {
		w.any = make(chan struct{})
	}
	return w.any
}

// Job returns the channel closed at the next event of the job, or when the job is given
// back. A caller not waiting until then calls leave, under the lock.
func (w *Watch) Job(id job.ID) (wake <-chan struct{}, leave func()) {
	at := w.jobs[id]
	if at == nil {
		at = &one{wake: make(chan struct{})}
		if w.jobs == nil {
			w.jobs = map[job.ID]*one{}
		}
		w.jobs[id] = at
	}
	at.waiting++
	return at.wake, func() {
		if at.waiting--; at.waiting == 0 && w.jobs[id] == at {
			delete(w.jobs, id)
		}
	}
}

// Wake wakes the callers waiting for the queue or for one of the jobs.
func (w *Watch) Wake(jobs ...job.ID) {
	if w.any != nil {
		close(w.any)
		w.any = nil
	}
	if len(w.jobs) == 0 {
		return
	}
	for _, id := range jobs {
		if at := w.jobs[id]; at != nil {
			close(at.wake)
			delete(w.jobs, id)
		}
	}
}

// WakeAll wakes everybody.
func (w *Watch) WakeAll() {
	for id := range w.jobs {
		w.Wake(id)
	}
	w.Wake()
}

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
