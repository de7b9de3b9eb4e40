package queuefs

import (
	"strings"
	"sync/atomic"
)

// recent has the events that were committed last, of all queues of a service
// together: whoever follows closely finds them here, and the journal, which is
// written around the page cache, is not read. There is one slot that an event
// may stand in, and it takes it from the one before. So there are 4096 at the
// most, in about 1.2 MB and what their media types and subjects take, however
// many queues there are; those of one queue in a row do not drive each other
// out. The zero value is empty. It is safe for concurrent use, and nobody waits.
type recent struct {
	slots [recentEvents]atomic.Pointer[recentEvent]
}

const recentEvents = 4096

// A recentEvent never changes.
type recentEvent struct {
	life  uint64 // of the queue
	event Event
}

// slot is where an event may stand. The odd factor spreads the queues.
func (m *recent) slot(life uint64, seq Seq) *atomic.Pointer[recentEvent] {
	return &m.slots[(uint64(seq)+life*2654435761)%recentEvents]
}

// put takes in an event.
func (m *recent) put(life uint64, e Event) {
	// The text that the media type was read from is not to stay for its sake.
	e.Payload.Type = strings.Clone(e.Payload.Type)
	m.slot(life, e.Seq).Store(&recentEvent{life, e})
}

// get returns an event if it is still there.
func (m *recent) get(life uint64, seq Seq) (Event, bool) {
	if k := m.slot(life, seq).Load(); k != nil && k.life == life && k.event.Seq == seq {
		return k.event, true
	}
	return Event{}, false
}

// clear forgets all events.
func (m *recent) clear() {
	for i := range m.slots {
		m.slots[i].Store(nil)
	}
}
