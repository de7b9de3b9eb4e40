package publisher_test

import (
	"context"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestPackagesArePutOffInABurst closes lists while the machine is busy.
func TestPackagesArePutOffInABurst(t *testing.T) {
	busy, later := true, time.Duration(0)
	s := newSource(t, publisher.Options{MaxEntries: 6, Busy: func() bool { return busy },
		Now: func() time.Time { return time.Now().Add(later) }}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "pending")
	packages := func() int { return len(m.capability(sitemap.ChangeDump).entries) }
	grow := func(what string, do func(), more bool) {
		t.Helper()
		s.submitN(q, 13)
		s.settle()
		before := packages()
		do()
		if after := packages(); (after > before) != more {
			t.Errorf("%s: %d packages, then %d", what, before, after)
		}
	}
	grow("busy", s.settle, false)
	grow("9 s later", func() { later += 9 * time.Second; s.settle() }, false)
	grow("20 s later", func() { later += 11 * time.Second; s.settle() }, true)
	grow("at once", func() { must(t, s.pub.Publish(context.Background())) }, true)
	grow("the clock was set back", func() { later -= time.Hour; s.settle() }, true)
	later += time.Hour
	grow("idle", func() { busy = false; s.settle() }, true)
	m.baseline()
	m.compare(q)
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// longBurst submits for ten minutes in which the machine is busy and a
// Resource Dump is due every minute.
func longBurst(t *testing.T, o publisher.Options) (m *mirror, now *time.Time) {
	at := time.Now()
	o.MaxEntries, o.DumpPeriod = 6, time.Minute
	o.Busy, o.Now = func() bool { return true }, func() time.Time { return at }
	s := newSource(t, o, "jobs")
	m = newMirror(s, "jobs", "pending")
	for range 120 {
		at = at.Add(5 * time.Second)
		s.submitN(s.queue("jobs"), 13)
		s.settle()
	}
	return m, &at
}

func TestABurstDoesNotStarveTheResourceDump(t *testing.T) {
	m, now := longBurst(t, publisher.Options{})
	if d := m.dump(); now.Sub(d.head.At) > 2*time.Minute {
		t.Errorf("the Resource Dump is %v old, with one due every minute", now.Sub(d.head.At))
	}
}

func TestABurstDoesNotKeepListsForEver(t *testing.T) {
	m, _ := longBurst(t, publisher.Options{Keep: time.Minute})
	if n := len(m.capability(sitemap.ChangeDump).entries); n > 100 {
		t.Errorf("%d packages are kept, of 10 minutes instead of one", n)
	}
}
