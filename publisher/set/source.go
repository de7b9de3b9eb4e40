package set

import (
	"fmt"
	"sync/atomic"

	"cutie/publisher/options"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// A Source is what all sets of a home have in common. Its methods are safe for
// concurrent use.
type Source struct {
	options.Complete
	Store *store.Store

	terms  atomic.Pointer[options.Terms] // nil: those of Complete
	closed atomic.Bool
	given  atomic.Int64 // damaged files and sets that were set aside
}

// Terms returns the terms in force. Those of the embedded settings hold until Take.
func (s *Source) Terms() options.Terms {
	if t := s.terms.Load(); t != nil {
		return *t
	}
	return s.Options.Terms()
}

// Take puts other terms in force, and writes them into the home first.
func (s *Source) Take(t options.Terms) error {
	if _, err := s.With(t).Complete(); err != nil {
		return err
	}
	if err := s.Store.Remember(s.Settings(t)); err != nil {
		return err
	}
	s.terms.Store(&t)
	return nil
}

// Failure is an error once the Source was shut.
func (s *Source) Failure() error {
	if s.closed.Load() {
		return fmt.Errorf("publisher: %w", queuefs.ErrClosed)
	}
	return nil
}

// Shut makes everything fail from then on, and reports whether it did so before.
func (s *Source) Shut() (before bool) { return s.closed.Swap(true) }

// Closed reports whether the Source was shut.
func (s *Source) Closed() bool { return s.closed.Load() }

// Lost returns how many damaged files and sets were set aside since the start.
func (s *Source) Lost() int64 { return s.given.Load() }

func (s *Source) hasSpace(octets int64) bool { return s.HasSpace == nil || s.HasSpace(octets) }
