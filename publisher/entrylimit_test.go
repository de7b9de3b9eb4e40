package publisher_test

import (
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

// The Change List Index and the Change Dump have no more entries than the option
// allows, as all lists of changes, and archives have the rest.
func TestDocumentsOfChangesObeyTheLimitOfEntries(t *testing.T) {
	t.Parallel()
	const most = 5
	s := newSource(t, publisher.Options{MaxEntries: most, MaxPackage: 10}, "jobs")
	q := s.queue("jobs")
	m := newMirror(s, "jobs", "replica")
	m.baseline()
	dumped := newMirror(s, "jobs", "pending")
	dumped.baseline()
	for round := range 12 {
		activity(s, q, round)
		s.settle()
	}
	for _, set := range []string{"pending", "replica"} {
		for url, d := range everything(s, set) {
			if c := d.head.Capability; len(d.entries) > most && (c == sitemap.ChangeList || c == sitemap.ChangeDump) {
				t.Errorf("%s has %d entries", url, len(d.entries))
			}
		}
	}
	m.incremental(nil)
	m.compare(q)
	dumped.dumps()
	dumped.incremental(nil)
	dumped.compare(q)
}
