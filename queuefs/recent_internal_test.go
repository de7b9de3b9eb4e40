package queuefs

import (
	"testing"
	"unsafe"
)

// TestEventsInARowHaveSlotsOfTheirOwn fills the memory with events of one queue,
// and then with more of them.
func TestEventsInARowHaveSlotsOfTheirOwn(t *testing.T) {
	for _, life := range []uint64{1, 2, 3, recentEvents, 1 << 40, 1<<64 - 1} {
		var m recent
		const first = 1<<32 - 7
		for seq := Seq(first); seq < first+recentEvents; seq++ {
			m.put(life, Event{Seq: seq, Job: JobID(seq)})
		}
		for more := Seq(0); more < 3; more++ {
			for seq := Seq(first); seq < first+recentEvents+more; seq++ {
				if e, ok := m.get(life, seq); ok != (seq >= first+more) || ok && e != (Event{Seq: seq, Job: JobID(seq)}) {
					t.Fatalf("life %d, event %d of %d from %d on: got %+v, %v", life, seq, recentEvents+more, first, e, ok)
				}
			}
			m.put(life, Event{Seq: first + recentEvents + more, Job: JobID(first + recentEvents + more)})
		}
	}
}

// TestEventsInOneSlotAreToldApart puts events into the memory that may stand in
// the same slot, of one queue and of two.
func TestEventsInOneSlotAreToldApart(t *testing.T) {
	var m recent
	for _, c := range []struct {
		life uint64
		seq  Seq
	}{{1, 5}, {1, 5 + recentEvents}, {1 + recentEvents, 5}, {1, 5}} {
		part, at := recentSlot(c.life, c.seq)
		if p, a := recentSlot(1, 5); part != p || at != a {
			t.Fatalf("life %d, event %d stands in another slot", c.life, c.seq)
		}
		if e, ok := m.get(c.life, c.seq); ok {
			t.Errorf("life %d, event %d: got %+v, which is another", c.life, c.seq, e)
		}
		m.put(c.life, Event{Seq: c.seq, Job: JobID(c.life)})
		if e, ok := m.get(c.life, c.seq); !ok || e.Seq != c.seq || e.Job != JobID(c.life) {
			t.Errorf("life %d, event %d: got %+v, %v", c.life, c.seq, e, ok)
		}
	}
}

// A media type is as a rule a part of the job file that it was read from.
func TestAnEventInMemoryKeepsNoJobFile(t *testing.T) {
	file := "mediaType: text/plain\n"
	typ := file[11:21]
	var m recent
	m.put(1, Event{Seq: 1, Payload: Facts{Type: typ}})
	e, _ := m.get(1, 1)
	if e.Payload.Type != typ || unsafe.StringData(e.Payload.Type) == unsafe.StringData(typ) {
		t.Errorf("got %q, want text of its own", e.Payload.Type)
	}
}
