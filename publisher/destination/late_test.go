package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// dated adds a change with a time to the Change List, and makes it.
func dated(f *testSource, path, text string, at time.Time) {
	e := sitemap.Entry{Loc: f.URL + path, Change: sitemap.Deleted, DateTime: at, Length: -1}
	if delete(f.Resources, path); text != "" {
		f.Resources[path], f.Modified[path] = text, at
		e = f.Entry(path)
		e.Change, e.DateTime = sitemap.Updated, at
	}
	f.Changes = append(f.Changes, e)
}

// Changes of one resource within the same day, second, or instant of the list are all applied,
// in whatever runs.
func TestChangesWithTheSameTime(t *testing.T) {
	for name, at := range map[string]time.Time{
		"day":         time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		"second":      time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		"microsecond": time.Date(2026, 11, 20, 10, 0, 0, 1000, time.UTC),
	} {
		for _, texts := range [][]string{{"one", "two"}, {"one", ""}, {"", "two"}, {"one", "two", "one"}, {"", "one", "", "one"}} {
			t.Run(fmt.Sprintf("%s %q", name, texts), func(t *testing.T) {
				f := newSource(t)
				f.Put("/a", "former")
				f.Put("/b", "other")
				p := newPlace(t, f)
				p.mustSync(nil)
				for _, text := range texts {
					dated(f, "/a", text, at)
					p.mustSync(nil)
					if got := p.files()["/a"]; got != text {
						t.Errorf("got %q, want %q", got, text)
					}
					p.want()
				}
				if r := p.mustSync(nil); r.Fetched+r.Deleted+r.Failed > 0 || len(p.said) > 0 {
					t.Errorf("nothing new: got %+v, said %q", r, p.said)
				}
			})
		}
	}
}

// A list may be older than changes of its own day or second.
func TestChangesOfTheDayOfTheList(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "former")
	f.Now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	p := newPlace(t, f)
	p.mustSync(nil)
	dated(f, "/a", "changed in the afternoon", time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
	p.mustSync(nil)
	p.want()
}

// Without a digest an entry may stand for a second change in the same second: the resource is
// asked for once more when the list goes on.
func TestChangesWithoutADigestAreAskedForAgain(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "former")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	at := f.Tick()
	dated(f, "/a", "one", at)
	last := &f.Changes[len(f.Changes)-1]
	last.Hashes, last.Length, last.LastMod = nil, -1, time.Time{}
	p.mustSync(nil)
	f.Resources["/a"], f.Modified["/a"] = "two", f.Tick()
	f.Put("/b", "b2")
	p.mustSync(nil)
	if got := p.files(); got["/a"] != "two" || got["/b"] != "b2" {
		t.Errorf("got %v", got)
	}
}

// An entry that appears late, before or behind newer ones that were read, is noticed: whole
// lists are compared, and all is there.
func TestChangesListedLate(t *testing.T) {
	for name, put := range map[string]func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry{
		"in its place": func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry {
			return append([]sitemap.Entry{late}, all...)
		},
		"at the end": func(all []sitemap.Entry, late sitemap.Entry) []sitemap.Entry { return append(all, late) },
	} {
		for _, text := range []string{"", "late"} {
			for _, stale := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %q %v", name, text, stale), func(t *testing.T) {
					f := newSource(t)
					f.Put("/a", "a")
					f.Put("/b", "b")
					old, at := []sitemap.Entry{f.Entry("/a"), f.Entry("/b")}, f.Tick()
					if stale {
						f.Fault("/set/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
							f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: at}, old)
							return true
						})
					}
					p := newPlace(t, f)
					p.mustSync(nil)
					early := f.Tick()
					f.Put("/b", "b2")
					f.Put("/c", "c")
					p.mustSync(nil)
					dated(f, "/a", text, early)
					n := len(f.Changes) - 1
					f.Changes = put(f.Changes[:n:n], f.Changes[n])
					r := p.mustSync(nil)
					if len(p.said) != 1 || !strings.Contains(p.said[0], "/a at 2026-01-01T00:00:04Z was listed late") || !r.Sets[0].Baseline || !r.InSync() {
						t.Errorf("got %+v, said %q", r, p.said)
					}
					p.want()
					if r := p.mustSync(nil); r.Sets[0].Baseline || r.Fetched+r.Deleted > 0 || len(p.said) != 1 {
						t.Errorf("once more: got %+v, said %q", r, p.said)
					}
				})
			}
		}
	}
}

// Lists that run from the newest change to the oldest one, in a dialect that has the other order,
// lead to the last change all the same.
func TestListsWithTheNewestChangeFirst(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	for _, text := range []string{"one", "two", "three"} {
		dated(f, "/a", text, f.Tick())
		dated(f, "/b", text, f.Tick())
		n := len(f.Changes)
		f.Changes = append([]sitemap.Entry{f.Changes[n-1], f.Changes[n-2]}, f.Changes[:n-2]...)
		if text != "one" {
			p.mustSync(nil)
			p.want()
		}
	}
}

// Several lists of an index may grow, and a closed one may appear late.
func TestListsBesideOthers(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	f.Now = day(1)
	lists := map[string][]sitemap.Entry{"/one": nil, "/two": nil}
	late := false
	f.Fault("/set/changelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		all := []sitemap.Entry{{Loc: f.URL + "/one", From: day(1), Length: -1}, {Loc: f.URL + "/two", From: day(1), Length: -1}}
		if late {
			all = append([]sitemap.Entry{{Loc: f.URL + "/late", From: day(1), Until: day(3), Length: -1}}, all...)
		}
		f.Document(w, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: day(1)}, all)
		return true
	})
	for _, list := range []string{"/one", "/two", "/late"} {
		f.Fault(list, func(w http.ResponseWriter, _ *http.Request) bool {
			head := sitemap.Head{Capability: sitemap.ChangeList, From: day(1)}
			if list == "/late" {
				head.Until = day(3)
			}
			f.Document(w, sitemap.URLSet, head, lists[list])
			return true
		})
	}
	change := func(list, path, text string, at time.Time) {
		dated(f, path, text, at)
		lists[list] = append(lists[list], f.Changes[len(f.Changes)-1])
	}
	p.mustSync(nil)
	for n := 10; n < 13; n++ {
		change("/one", "/a", fmt.Sprint(n), day(n))
		change("/two", "/b", fmt.Sprint(n), day(n).Add(time.Hour))
		if r := p.mustSync(nil); r.Fetched != 2 || len(p.said) > 0 {
			t.Fatalf("got %+v, said %q", r, p.said)
		}
		p.want()
	}
	late = true
	change("/late", "/c", "c", day(2))
	if r := p.mustSync(nil); len(p.said) != 1 || !strings.Contains(p.said[0], "/c at 2026-11-02T00:00:00Z was listed late") {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

// A run that is cut off between changes of one time goes on with the rest of them.
func TestACutBetweenChangesOfOneTime(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for i := range 4500 { // more than two batches
		dated(f, fmt.Sprintf("/r%04d", i), "x", at)
	}
	full := false
	f.Fault("/r4000", func(w http.ResponseWriter, _ *http.Request) bool {
		if !full {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return !full
	})
	if r := p.mustSync(func(o *destination.Options) { o.HTTP.Tries = 1 }); r.Failed != 1 {
		t.Errorf("got %+v", r)
	}
	full = true
	if r := p.mustSync(nil); r.Failed != 0 || len(p.said) != 1 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}
