package publisher_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestASourceSpeaksOneDialect publishes in the older versions: every document
// is of the version, and a mirror that follows gets the true state.
func TestASourceSpeaksOneDialect(t *testing.T) {
	t.Parallel()
	for _, d := range []sitemap.Dialect{sitemap.V10, sitemap.V09} {
		t.Run(d.String(), func(t *testing.T) {
			now := time.Now()
			s := newSource(t, publisher.Options{Dialect: d, MaxEntries: 7, Retention: publisher.Retention{Current: time.Hour}, Now: func() time.Time { return now }}, "jobs")
			s.now = func() time.Time { return now }
			s.reopen()
			q := s.queue("jobs")
			follower := map[string]*mirror{}
			for _, set := range []string{"pending", "replica"} {
				follower[set] = newMirror(s, "jobs", set)
				follower[set].baseline()
			}
			for round := range 4 {
				now = now.Add(40 * time.Minute)
				activity(s, q, round)
				s.settleFully()
				if round == 2 {
					s.crash()
					q = s.queue("jobs")
				}
				for _, m := range follower {
					m.source = s
					m.incremental(nil)
					m.compare(q)
				}
			}
			kinds := map[sitemap.Capability]bool{}
			for set, m := range follower {
				for url, doc := range everything(s, set) {
					if strings.HasSuffix(url, ".zip") {
						continue
					}
					kinds[doc.head.Capability] = true
					text := string(doc.octets)
					if strings.Contains(text, "datetime=") {
						t.Errorf("%s has datetime", url)
					}
					if d != sitemap.V09 {
						continue
					}
					for _, word := range []string{" at=", "completed=", `rel="index"`, `rel="contents"`, `"description"`} {
						if strings.Contains(text, word) {
							t.Errorf("%s has %s", url, word)
						}
					}
					if strings.Contains(text, `from="`) && doc.head.Capability == sitemap.ChangeList && doc.head.Until.IsZero() {
						t.Errorf("%s has no until", url)
					}
				}
				if d == sitemap.V09 {
					continue // entries of dumps do not say of what time they are
				}
				m.dump()
				m.compare(q)
			}
			if len(kinds) < 8 {
				t.Errorf("only documents of %v", kinds)
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
			// Another version begins anew.
			s.close()
			s.opts.Dialect, s.opts.Anew = sitemap.V11, true
			s.open()
			must(t, s.pub.Publish(context.Background()))
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			activity(s, s.queue("jobs"), 1)
			m.incremental(nil)
			m.compare(s.queue("jobs"))
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}
