package queuefs

// A Guard keeps something of queues that the service does not know of, such as
// jobs that are not submitted yet.
type Guard interface {
	// MayRemove is asked before a queue is removed, by its identifier: when it
	// has no job, and again when nothing can come to it any more, but it can still
	// be found. While the guard holds something for the queue the error wraps
	// [ErrNotEmpty] and says what; then the queue stays. The guard must not
	// change the service meanwhile.
	MayRemove(queue string) error

	// Removed is told that the queue is gone: it was removed with its directory,
	// or other hands have taken it out of queues.txt and its directory stands.
	Removed(queue string)
}

// Guard makes g the guard of the queues; nil means there is none. What happens
// to queues.txt while the home is closed no guard is told of.
func (s *Service) Guard(g Guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guard = g
}

// guarded returns the error of a guard that holds something for the queue.
func (s *Service) guarded(id string) error {
	s.mu.RLock()
	g := s.guard
	s.mu.RUnlock()
	if g == nil {
		return nil
	}
	return g.MayRemove(id)
}

// tellGuard tells that the queue is gone.
func (s *Service) tellGuard(id string) {
	s.mu.RLock()
	g := s.guard
	s.mu.RUnlock()
	if g != nil {
		g.Removed(id)
	}
}

// Spare makes culling ask before a job goes: it stays as long as spares says
// so, and is asked for again the next time. nil spares none. spares may look at
// the job.
func (s *Service) Spare(spares func(queue string, id JobID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spares = spares
}
