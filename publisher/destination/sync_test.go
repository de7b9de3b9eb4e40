package destination_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
)

// want compares the copy with the Source, and the audit with both.
func (p *place) want() {
	p.t.Helper()
	if got := p.files(); !maps.Equal(got, p.f.Resources) {
		p.t.Errorf("got %v, want %v", got, p.f.Resources)
	}
	if r := p.audit(false); !r.Clean() || r.InTransit > 0 || int(r.Same) != len(p.f.Resources) {
		p.t.Errorf("audit: got %+v", r)
	}
}

func TestBaselineAndChanges(t *testing.T) {
	for _, by := range []destination.By{destination.ByList, destination.ByDump} {
		t.Run(string(by), func(t *testing.T) {
			f := newSource(t)
			f.Dumped = true
			for i := range 30 {
				f.Put(fmt.Sprintf("/d%d/r%d", i%3, i), strings.Repeat("x", i))
			}
			p := newPlace(t, f)
			r := p.mustSync(func(o *destination.Options) { o.By = by })
			if r.Fetched != 30 || !r.Sets[0].Baseline || r.Sets[0].By != by {
				t.Errorf("got %+v", r)
			}
			p.want()
			if by == destination.ByDump && f.Asked["/d0/r0"] > 0 {
				t.Error("a resource of a package was asked for")
			}
			f.Put("/d0/r0", "new")
			f.Put("/new", "1")
			f.Put("/new", "2")
			f.Remove("/d1/r1")
			f.Put("/d2/r2", "again")
			f.Remove("/d2/r2")
			clear(f.Asked)
			if r := p.mustSync(nil); r.Fetched != 2 || r.Deleted != 2 || r.Sets[0].Baseline {
				t.Errorf("got %+v", r)
			}
			p.want()
			if f.Asked["/new"] != 1 || f.Asked["/d2/r2"] != 0 || f.Asked["/d0/r3"] != 0 || f.Asked["/set/resourcelist.xml"] != 1 {
				t.Errorf("asked for %v", f.Asked) // the list is the audit's
			}
			if r := p.mustSync(nil); r.Fetched+r.Deleted+r.Failed != 0 {
				t.Errorf("nothing new: got %+v", r)
			}
		})
	}
}

// A run that was cut off costs no request for what it had fetched.
func TestNothingIsFetchedTwice(t *testing.T) {
	f := newSource(t)
	for i := range 20 {
		f.Put(fmt.Sprintf("/r%02d", i), strings.Repeat("x", i))
	}
	f.Fault("/r15", func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	p := newPlace(t, f)
	r := p.mustSync(nil)
	if r.Failed != 1 || r.InSync() || r.Sets[0].Transit != 1 {
		t.Errorf("got %+v", r)
	}
	delete(f.Faults, "/r15")
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 1 || !r.InSync() {
		t.Errorf("got %+v", r)
	}
	p.want()
	for path, n := range f.Asked {
		if strings.HasPrefix(path, "/r") && path != "/r15" && n > 0 {
			t.Errorf("%s was asked for again", path)
		}
	}
}

func TestSourcesThatLie(t *testing.T) {
	answer := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, text); return true }
	}
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"other content": answer("jello"),
		"short":         answer("hell"),
		"long":          answer("hello!"),
		"endless":       func(w http.ResponseWriter, _ *http.Request) bool { w.Write(make([]byte, 1<<20)); return true },
		"cut": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "5")
			fmt.Fprint(w, "he")
			return true
		},
		"gone":    func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true },
		"refused": func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true },
		"redirect loop": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		},
		"to a file": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			return true
		},
		"connection off": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			f.Put("/good", "good")
			f.Put("/bad", "hello")
			f.Fault("/bad", do)
			p := newPlace(t, f)
			r, err := p.sync(nil)
			if err != nil || r.Failed != 1 || r.Fetched != 1 {
				t.Errorf("got %+v, %v", r, err)
			}
			if got := p.files(); !maps.Equal(got, map[string]string{"/good": "good"}) {
				t.Errorf("got %v", got)
			}
			if a := p.audit(false); a.Missing+a.InTransit != 1 || a.Same != 1 || a.Clean() {
				t.Errorf("audit: got %+v", a)
			}
			f.Put("/bad", "hello!") // explains it
			if a := p.audit(false); a.Missing+a.InTransit != 1 || !a.Clean() {
				t.Errorf("audit after a change: got %+v", a)
			}
			if len(p.said) == 0 || !strings.Contains(p.said[0], "/bad") {
				t.Errorf("said %q", p.said)
			}
		})
	}
}

