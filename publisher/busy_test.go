package publisher_test

import (
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// longBurst submits for ten minutes in which a Resource Dump is due every
// minute.
func longBurst(t *testing.T, o publisher.Options) (m *mirror, now *time.Time) {
	at := time.Now()
	o.MaxEntries, o.DumpPeriod = 6, time.Minute
	o.Now = func() time.Time { return at }
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
	t.Parallel()
	m, now := longBurst(t, publisher.Options{})
	if d := m.dump(); now.Sub(d.head.At) > 2*time.Minute {
		t.Errorf("the Resource Dump is %v old, with one due every minute", now.Sub(d.head.At))
	}
}

func TestABurstDoesNotKeepListsForEver(t *testing.T) {
	t.Parallel()
	m, _ := longBurst(t, publisher.Options{Retention: publisher.Retention{Keep: time.Minute}})
	if n := len(m.capability(sitemap.ChangeDump).entries); n > 100 {
		t.Errorf("%d packages are kept, of 10 minutes instead of one", n)
	}
}
