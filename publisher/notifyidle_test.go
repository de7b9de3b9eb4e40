//go:build !race

// The race detector allocates.
package publisher_test

import (
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
)

// An idle Source is asked again and again.
func TestAskingAnIdleSourceCostsNothing(t *testing.T) {
	s := newSource(t, publisher.Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }}, "q")
	s.submitN(s.queue("q"), 3)
	n := s.notifier()
	for topic, want := range map[string]float64{
		s.topicOf("q", names.Pending, "change-notification"):    0,
		s.topicOf("q", names.Replica, "framework-notification"): 1, // the position, with that of the Source Description
	} {
		got := testing.AllocsPerRun(100, func() {
			_, err := n.Latest(topic)
			if err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want %v", topic, got, want)
		}
	}
}
