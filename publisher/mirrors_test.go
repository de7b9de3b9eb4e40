package publisher_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

func TestResourcesAreListedWithTheirCopies(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 9, Mirrors: []string{"https://a.test/copy/", "http://b.test"}, Via: "https://first.test/x/"}, "jobs")
	q := s.queue("jobs")
	activity(s, q, 0)
	must(t, s.pub.Publish(context.Background()))
	looked := 0
	for _, set := range []string{"pending", "replica"} {
		for url, d := range everything(s, set) {
			for _, e := range d.entries {
				path, ok := strings.CutPrefix(e.Loc, base+"/queues/")
				if !ok {
					continue
				}
				var got, want []sitemap.Link
				for _, l := range e.Links {
					if l.Rel == sitemap.RelDuplicate || l.Rel == sitemap.RelVia {
						got = append(got, l)
					}
				}
				if e.Change != sitemap.Deleted {
					want = []sitemap.Link{
						{Rel: sitemap.RelDuplicate, Href: "https://a.test/copy/queues/" + path, Pri: 1},
						{Rel: sitemap.RelDuplicate, Href: "http://b.test/queues/" + path, Pri: 2},
						{Rel: sitemap.RelVia, Href: "https://first.test/x/queues/" + path},
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s has %+v, want %+v", url, e.Loc, got, want)
				}
				looked++
			}
		}
	}
	if looked < 50 {
		t.Errorf("%d entries", looked)
	}
	m := newMirror(s, "jobs", "replica")
	m.dump()
	m.compare(q)
}

func TestMirrorsThatAreNoneAreRefused(t *testing.T) {
	s := newSource(t, publisher.Options{})
	for _, bad := range [][]string{
		{""}, {"/x"}, {"ftp://x/"}, {"http://x/?q"}, {"http://x/#f"}, {"http://u@x/"}, {"http://x/&y"},
		{"http://x/a b"}, {"http://x/ "}, {" http://x/"}, {"http://x/\t"}, {"http://x/\n"}, {"http://x/\x7f"}, {"http://x/\u0085"}, {"http://x/\u00a0"},
		{"http://x/é"}, {"http://x/\xff"}, {"http://x/a\\b"}, {"http://x/{a}"}, {"http://x/%zz"},
		{"http://x/" + strings.Repeat("y", 512)}, {"http://a", "http://b", "http://c", "http://d", "http://e"},
	} {
		if p, err := publisher.New(s.svc, publisher.Options{BaseURI: base, Mirrors: bad}); err == nil {
			t.Errorf("taken: %.60q", bad)
			must(t, p.Close())
		}
		if p, err := publisher.New(s.svc, publisher.Options{BaseURI: base, Via: bad[0]}); err == nil && len(bad) == 1 && bad[0] != "" {
			t.Errorf("taken as via: %.60q", bad)
			must(t, p.Close())
		} else if err == nil {
			must(t, p.Close())
		}
	}
}
