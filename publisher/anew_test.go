package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// With another base URI or version the history begins after the last event: in both
// directions, with closed lists and without.
func TestTheHistoryBeginsAnewByOneRule(t *testing.T) {
	t.Parallel()
	for _, max := range []int{0, 6} {
		for _, other := range []publisher.Options{{BaseURI: base, Dialect: sitemap.V10}, {BaseURI: "https://elsewhere.test/"}} {
			t.Run(fmt.Sprintf("%d %s %v", max, other.BaseURI, other.Dialect), func(t *testing.T) {
				s := newSource(t, publisher.Options{MaxEntries: max}, "jobs", "empty")
				activity(s, s.queue("jobs"), 0)
				must(t, s.pub.Tick(context.Background()))
				first := s.opts
				other.MaxEntries = max
				for round, o := range []publisher.Options{other, first, other} {
					s.close()
					s.refused(o)
					s.open() // as it was
					if s.changesOf("jobs", "pending"); len(s.problems) > 0 {
						t.Errorf("refused: problems %q", s.problems)
					}
					s.close()
					o.Anew = true
					s.opts = o
					s.open()
					q := s.queue("jobs")
					last := q.State().LastEvent
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						if index := m.capability(sitemap.ChangeList); len(index.entries) != 1 || !index.head.From.Equal(last) {
							t.Errorf("round %d, %s: %d lists since %v, want one since %v", round, set, len(index.entries), index.head.From, last)
						}
					}
					for _, set := range []string{"pending", "replica"} {
						m := newMirror(s, "jobs", set)
						m.baseline()
						m.compare(q)
						activity(s, q, round)
						m.incremental(nil)
						m.compare(q)
					}
					must(t, s.pub.Publish(context.Background()))
					s.crash()
					if len(s.problems) > 0 {
						t.Errorf("round %d: problems %q", round, s.problems)
					}
				}
			})
		}
	}
}

// refused opens the publisher with options that it must refuse.
func (s *source) refused(o publisher.Options) {
	s.Helper()
	svc, err := queuefs.Open(s.dir, queuefs.Options{Now: s.now, Segment: 2 << 20})
	must(s, err)
	pub, err := publisher.New(svc, o)
	var change *publisher.ChangeError
	if !errors.As(err, &change) {
		s.Fatalf("got %v, %v", pub, err)
	}
	must(s, svc.Close())
}

func TestNothingPublishedIsNoHistory(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	s.close()
	s.opts.BaseURI = "https://elsewhere.test"
	s.open()
	s.submitN(s.queue("jobs"), 3)
	if got := s.changesOf("jobs", "pending"); len(got) != 3 || len(s.problems) > 0 {
		t.Errorf("got %d changes, problems %q", len(got), s.problems)
	}
}
