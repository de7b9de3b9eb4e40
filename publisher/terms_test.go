package publisher_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/publisher/names"
)

// closedLists returns the files of closed Change Lists of a set.
func (s *source) closedLists(queue, set string) (names []string) {
	s.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "resourcesync", queue, set))
	must(s, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "changelist-") && strings.HasSuffix(e.Name(), ".gz") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Other terms hold at once, also for queues at rest, and are those of the home. Wrong ones
// change nothing.
func TestTermsAreTakenInOperation(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 4, Now: func() time.Time { return now }}, "a", "b")
	s.now = func() time.Time { return now }
	s.reopen()
	for _, id := range []string{"a", "b"} {
		s.submitN(s.queue(id), 17)
	}
	must(t, s.pub.Publish(context.Background()))
	s.reopen() // all rest
	now = now.Add(3 * time.Hour)
	s.ticks(3)
	lists := func() (n []int) {
		for _, id := range []string{"a", "b"} {
			for _, set := range []string{"pending", "replica"} {
				n = append(n, len(s.closedLists(id, set)))
			}
		}
		return n
	}
	before := lists()
	for _, n := range before {
		if n < 4 {
			t.Fatalf("%v closed lists before", before)
		}
	}
	keep := publisher.Terms{Period: time.Hour, Retention: publisher.Retention{Keep: time.Hour, KeepOctets: 1 << 40}}
	wrong := keep
	wrong.Keep = -1
	if err := s.pub.Take(wrong, names.Pace{}); err == nil {
		t.Error("a period below 0 is taken")
	}
	s.ticks(3)
	if got := lists(); got[0] != before[0] || got[3] != before[3] {
		t.Errorf("got %v lists after a refusal, want %v", got, before)
	}
	must(t, s.pub.Take(keep, names.Pace{}))
	s.ticks(3)
	for i, n := range lists() {
		if n != 1 { // the last closed one stays
			t.Errorf("set %d: %d closed lists, want 1", i, n)
		}
	}
	got, err := publisher.Published(s.dir)
	must(t, err)
	if got.Terms() != keep {
		t.Errorf("the home has %+v, want %+v", got.Terms(), keep)
	}
	// The open list closes by the new period.
	s.submitN(s.queue("a"), 1)
	s.ticks(1)
	old := s.closedLists("a", "replica")
	now = now.Add(61 * time.Minute)
	s.ticks(1)
	if got := s.closedLists("a", "replica"); len(got) != 1 || got[0] <= old[0] {
		t.Errorf("got the closed lists %v, want one after %v", got, old)
	}
}