// A resource that is gone, or another one, by the time it is asked for is explained by a
// later change.
func TestResourcesInTransit(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	f.Fault("/a", func(w http.ResponseWriter, r *http.Request) bool {
		delete(f.Faults, "/a")
		f.remove("/a")
		return false
	})
	f.Fault("/b", func(w http.ResponseWriter, r *http.Request) bool {
		delete(f.Faults, "/b")
		f.put("/b", "b2")
		return false
	})
	p := newPlace(t, f)
	if r := p.mustSync(nil); !r.InSync() || len(p.said) > 0 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

func TestGapsBeginAnew(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Remove("/a")
	f.Put("/c", "c")
	f.From = f.Tick()
	f.Put("/d", "d")
	r := p.mustSync(func(o *destination.Options) { o.Delete = destination.DeleteAll })
	if !r.Sets[0].Baseline || r.Fetched != 2 || len(p.said) != 1 || !strings.Contains(p.said[0], "begins anew") {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}

// All sets may have a gap at once, as at the successor of a lost original. One run begins them
// anew.
func TestGapsInManySets(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	sets, gap := []string{"set", "two", "three"}, false
	f.sets(sets...)
	for _, set := range sets[1:] {
		f.capabilities(set, set, sitemap.ResourceList, sitemap.ChangeList)
		at := "/" + set + "/"
		f.serve(at+"resourcelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
			all := []sitemap.Entry{{Loc: f.URL + at + "kept", Length: 4}}
			if !gap {
				all = append(all, sitemap.Entry{Loc: f.URL + at + "gone", Length: 4})
			}
			return sitemap.URLSet, f.head(sitemap.ResourceList), all
		})
		f.serve(at+"changelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
			return sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: f.From}, nil
		})
		f.say(at+"kept", "text")
		f.say(at+"gone", "text")
	}
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Lock(func() { gap, f.From = true, f.Tick() })
	if r := p.mustSync(nil); r.Deleted != 2 {
		t.Errorf("got %+v", r)
	}
	if got := p.files(); !maps.Equal(got, map[string]string{"/a": "a", "/two/kept": "text", "/three/kept": "text"}) {
		t.Errorf("got %v", got)
	}
}

// Each resource counts once in a report, as fetched or as the same, however often a run
// meets it: in lists, in changes after them, and in lists once more after a gap.
func TestEachResourceCountsOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		fetched, same int64
		change        func(f *testSource, o *destination.Options)
	}{
		"a baseline made again":    {0, 4, func(_ *testSource, o *destination.Options) { o.Again = true }},
		"a part of one made again": {0, 2, func(_ *testSource, o *destination.Options) { o.Again, o.Include = true, []string{"*c", "*d"} }},
		"and changes since the last run": {2, 3, func(f *testSource, o *destination.Options) {
			o.Again = true
			f.Put("/e", "e")
			f.Put("/a", "other")
		}},
		"a gap": {2, 3, func(f *testSource, _ *destination.Options) {
			f.Put("/e", "e")
			f.From = f.Tick()
			f.Put("/a", "other")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			for _, r := range []string{"/a", "/b", "/c", "/d"} {
				f.Put(r, r)
			}
			p := newPlace(t, f)
			p.mustSync(nil)
			f.Put("/d", "changed") // and known to the copy
			p.mustSync(nil)
			r := p.mustSync(func(o *destination.Options) { tt.change(f, o) })
			if r.Fetched != tt.fetched || r.Same != tt.same || r.Failed+r.Refused+r.Extra != 0 || !r.Sets[0].Baseline {
				t.Errorf("got %+v, want %d fetched, %d the same", r, tt.fetched, tt.same)
			}
			p.want()
		})
	}
}

// Octets of files count, be they to come or there.
func TestOctetsOfABaseline(t *testing.T) {
	f := newSource(t)
	for i := range 10 {
		f.Put(fmt.Sprint("/r", i), strings.Repeat("x", 100))
	}
	f.Tick() // no change follows the lists
	p := newPlace(t, f)
	for range 2 { // of files to come, and of files that are there
		c, err := p.open(func(o *destination.Options) { o.Again = true })
		must(t, err)
		if _, err := c.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := c.Counts(); n.Stored.Load()+n.Held.Load() != 1000 {
			t.Errorf("stored %d, held %d", n.Stored.Load(), n.Held.Load())
		}
		must(t, c.Close())
	}
}

