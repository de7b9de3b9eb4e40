package publisher_test

import (
	"context"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestPositionsAreThoseOfALookAnew compares, through everything that makes
// documents others, what a Notifier says with what one says that has seen
// nothing yet.
func TestPositionsAreThoseOfALookAnew(t *testing.T) {
	for _, dialect := range []sitemap.Dialect{sitemap.V11, sitemap.V09} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		s := newSource(t, publisher.Options{Dialect: dialect, MaxEntries: 8, Period: time.Hour, Retention: publisher.Retention{Current: 3 * time.Hour, Keep: 5 * time.Hour},
			Now: func() time.Time { return now }}, "a", "b")
		n := s.notifier()
		positions := map[string]bool{}
		check := func(what string) {
			t.Helper()
			now = now.Add(time.Second)
			anew := s.notifier()
			for _, topic := range n.Topics() {
				got, err := n.Latest(topic)
				must(t, err)
				want, err := anew.Latest(topic)
				must(t, err)
				if got != want {
					t.Errorf("%v: %s: %s is at %s, want %s", dialect, what, topic, got, want)
				}
				positions[topic+got] = true
				c, err := n.Content(topic, "")
				must(t, err)
				if !c.More && c.Upto != got {
					t.Errorf("%v: %s: %s has content up to %s, want %s", dialect, what, topic, c.Upto, got)
				}
			}
		}
		for round := range 4 {
			check("idle")
			s.submitN(s.queue("a"), 1)
			check("submission")
			s.describe(s.queue("a"), time.Duration(round).String())
			check("description")
			activity(s, s.queue("b"), round)
			check("activity")
			s.settle()
			check("packages")
			must(t, s.pub.Publish(context.Background()))
			check("dump")
			now = now.Add(time.Hour)
			check("an hour later")
			s.settle()
			check("period over")
			now = now.Add(2 * time.Hour)
			check("no longer current")
			s.settle()
			check("no longer kept")
			s.queue(string(rune('c' + round)))
			check("new queue")
		}
		must(t, s.svc.RemoveQueue(context.Background(), "c"))
		s.queue("c")
		check("removed and made again")
		if len(positions) < 100 {
			t.Errorf("got %d positions", len(positions))
		}
	}
}
