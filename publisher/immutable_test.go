package publisher_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

// A cache may keep an immutable document for a year, so its URI must never stand for
// other octets: not in another version of ResourceSync, not with other limits, and
// not when everything was made anew.
func TestAnImmutableURIStandsForTheSameOctets(t *testing.T) {
	t.Parallel()
	seen := map[string][]byte{}
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
	}
	look := func(what string) {
		t.Helper()
		must(t, s.pub.Publish(context.Background()))
		n := 0
		for _, set := range []string{"pending", "replica"} {
			for url, d := range everything(s, set) {
				if !strings.Contains(s.get(url).Header.Get("Cache-Control"), "immutable") {
					continue
				}
				if n++; seen[url] == nil {
					seen[url] = d.octets
				} else if !bytes.Equal(seen[url], d.octets) {
					t.Errorf("%s: %s has other octets", what, url)
				}
			}
		}
		if n < 8 {
			t.Errorf("%s: only %d immutable documents", what, n)
		}
	}
	look("at first")
	for _, o := range []publisher.Options{{MaxEntries: 12, Dialect: sitemap.V10}, {MaxEntries: 12, Dialect: sitemap.V09}, {MaxEntries: 12, MaxPackage: 20}, {MaxEntries: 30}, {MaxEntries: 12}} {
		o.BaseURI = base
		s.opts = o
		s.rebuild()
		look(o.Dialect.String())
	}
}

var digest = regexp.MustCompile(`-[0-9a-f]{8}(-manifest)?(\.\w+)$`)

// aliasOf returns a name without its digest.
func aliasOf(name string) string { return digest.ReplaceAllString(name, "$1$2") }

// A name without the digest is an alias that is asked for again each time.
func TestNamesWithoutDigestAreNotImmutable(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
	}
	must(t, s.pub.Publish(context.Background()))
	n := 0
	for url, d := range everything(s, "replica") {
		alias := aliasOf(url)
		if alias == url {
			continue
		}
		n++
		resp := s.get(alias)
		if got := read(t, resp); resp.StatusCode != 200 || !bytes.Equal(got, d.octets) || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %s, %q, %d octets of %d", alias, resp.Status, resp.Header.Get("Cache-Control"), len(got), len(d.octets))
		}
		// Of another history.
		other := digest.ReplaceAllString(url, "-00000000$1$2")
		if resp := s.get(other); resp.StatusCode != 410 {
			t.Errorf("%s: %s", other, resp.Status)
		}
	}
	if n < 8 {
		t.Errorf("only %d names with a digest", n)
	}
}

func TestEveryImmutableNameHasADigest(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 12}, "jobs")
	for round := range 6 {
		activity(s, s.queue("jobs"), round)
		must(t, s.pub.Publish(context.Background()))
	}
	kinds := map[string]bool{}
	for _, set := range []string{"pending", "replica"} {
		for url := range everything(s, set) {
			named := digest.MatchString(url)
			if got := strings.Contains(s.get(url).Header.Get("Cache-Control"), "immutable"); got != named {
				t.Errorf("%s: immutable %v", url, got)
			}
			if named {
				kinds[strings.SplitAfter(url[strings.LastIndex(url, "/")+1:], "-")[0]+url[len(url)-4:]] = true
			}
		}
	}
	want := []string{"changedump-.xml", "changedump-.zip", "changelist-.xml", "resourcedump-.xml", "resourcedump-.zip", "resourcelist-.xml"}
	for _, k := range want {
		if !kinds[k] {
			t.Errorf("no %s among %v", k, kinds)
		}
	}
}
