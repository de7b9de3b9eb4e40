package destination_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// replaced answers with a document of a Source in which text is another one.
func replaced(t *testing.T, f *testSource, path string, edit func(text string) string) {
	resp, err := http.Get(f.URL + path)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, edit(string(text)))
		return true
	})
}

// One entry that cannot be read is named, and stops nothing: all others are copied, the
// resource it may stand for stays, and it is read again until it is right.
func TestAnEntryThatCannotBeRead(t *testing.T) {
	for name, bad := range map[string]string{
		"no loc":          "<url><lastmod>2026-01-01T00:00:00Z</lastmod></url>",
		"two locs":        "<url><loc>@/c</loc><loc>@/d</loc></url>",
		"an element":      "<url><loc><b>@/c</b></loc></url>",
		"an ampersand":    "<url><loc>@/c?a=1&b=2</loc></url>",
		"an escape":       "<url><loc>@/c%zz</loc></url>",
		"not closed":      "<url><loc>@/c</url>",
		"behind a remark": "<!-- <url><loc>@/x</loc></url> --><url/>",
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			for _, r := range []string{"/a", "/b", "/c", "/d", "/e"} {
				f.Put(r, r)
			}
			f.Tick()
			p := newPlace(t, f)
			p.mustSync(nil)
			all := maps.Clone(p.files())
			replaced(t, f, "/set/resourcelist.xml", func(text string) string {
				before, rest, _ := strings.Cut(text, "<url><loc>"+f.URL+"/c</loc>")
				_, after, _ := strings.Cut(rest, "</url>")
				return before + strings.ReplaceAll(bad, "@", f.URL) + after
			})
			again := func(o *destination.Options) { o.Again, o.Delete = true, destination.DeleteAll }
			for range 2 {
				p.said = nil
				r := p.mustSync(again)
				if r.Skipped != 1 || r.Same != 4 || r.Failed+r.Deleted > 0 || r.InSync() || len(p.said) != 1 || !strings.Contains(p.said[0], "skipped: "+f.URL+"/set/resourcelist.xml: ") {
					t.Errorf("got %+v, said %q", r, p.said)
				}
				if got := p.files(); !maps.Equal(got, all) {
					t.Errorf("got %v", got)
				}
				again = nil // it is read again all the same
			}
			if a := p.audit(false); a.Clean() || a.Skipped != 1 || a.Same != 4 || a.Extra+a.Missing+a.Different > 0 || a.Unverified != 1 {
				t.Errorf("audit: got %+v", a)
			}
			fresh := newPlace(t, f)
			if r := fresh.mustSync(nil); r.Fetched != 4 || r.Skipped != 1 {
				t.Errorf("a fresh copy: got %+v", r)
			}
			f.Fault("/set/resourcelist.xml", nil)
			if r := fresh.mustSync(nil); r.Fetched != 1 || !r.InSync() {
				t.Errorf("when it is right: got %+v", r)
			}
			fresh.want()
			if r := fresh.mustSync(nil); r.Sets[0].Baseline {
				t.Errorf("then: got %+v", r)
			}
		})
	}
}

