package ledger

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// A Gate counts the calls on an open home. It closes when the home does, or for
// changes when storage fails. Its methods are safe for concurrent use. Make one with
// [NewGate].
type Gate struct {
	mu      sync.RWMutex
	err     error // storage failed
	closing bool
	calls   sync.WaitGroup
	stopped chan struct{} // closed when the home closes or fails
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{stopped: make(chan struct{})} }

// Enter registers a call; Leave must follow. The error is as for Usable.
func (g *Gate) Enter() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if err := g.usable(); err != nil {
		return err
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Usable returns [ErrFailed] after storage has failed, [ErrClosed] once the home
// closes, and else nil.
func (g *Gate) Usable() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.usable()
}

func (g *Gate) usable() error {
	switch {
	case g.err != nil:
		return errors.Join(ErrFailed, g.err)
	case g.closing:
		return ErrClosed
	}
	return nil
}

// Fail makes every later change an error: the contents of storage are unknown until
// the home is opened again.
func (g *Gate) Fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	if !g.closing {
		close(g.stopped)
	}
}

// Err returns the error given to Fail, or nil.
func (g *Gate) Err() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.err
}

// Close lets no more calls in and waits for those on their way. It returns false if
// it was called before.
func (g *Gate) Close() bool {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return false
	}
	g.closing = true
	if g.err == nil {
		close(g.stopped)
	}
	g.mu.Unlock()
	g.calls.Wait()
	return true
}

// Sleep returns nil once wake is closed, and an error if ctx ends or the gate closes
// before.
func (g *Gate) Sleep(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stopped:
		return cmp.Or(g.Usable(), ErrClosed)
	}
}
