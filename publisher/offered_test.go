package publisher_test

import (
	"context"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

func TestAChangeDumpWithoutPackagesIsNotOffered(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	activity(s, s.queue("jobs"), 0)
	offered := func() bool {
		for _, e := range s.document(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).entries {
			if e.Capability == sitemap.ChangeDump {
				return true
			}
		}
		return false
	}
	s.settle()
	tag := s.get(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).Header.Get("ETag")
	if offered() {
		t.Error("offered without a package")
	}
	must(t, s.pub.Publish(context.Background()))
	if !offered() || s.get(s.doc(s.queue("jobs"), "pending", "capabilitylist.xml")).Header.Get("ETag") == tag {
		t.Error("not offered with a package")
	}
}

// A closed list and a manifest are read years later: the job file of a pending job has moved
// by then.
func TestEntriesAreDescribedByWhatStays(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	activity(s, s.queue("jobs"), 0)
	must(t, s.pub.Publish(context.Background()))
	for _, set := range []string{"pending", "replica"} {
		n := 0
		for url, d := range everything(s, set) {
			if strings.HasSuffix(url, ".zip") {
				continue
			}
			for _, e := range d.entries {
				link := e.Link(sitemap.RelDescribedBy)
				if !strings.Contains(e.Loc, "/queues/jobs/payload/") || e.Change == sitemap.Deleted && link == "" {
					continue
				}
				n++
				if want := base + "/state/jobs/" + e.Loc[strings.LastIndexByte(e.Loc, '/')+1:]; link != want {
					t.Errorf("%s: %s is described by %s, want %s", url, e.Loc, link, want)
				}
			}
		}
		if n < 5 {
			t.Errorf("%s: only %d payloads", set, n)
		}
	}
}