// Parts of an entry that are not needed count as absent where they cannot be read.
func TestPartsThatCannotBeReadCountAsAbsent(t *testing.T) {
	f := newSource(t)
	for _, r := range []string{"/a", "/b", "/c"} {
		f.Put(r, r)
	}
	f.Tick()
	replaced(t, f, "/set/resourcelist.xml", func(text string) string {
		text = strings.Replace(text, "00:00:01Z</lastmod>", "00:00:01+0000</lastmod>", 1)
		text = strings.Replace(text, ` length="2"`, ` length="1,234" hash="md5:x" change="moved"`, 1)
		return strings.Replace(text, "<url>", `<url><rs:ln rel="describedby"/>`, 1)
	})
	p := newPlace(t, f)
	if r := p.mustSync(nil); r.Fetched != 3 || !r.InSync() || len(p.said) != 1 || !strings.Contains(p.said[0], "counts as absent") {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	if got := p.files(); !maps.Equal(got, f.Resources) {
		t.Errorf("got %v", got)
	}
}

// A change that cannot be read is named by each run, and the others are applied.
func TestAChangeThatCannotBeRead(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Put("/b", "b")
	f.Remove("/a")
	f.Put("/c", "c")
	replaced(t, f, "/set/changelist.xml", func(text string) string {
		return strings.Replace(text, "<loc>"+f.URL+"/b</loc>", "", 1)
	})
	for range 2 {
		if r := p.mustSync(nil); r.Skipped != 1 || r.InSync() || r.Sets[0].Baseline {
			t.Errorf("got %+v", r)
		}
	}
	if got := p.files(); !maps.Equal(got, map[string]string{"/c": "c"}) {
		t.Errorf("got %v", got)
	}
	f.Fault("/set/changelist.xml", nil)
	if r := p.mustSync(nil); !r.InSync() {
		t.Errorf("when it is right: got %+v", r)
	}
	p.want()
}

// A deletion may be followed by a change that cannot be read, and is the return of the resource:
// it is removed only if the Source has it no more.
func TestADeletionBesideAChangeThatCannotBeRead(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Remove("/a")
	f.Remove("/b")
	f.Put("/a", "again")
	replaced(t, f, "/set/changelist.xml", func(text string) string {
		i := strings.LastIndex(text, "<loc>"+f.URL+"/a</loc>")
		return text[:i] + strings.Replace(text[i:], "<loc>"+f.URL+"/a</loc>", "", 1)
	})
	if r := p.mustSync(nil); r.Skipped != 1 || r.Deleted != 1 || !strings.Contains(fmt.Sprint(p.said), "/a is not removed") {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	if got := p.files(); !maps.Equal(got, map[string]string{"/a": "a"}) {
		t.Errorf("got %v", got)
	}
	f.Fault("/set/changelist.xml", nil)
	p.mustSync(nil)
	p.want()
}

// Of an index one list may be missing, empty, or no list: the others are copied, and followed.
func TestAListThatCannotBeRead(t *testing.T) {
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"missing": func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true },
		"failing": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true },
		"empty":   func(w http.ResponseWriter, _ *http.Request) bool { return true },
		"a page": func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, "<html><body/></html>")
			return true
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, "<urlset"); return true },
	} {
		for _, change := range []bool{false, true} {
			t.Run(fmt.Sprint(name, change), func(t *testing.T) {
				f := newSource(t)
				p := newPlace(t, f)
				day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
				f.From = day(1)
				f.Now = day(1)
				head := sitemap.Head{Capability: sitemap.ResourceList, At: day(1)}
				uri := "/set/resourcelist.xml"
				if change {
					p.mustSync(nil)
					head, uri = sitemap.Head{Capability: sitemap.ChangeList, From: day(1)}, "/set/changelist.xml"
				}
				var all []sitemap.Entry
				for n, list := range []string{"/one", "/two", "/three"} {
					path := list + "/r"
					f.Resources[path], f.Modified[path] = list, day(n+2)
					e := f.Entry(path)
					part := sitemap.Entry{Loc: f.URL + list, Length: -1, At: day(1)}
					of := head
					if change {
						e.Change, e.DateTime = sitemap.Created, day(n+2)
						part.At, part.From, part.Until = time.Time{}, day(n+1), day(n+2).Add(time.Hour)
						of.From, of.Until = part.From, part.Until
					}
					all = append(all, part)
					f.serveList(list, of, e)
				}
				good := f.Faults["/two"]
				f.serve(uri, func() (sitemap.Root, sitemap.Head, []sitemap.Entry) { return sitemap.SitemapIndex, head, all })
				f.Fault("/two", do)
				for range 2 {
					r := p.mustSync(func(o *destination.Options) { o.Delete = destination.DeleteAll })
					if r.Skipped != 1 || r.InSync() || !strings.Contains(fmt.Sprint(p.said), "skipped: "+f.URL+"/two") && !strings.Contains(fmt.Sprint(p.said), "/two: ") {
						t.Errorf("got %+v, said %q", r, p.said)
					}
					if got := p.files(); len(got) != 2 || got["/one/r"] == "" || got["/three/r"] == "" {
						t.Errorf("got %v", got)
					}
				}
				f.Fault("/two", good)
				if r := p.mustSync(nil); !r.InSync() || len(p.files()) != 3 {
					t.Errorf("when it is right: got %+v, %v, said %q", r, p.files(), p.said)
				}
			})
		}
	}
}

// twoSets makes a Source of two sets, of which the second one has a file.
func twoSets(t *testing.T) *testSource {
	f := newSource(t)
	f.Put("/a", "a")
	f.sets("set", "two")
	f.capabilities("two", "two", sitemap.ResourceList)
	f.serve("/two/resourcelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
		return sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: f.Now}, []sitemap.Entry{{Loc: f.URL + "/two/b", Length: 1}}
	})
	f.say("/two/b", "b")
	return f
}