// Deletions lost in a gap are deletions as any other; a run that is cut off changes
// nothing in this.
func TestDeletionsLostInAGap(t *testing.T) {
	for del, left := range map[destination.Deletions]bool{destination.DeleteTold: false, destination.DeleteAll: false, destination.DeleteNever: true} {
		for _, cut := range []bool{false, true} {
			f := newSource(t)
			f.Put("/a", "a")
			f.Put("/b", "b")
			p := newPlace(t, f)
			p.mustSync(nil)
			f.Remove("/a")
			f.Put("/c", "c")
			f.From = f.Tick()
			f.Put("/d", "d")
			policy := func(o *destination.Options) { o.Delete = del }
			if cut {
				p.cut("/d", policy)
			}
			p.mustSync(policy)
			if got := p.files(); (got["/a"] != "") != left || len(got) != 3+len(got["/a"]) || f.Asked["/b"] != 1 {
				t.Errorf("delete %s, cut %v: got %v", del, cut, got)
			}
		}
	}
}

// A flipped bit, a missing file and an extra one are named.
func TestAuditNamesEachDifference(t *testing.T) {
	f := newSource(t)
	for _, r := range []string{"/a", "/b", "/c/d"} {
		f.Put(r, r)
	}
	p := newPlace(t, f)
	p.mustSync(nil)
	p.want()
	must(t, os.WriteFile(filepath.Join(p.dir, "a"), []byte("/b"), 0o600))
	must(t, os.Chtimes(filepath.Join(p.dir, "a"), time.Time{}, f.Modified["/a"]))
	must(t, os.Remove(filepath.Join(p.dir, "b")))
	must(t, os.WriteFile(filepath.Join(p.dir, "x"), nil, 0o600))
	f.Put("/late", "1")
	r := p.audit(false)
	got := map[string]destination.What{}
	for _, d := range r.Differences {
		got[strings.TrimPrefix(d.URI, f.URL)] = d.What
	}
	want := map[string]destination.What{"/a": destination.IsDifferent, "/b": destination.IsMissing, "/x": destination.IsExtra, "/late": destination.InTransit}
	if !maps.Equal(got, want) || r.Clean() {
		t.Errorf("got %v, want %v; %+v", got, want, r)
	}
	p.mustSync(func(o *destination.Options) { o.Again, o.Deep, o.Delete = true, true, destination.DeleteAll })
	p.want()
}

func TestDryRunDoesNothing(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	must(t, os.Mkdir(p.dir, 0o700))
	p.mustSync(nil)
	f.Put("/b", "b")
	f.Remove("/a")
	if r := p.mustSync(func(o *destination.Options) { o.DryRun = true }); r.Fetched != 1 || r.Deleted != 1 || !r.DryRun {
		t.Errorf("got %+v", r)
	}
	if got := p.files(); !maps.Equal(got, map[string]string{"/a": "a"}) {
		t.Errorf("got %v", got)
	}
}

// A resource moved at the Source, and moved on before it is asked for, stays in its former
// place: should the Source be lost now, the copy has it once.
func TestMovedResourcesStayUntilTheyAreThere(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/other", "other")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Put("/b", "moved")
	f.Remove("/a")
	gone := true
	f.Fault("/b", func(w http.ResponseWriter, r *http.Request) bool {
		if gone {
			http.NotFound(w, r)
		}
		return gone
	})
	if r := p.mustSync(nil); r.Deleted != 0 || r.Sets[0].Transit != 1 {
		t.Errorf("moved on: got %+v", r)
	}
	if got := p.files(); got["/a"] != "a" || got["/b"] != "" {
		t.Errorf("got %v, want the former file", got)
	}
	if a := p.audit(true); a.Extra > 0 || a.Missing > 0 {
		t.Errorf("audit: got %+v", a)
	}
	gone = false
	f.Put("/b", "changed")
	f.Remove("/other")
	if r := p.mustSync(nil); r.Deleted != 2 || r.Sets[0].Transit != 0 {
		t.Errorf("there: got %+v", r)
	}
	p.want()
}

