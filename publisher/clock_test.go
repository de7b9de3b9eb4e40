package publisher_test

import (
	"context"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// A clock that was a year ahead dates events; once it is put right, the next events
// come after these. Lists close in their period all the same.
func TestListsCloseInTheirPeriodAfterTheClockWasAhead(t *testing.T) {
	for _, restart := range []bool{false, true} {
		now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
		s := newSource(t, publisher.Options{Period: time.Hour, DumpPeriod: 24 * time.Hour, Now: func() time.Time { return now }}, "jobs")
		q := s.queue("jobs")
		s.submitN(q, 2)
		now = now.Add(61 * time.Second)
		s.settle() // the first list closes
		s.submitN(q, 2)
		s.settle()
		now = now.AddDate(-1, 0, 0) // put right
		if restart {
			s.reopen()
			q = s.queue("jobs")
		}
		dump := dumpAt(s, "pending")
		lists := func() int {
			return len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 2
		}
		for hour := range 6 {
			s.submitN(q, 1)
			must(t, s.pub.Tick(context.Background())) // as every second
			now = now.Add(59 * time.Minute)
			must(t, s.pub.Tick(context.Background()))
			if got := lists(); got != hour {
				t.Errorf("restart %v: %d lists are closed early in hour %d", restart, got, hour)
			}
			now = now.Add(2 * time.Minute)
			must(t, s.pub.Tick(context.Background()))
			if got := lists(); got != hour+1 {
				t.Errorf("restart %v: %d lists are closed after hour %d", restart, got, hour)
			}
		}
		s.settle()
		if dumpAt(s, "pending").Equal(dump) {
			t.Error("no dump is made while the last one is dated ahead")
		}
		m := newMirror(s, "jobs", "pending")
		m.dump()
		m.incremental(nil)
		m.compare(q)
	}
}
