package publisher

import (
	"testing"
	"time"
)

// TestLateWorkTakesMoreOfABurst looks at how long a Tick of a busy machine works.
func TestLateWorkTakesMoreOfABurst(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for late, want := range map[time.Duration]time.Duration{
		-time.Hour:       20 * time.Millisecond, // the clock was set back
		0:                20 * time.Millisecond,
		time.Minute:      40 * time.Millisecond,
		4 * time.Minute:  100 * time.Millisecond,
		1000 * time.Hour: 100 * time.Millisecond,
	} {
		w := task{since: at}
		if got := w.slice(at.Add(late)); got != want {
			t.Errorf("%v late: %v, want %v", late, got, want)
		}
	}
}