// Length and time of a file prove nothing of its contents: they are compared by digests, and
// a quick audit says that it did not.
func TestAuditSaysSameOfVerifiedContentsAlone(t *testing.T) {
	f := newSource(t)
	f.Put("/flipped", "text")
	f.Put("/whole", "text")
	f.Put("/without", "text")
	p := newPlace(t, f)
	p.mustSync(nil)
	must(t, os.WriteFile(filepath.Join(p.dir, "flipped"), []byte("texu"), 0o600))
	must(t, os.Chtimes(filepath.Join(p.dir, "flipped"), time.Time{}, f.Modified["/flipped"]))
	at := f.Tick()
	all := []sitemap.Entry{f.Entry("/flipped"), f.Entry("/whole"), f.Entry("/without")}
	all[2].Hashes = nil
	f.serveList("/set/resourcelist.xml", sitemap.Head{Capability: sitemap.ResourceList, At: at}, all...)
	if r := p.audit(false); r.Clean() || r.Quick || r.Same != 1 || r.Alike != 0 || r.Different != 1 || r.Unverified != 1 {
		t.Errorf("got %+v", r)
	}
	if r := p.audit(true); !r.Clean() || !r.Quick || r.Same != 0 || r.Alike != 3 {
		t.Errorf("quick: got %+v", r)
	}
}

// A Source has what its Resource List says, and all changes since: with these a copy is
// compared, however old the list is.
func TestAuditAppliesTheChangesSinceTheList(t *testing.T) {
	f := newSource(t)
	for _, r := range []string{"/kept", "/changed", "/gone"} {
		f.Put(r, r)
	}
	old := []sitemap.Entry{f.Entry("/kept"), f.Entry("/changed"), f.Entry("/gone")}
	at := f.Tick()
	f.serveList("/set/resourcelist.xml", sitemap.Head{Capability: sitemap.ResourceList, At: at}, old...)
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Put("/changed", "once more")
	f.Remove("/gone")
	f.Put("/new", "new")
	if r := p.audit(false); !r.Clean() || r.InTransit != 3 || r.Same != 1 {
		t.Errorf("a copy that is behind: got %+v", r)
	}
	p.mustSync(nil)
	p.want()
	fresh := newPlace(t, f)
	fresh.mustSync(nil)
	fresh.want()
	if err := os.WriteFile(filepath.Join(p.dir, "changed"), []byte("/changed"), 0o600); err != nil { // as in the list
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(p.dir, "gone"), []byte("/gone"), 0o600))
	must(t, os.Remove(filepath.Join(p.dir, "new")))
	if r := p.audit(false); r.Resources != 3 || r.Same != 1 || r.Different != 1 || r.Missing != 1 || r.Extra != 1 {
		t.Errorf("damaged: got %+v", r)
	}
	p.mustSync(func(o *destination.Options) { o.Again, o.Deep, o.Delete = true, true, destination.DeleteAll })
	p.want()
}

// A Source lists a resource at a private address that is not its own. It is not asked for;
// the rest is copied, and a later run that allows the address completes the copy.
func TestPrivateAddressesAreNotCopied(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
	defer inner.Close()
	f := newSource(t)
	f.Put("/a", "one")
	f.Put("/b", "secret")
	f.Lock(func() { f.Changes, f.From = nil, f.Now })
	f.Edit = func(path string, e *sitemap.Entry) {
		if e.Loc == f.URL+"/b" {
			e.Loc = inner.URL + "/b"
		}
	}
	p := newPlace(t, f)
	r := p.mustSync(nil)
	if said := strings.Join(p.said, "\n"); r.Fetched != 1 || r.Failed != 1 || !strings.Contains(said, "which is loopback; the pattern "+inner.Listener.Addr().String()+" would allow it") {
		t.Errorf("got %+v and %q", r, p.said)
	}
	r = p.mustSync(func(o *destination.Options) { o.HTTP.Addresses, _ = outbound.NewAddresses([]string{"127.0.0.1"}) })
	if r.Fetched != 1 || r.Failed != 0 {
		t.Errorf("with the address allowed: got %+v and %q", r, p.said)
	}
}

