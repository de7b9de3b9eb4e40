package queuefs

import (
	"strings"
	"sync"
)

// recent has the events that were committed last, of all queues of a service
// together: whoever follows closely finds them here, and the journal, which is
// written around the page cache, is not read. There is one slot that an event
// may stand in, and it takes it from the one before. So there are 4096 at the
// most, in about 1.2 MB and what their media types and subjects take, however
// many queues there are; those of one queue in a row do not drive each other
// out. The slots are made in parts, as they are wanted. The zero value is empty.
// It is safe for concurrent use.
type recent struct {
	mu    sync.RWMutex
	parts [recentEvents / recentPart]*[recentPart]recentEvent
}

const (
	recentEvents = 4096
	recentPart   = 64
)

// A recentEvent of life 0 is none.
type recentEvent struct {
	life  uint64 // of the queue
	event Event
}

// recentSlot is where an event may stand. The factor spreads the queues.
func recentSlot(life uint64, seq Seq) (part, at int) {
	n := (uint64(seq) + life*2654435761) % recentEvents
	return int(n / recentPart), int(n % recentPart)
}

// put takes in an event.
func (m *recent) put(life uint64, e Event) {
	part, at := recentSlot(life, e.Seq)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts[part] == nil {
		m.parts[part] = new([recentPart]recentEvent)
	}
	slot := &m.parts[part][at]
	if slot.event.Payload.Type == e.Payload.Type {
		e.Payload.Type = slot.event.Payload.Type
	} else {
		// The text that it was read from is not to stay for its sake.
		e.Payload.Type = strings.Clone(e.Payload.Type)
	}
	*slot = recentEvent{life, e}
}

// get returns an event if it is still there.
func (m *recent) get(life uint64, seq Seq) (Event, bool) {
	part, at := recentSlot(life, seq)
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p := m.parts[part]; p != nil && p[at].life == life && p[at].event.Seq == seq {
		return p[at].event, true
	}
	return Event{}, false
}

// clear forgets all events.
func (m *recent) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.parts[:])
}
