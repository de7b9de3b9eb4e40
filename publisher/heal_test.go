package publisher_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// homeWithPackages has closed lists with packages, and jobs of all kinds of events. The
// journal has their events no more.
func homeWithPackages(t testing.TB, o publisher.Options) *source {
	s := newSource(t, o, "jobs", "other")
	q := s.queue("jobs")
	for round := range 4 {
		activity(s, q, round)
		withResults(s, q, "a result", strings.Repeat("a longer one ", 200))
	}
	must(t, s.pub.Publish(context.Background()))
	s.submitN(q, 2)
	s.settle()
	s.releaseBy("jobs", "other")
	s.close()
	return s
}

// filesLike returns the files of a set of a pattern, in order.
func filesLike(s *source, set, pattern string) []string {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", set, pattern))
	must(s, err)
	slices.Sort(all)
	return all
}

// healed lets the publisher find all damage, and compares what is published then.
func healed(t *testing.T, s *source, want map[string]string) {
	t.Helper()
	must(t, s.pub.Verify(context.Background()))
	for range 3 {
		must(t, s.pub.Tick(context.Background()))
	}
	now := s.documentsNow()
	for url, octets := range want {
		if now[url] != octets {
			t.Errorf("%s is not as it was: %d octets, was %d", url, len(now[url]), len(octets))
		}
	}
	if lost := s.pub.Care().Lost; lost != 0 || len(s.problems) == 0 {
		t.Errorf("%d files were given up: %q", lost, s.problems)
	}
}

// Damaged closed lists, of events that the journal
// has no more, are made again from the manifests of their packages.
func TestClosedListsAreMadeAgainFromTheirPackages(t *testing.T) {
	t.Parallel()
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		template := homeWithPackages(t, publisher.Options{Dialect: d, MaxEntries: 40, Mirrors: []string{"http://mirror.test/a"}})
		for _, set := range []string{"pending", "replica"} {
			for name, damage := range map[string]func(name string){
				"flipped": func(name string) { edit(t, name, func(b []byte) []byte { b[len(b)/2] ^= 4; return b }) },
				"gone":    func(name string) { must(t, os.Remove(name)) },
			} {
				if !long.On() && (name == "gone") != (set == "pending") {
					continue
				}
				s := template.copied(t)
				want := s.documentsNow()
				lists := filesLike(s, set, "changelist-*.gz")
				if len(lists) < 2 {
					t.Fatalf("%d lists", len(lists))
				}
				for _, name := range lists {
					damage(name)
				}
				healed(t, s, want)
			}
		}
	}
}

// Damaged packages of the replica, of events that the journal has no more: no other place
// has the files in them, since job files have changed. A damaged header, manifest or
// directory costs nothing. Without a file a package is given up, and told; others stay.
func TestPackagesAreMadeAgainOrGivenUp(t *testing.T) {
	t.Parallel()
	template := homeWithPackages(t, publisher.Options{MaxEntries: 40})
	flip := func(mark string, at int) func(b []byte) []byte {
		return func(b []byte) []byte { b[bytes.Index(b, []byte(mark))+at] ^= 4; return b }
	}
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		heals  bool
	}{
		{"first header", flip("PK\x03\x04", 0), true},
		{"a header", flip("resources/000003", -8), true},
		{"number", flip("resources/000004", 15), true},
		{"manifest", flip("manifest.xml", 100), true},
		{"directory", flip("PK\x01\x02", 12), true},
		{"offset", flip("PK\x05\x06", 16), true},
		{"last octet", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, true},
		{"cut", func(b []byte) []byte { return b[:len(b)-10] }, true},
		{"text", flip("resources/000002", 40), false},
		{"halved", func(b []byte) []byte { return b[:len(b)/2] }, false},
		{"gone", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := template.copied(t)
			want := s.documentsNow()
			name := filesLike(s, "replica", "changedump-*.zip")[1]
			if c.damage == nil {
				must(t, os.Remove(name))
			} else {
				edit(t, name, c.damage)
			}
			if c.heals {
				healed(t, s, want)
				return
			}
			s.afterDamage(want, name, false)
			if lost := s.pub.Care().Lost; lost != 0 {
				t.Errorf("%d files are given up again after it was told", lost)
			}
			first, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "changedump-"), ".zip")
			for _, p := range s.document(s.doc(s.queue("jobs"), "replica", "changedump.xml")).entries {
				if strings.Contains(p.Loc, first) {
					t.Errorf("%s is named", p.Loc)
				}
			}
		})
	}
}