// A copy of what only credentials give is for its owner. A directory that was there keeps
// its mode, and the operator hears of it.
func TestACopyMadeWithCredentialsIsPrivate(t *testing.T) {
	credentials := func(o *destination.Options) { o.HTTP.Header = http.Header{"Authorization": {"Bearer x"}} }
	for _, tt := range []struct {
		name  string
		there os.FileMode // 0: no directory
		with  func(*destination.Options)
		want  os.FileMode
		told  bool
	}{
		{"without", 0, nil, 0o755, false},
		{"with", 0, credentials, 0o700, false},
		{"existing, open", 0o755, credentials, 0o755, true},
		{"existing, private", 0o700, credentials, 0o700, false},
	} {
		f := newSource(t)
		f.Put("/a", "one")
		p := newPlace(t, f)
		if tt.there != 0 {
			must(t, os.Mkdir(p.dir, tt.there))
		}
		p.mustSync(tt.with)
		info, err := os.Stat(p.dir)
		must(t, err)
		if got := info.Mode().Perm(); got != tt.want || len(p.said) > 0 != tt.told {
			t.Errorf("%s: got mode %o and %q, want %o", tt.name, got, p.said, tt.want)
		}
	}
}

// A successor gets sets that its original never had. They are copied, too, and the others are
// followed. Alone they prove nothing.
func TestSuccessorsHaveSetsOfTheirOwn(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	next := newSource(t)
	next.Put("/a", "a")
	next.sets("set", "new")
	next.capabilities("new", "new", sitemap.ResourceList)
	next.serveList("/new/resourcelist.xml", sitemap.Head{Capability: sitemap.ResourceList, At: next.Now}, sitemap.Entry{Loc: next.URL + "/b", Length: 1})
	next.say("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	follow := func(o *destination.Options) { o.URL = next.URL }
	if _, err := p.sync(follow); !errors.Is(err, destination.ErrOther) {
		t.Errorf("without links to the original: got %v", err)
	}
	next.Edit = func(path string, e *sitemap.Entry) {
		e.Links = append(e.Links, sitemap.Link{Rel: sitemap.RelVia, Href: f.URL + path})
	}
	p.mustSync(follow)
	if got := p.files(); !maps.Equal(got, map[string]string{"/a": "a", "/b": "b"}) {
		t.Errorf("got %v", got)
	}
}

// A Source moves to another host: its former URL redirects, or its documents name the other
// host. The copy follows it there, and has each file in its place; what was removed meanwhile
// is extra.
func TestASourceThatMovesKeepsItsFiles(t *testing.T) {
	allow, err := outbound.NewAddresses([]string{"127.0.0.1"})
	must(t, err)
	loopback := func(o *destination.Options) { o.HTTP.Addresses = allow }
	for _, how := range []string{"redirects", "documents"} {
		f, next := newSource(t), newSource(t)
		for _, name := range []string{"/a", "/b", "/gone"} {
			f.Put(name, "text of "+name)
		}
		p := newPlace(t, f)
		p.mustSync(loopback)
		for _, name := range []string{"/a", "/b"} {
			next.Put(name, "text of "+name)
			next.Modified[name] = f.Modified[name]
		}
		next.Lock(func() { next.Changes, next.From, next.Now = nil, f.From, f.Now })
		everywhere := []string{"/.well-known/resourcesync", "/set/capabilitylist.xml", "/set/resourcelist.xml", "/set/changelist.xml", "/a", "/b", "/gone"}
		if how == "documents" {
			everywhere = everywhere[:1]
		}
		for _, path := range everywhere {
			f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool {
				if how == "documents" {
					next.ServeHTTP(w, r)
				} else {
					http.Redirect(w, r, next.URL+path, http.StatusMovedPermanently)
				}
				return true
			})
		}
		if how == "documents" {
			f.Fault("/set/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true })
		}
		p.said = nil
		r := p.mustSync(loopback)
		if said := strings.Join(p.said, "\n"); r.Fetched != 0 || !strings.Contains(said, "has moved from "+f.URL+"/ to "+next.URL+"/") {
			t.Errorf("%s: got %+v and %q", how, r, said)
		}
		p.said = nil
		next.Put("/c", "new")
		if r = p.mustSync(loopback); r.Fetched != 1 || r.Deleted != 0 || len(p.said) > 0 {
			t.Errorf("%s, then: got %+v and %q", how, r, p.said)
		}
		c, err := p.open(loopback)
		must(t, err)
		a, err := c.Audit(t.Context())
		c.Close()
		if err != nil || a.Missing+a.Different != 0 || a.Extra != 1 {
			t.Errorf("%s: audit got %+v, %v", how, a, err)
		}
		p.mustSync(func(o *destination.Options) { loopback(o); o.Again, o.Delete = true, destination.DeleteAll })
		if got, want := p.files(), map[string]string{"/a": "text of /a", "/b": "text of /b", "/c": "new"}; !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", how, got, want)
		}
	}
}