// Of two sets one may be broken, in whatever way: the other one is copied, and no file of the
// broken one goes.
func TestASetThatCannotBeRead(t *testing.T) {
	gone := func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	page := func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, "<html/>"); return true }
	for _, path := range []string{"/two/capabilitylist.xml", "/two/resourcelist.xml"} {
		for name, do := range map[string]func(http.ResponseWriter, *http.Request) bool{"gone": gone, "page": page} {
			t.Run(path+" "+name, func(t *testing.T) {
				f := twoSets(t)
				p, fresh := newPlace(t, f), newPlace(t, f)
				p.mustSync(nil)
				good := f.Faults[path]
				f.Fault(path, do)
				f.Put("/a", "a2")
				r := p.mustSync(func(o *destination.Options) { o.Again, o.Delete = true, destination.DeleteAll })
				if got := p.files(); r.Skipped != 1 || r.InSync() || !maps.Equal(got, map[string]string{"/a": "a2", "/two/b": "b"}) {
					t.Errorf("got %+v, %v", r, got)
				}
				if a := p.audit(false); a.Clean() || a.Skipped != 1 || a.Same != 1 || a.Extra > 0 {
					t.Errorf("audit: got %+v", a)
				}
				if r := fresh.mustSync(nil); r.Skipped != 1 || len(fresh.files()) != 1 {
					t.Errorf("a fresh copy: got %+v", r)
				}
				f.Fault(path, good)
				for _, p := range []*place{p, fresh} {
					if r := p.mustSync(nil); !r.InSync() || len(p.files()) != 2 {
						t.Errorf("when it is right: got %+v, %v", r, p.files())
					}
				}
			})
		}
	}
}

// A copy is followed although one set cannot be read, before or meanwhile.
func TestFollowingWithASetThatCannotBeRead(t *testing.T) {
	for _, early := range []bool{true, false} {
		f := twoSets(t)
		broken := func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, "<html/>"); return true }
		if early {
			f.Fault("/two/resourcelist.xml", broken)
		}
		p := newPlace(t, f)
		c, err := p.open(nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended, synced := make(chan error, 1), make(chan struct{})
		go func() {
			ended <- c.Follow(ctx, time.Millisecond, func(*destination.Report) { close(synced) })
		}()
		select {
		case <-synced:
		case err := <-ended:
			t.Fatalf("early %v: ended: %v", early, err)
		}
		f.Fault("/two/resourcelist.xml", broken)
		f.Put("/a", "a2")
		for {
			if text, _ := os.ReadFile(filepath.Join(p.dir, "a")); string(text) == "a2" {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("early %v: ended: %v", early, err)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		<-ended
		c.Close()
	}
}

// A Resource List without a time, or with one that cannot be read, is followed by all changes
// listed.
func TestAListWithoutATime(t *testing.T) {
	for _, at := range []string{"", ` at="yesterday"`} {
		f := newSource(t)
		f.From = f.Tick()
		f.Put("/a", "a")
		f.Put("/b", "b")
		list := func() {
			f.Fault("/set/resourcelist.xml", nil)
			replaced(t, f, "/set/resourcelist.xml", func(text string) string {
				before, rest, _ := strings.Cut(text, ` at="`)
				_, after, _ := strings.Cut(rest, `"`)
				return before + at + after
			})
		}
		list()
		p := newPlace(t, f)
		if r := p.mustSync(nil); !r.InSync() || r.Fetched != 2 {
			t.Errorf("at %q: got %+v, said %q", at, r, p.said)
		}
		f.Put("/a", "a2")
		f.Remove("/b")
		if r := p.mustSync(nil); !r.InSync() || r.Sets[0].Baseline {
			t.Errorf("at %q: got %+v, said %q", at, r, p.said)
		}
		p.want()
		list()
		p.want()
	}
}

// A Source may list its changes from a time after that of its Resource List: all that is listed
// is copied, and the gap is named by each run.
func TestAGapBehindTheList(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	old, at := []sitemap.Entry{f.Entry("/a")}, f.Tick()
	f.serveList("/set/resourcelist.xml", sitemap.Head{Capability: sitemap.ResourceList, At: at}, old...)
	f.From = f.Tick()
	f.Put("/b", "b")
	p := newPlace(t, f)
	for range 2 {
		p.said = nil
		if r := p.mustSync(nil); r.Skipped != 1 || r.InSync() || !maps.Equal(p.files(), f.Resources) || !strings.Contains(fmt.Sprint(p.said), "skipped: set set: the Source no longer lists all changes") {
			t.Errorf("got %+v, %v, said %q", r, p.files(), p.said)
		}
	}
	f.Fault("/set/resourcelist.xml", nil)
	if r := p.mustSync(nil); !r.InSync() {
		t.Errorf("when it is right: got %+v, said %q", r, p.said)
	}
	p.want()
}
