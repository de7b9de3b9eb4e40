package hub_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/publisher/hub"
)

// A disk is full, or it is not.
type disk struct{ full atomic.Bool }

func (d *disk) fault(_ string, do func() error) error {
	if d.full.Load() {
		return syscall.ENOSPC
	}
	return do()
}

// tickFull lets the hub do what is due although it can write nothing.
func (h *house) tickFull() {
	h.Helper()
	h.clock.advance(time.Minute)
	if err := h.hub.Tick(ctx); !errors.Is(err, syscall.ENOSPC) {
		h.Errorf("got %v, want no space", err)
	}
	h.hub.Wait()
}

// As long as it cannot be written down that somebody is to be told of a topic,
// nothing is told. A crash, or room, lets it begin where it was to.
func TestNothingIsToldThatIsNotWrittenDown(t *testing.T) {
	const later = "http://source.test/later.xml"
	var d disk
	j, r, asks := newJournal(topic), newReceiver(t), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL, Payload: true}}}, d.fault)
	h.tick()
	d.full.Store(true)
	j.add(later, "a", "b")
	if status, _ := h.ask("subscribe", topic, asks.URL); status != 503 {
		t.Errorf("got %d for what cannot be kept, want 503", status)
	}
	h.tickFull()
	h.tickFull()
	want(t, r.bodies(), nil)
	want(t, asks.intents(), nil)

	crashed := h.killed()
	crashed.later(time.Minute)
	crashed.later(time.Minute)
	want(t, r.bodies(), []string{"a\nb"})
	crashed.close()

	j.add(later, "c", "d")
	d.full.Store(false)
	h.later(time.Minute)
	h.later(time.Minute)
	want(t, r.bodies(), []string{"a\nb\nc", "d"})
	want(t, asks.intents(), []string{"subscribe"})
}

// A full disk keeps no hub from being opened: what is new from then on is told
// when there is room.
func TestAHubIsOpenedOnAFullDisk(t *testing.T) {
	var d disk
	d.full.Store(true)
	j, r := newJournal(topic), newReceiver(t)
	j.add(topic, "before")
	h := newHouse(t, hub.Options{Source: j, External: []hub.External{{URL: r.URL, Payload: true}}}, d.fault)
	if got := h.reported(); !strings.Contains(got, "no space left on device") {
		t.Errorf("got reports %q", got)
	}
	j.add(topic, "1")
	h.tickFull()
	want(t, r.bodies(), nil)
	d.full.Store(false)
	h.later(time.Minute)
	want(t, r.bodies(), []string{"1"})
}

// A Report may ask the hub how its subscriptions fare.
func TestAReportHoldsUpNobody(t *testing.T) {
	j, r := newJournal(topic), newReceiver(t)
	h := newHouse(t, hub.Options{Source: j, GiveUp: time.Hour}, nil)
	h.subscribe(topic, r)
	asked := 0
	h.told = func() { asked = len(h.hub.States()) }
	r.answers(func(int) (int, string) { return 500, "" })
	j.add(topic, "1")
	h.tick()
	h.later(2 * time.Hour)
	if got := h.reported(); asked != 1 || !strings.Contains(got, "has failed for 1h0m0s and is dropped") {
		t.Errorf("got reports %q of %d subscriptions", got, asked)
	}
}
