package queuefs

// RecentEvents is how many events a service has in memory at the most.
const RecentEvents = recentEvents

// SlotSize is how many octets of memory a job takes.
const SlotSize = slotSize

// ForgetEvents empties the memory of events.
func (s *Service) ForgetEvents() { s.recent.clear() }

// ForgetEvent takes one event out of the memory.
func (q *Queue) ForgetEvent(seq Seq) {
	m := &q.svc.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	if part, at := recentSlot(q.life, seq); m.parts[part] != nil {
		m.parts[part][at] = recentEvent{}
	}
}

// Remembers tells whether an event is in memory.
func (q *Queue) Remembers(seq Seq) bool {
	_, ok := q.svc.recent.get(q.life, seq)
	return ok
}
