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
	failed atomic.Pointer[error]         // why nothing is published now
	closed atomic.Bool
	damage atomic.Bool  // some set has a damaged file
	healed atomic.Int64 // files made again
	given  atomic.Int64 // files given up
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

// Failure returns why nothing is published now; nil while it is.
func (s *Source) Failure() error {
	if s.closed.Load() {
		return fmt.Errorf("publisher: %w", queuefs.ErrClosed)
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail records that written data may not be on stable storage. No list is
// closed and no event released until Renewed.
func (s *Source) fail(err error) error {
	s.failed.CompareAndSwap(nil, &err)
	return err
}

// Renewed ends a failure, after all sets were renewed.
func (s *Source) Renewed() { s.failed.Store(nil) }

// Shut makes everything fail from then on, and reports whether it did so before.
func (s *Source) Shut() (before bool) { return s.closed.Swap(true) }

// Closed reports whether the Source was shut.
func (s *Source) Closed() bool { return s.closed.Load() }

// Damaged reports whether some set has damaged files to heal.
func (s *Source) Damaged() bool { return s.damage.Load() }

// TakeDamage is Damaged, and false from then on until damage is noted again.
func (s *Source) TakeDamage() bool { return s.damage.Swap(false) }

// Healed returns how many damaged files were made again since the start, and how many
// were set aside for good.
func (s *Source) Healed() (again, lost int64) { return s.healed.Load(), s.given.Load() }

func (s *Source) hasSpace(octets int64) bool { return s.HasSpace == nil || s.HasSpace(octets) }
