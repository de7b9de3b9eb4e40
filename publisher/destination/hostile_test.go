package destination_test

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/sitemap"
)

// Resources made by changes after the lists were read are no extra files.
func TestDeleteAllKeepsWhatChangesMade(t *testing.T) {
	for _, by := range []destination.By{destination.ByList, destination.ByDump} {
		t.Run(string(by), func(t *testing.T) {
			f := newSource(t)
			f.Dumped = true
			f.Put("/a", "a")
			f.Put("/gone", "x")
			added := false
			f.Fault("/set/changelist.xml", func(http.ResponseWriter, *http.Request) bool {
				if !added {
					added = true
					f.put("/b", "b")
				}
				return false
			})
			p := newPlace(t, f)
			r := p.mustSync(func(o *destination.Options) { o.Delete, o.By = destination.DeleteAll, by })
			if r.Deleted != 0 || r.Extra != 0 {
				t.Errorf("got %+v", r)
			}
			p.want()
		})
	}
}

// A resource deleted while a baseline was cut off goes with its deletion.
func TestDeletionsDuringACutBaseline(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.cut("/b", func(o *destination.Options) { o.HTTP.Connections = 1 })
	if got := p.files(); got["/a"] != "a" {
		t.Fatalf("got %v", got)
	}
	f.Remove("/a")
	f.Put("/c", "c")
	p.mustSync(nil)
	p.want()
}

// A Source without Change Lists is listed again in every run, whatever failed before.
func TestPlainListAfterAFailure(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	f.capabilities("set", "set", sitemap.ResourceList)
	f.Fault("/b", func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true })
	p := newPlace(t, f)
	if r := p.mustSync(nil); r.Failed != 1 {
		t.Errorf("got %+v", r)
	}
	delete(f.Faults, "/b")
	f.Put("/c", "c")
	if r := p.mustSync(nil); !r.InSync() || r.Fetched != 2 {
		t.Errorf("got %+v", r)
	}
	p.want()
	f.Put("/d", "d")
	p.mustSync(nil)
	p.want()
}

// A copy of two sets without Change Lists has what is new of both.
func TestPlainSetsAreAllListedAgain(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b/b", "b")
	f.sets("one", "two")
	for name, prefix := range map[string]string{"one": "/", "two": "/b/"} {
		f.capabilities(name, name, sitemap.ResourceList)
		f.serve("/"+name+"/resourcelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
			var all []sitemap.Entry
			for path := range f.Resources {
				if strings.HasPrefix(path, "/b/") == (prefix == "/b/") {
					all = append(all, f.Entry(path))
				}
			}
			return sitemap.URLSet, f.head(sitemap.ResourceList), all
		})
	}
	p := newPlace(t, f)
	all := func(o *destination.Options) { o.Delete = destination.DeleteAll }
	p.mustSync(all)
	p.want()
	f.Put("/a2", "a2")
	f.Put("/b/b2", "b2")
	f.Remove("/a")
	p.mustSync(all)
	p.want()
}

// Sets without Change Lists are followed by their Resource Lists.
func TestFollowPlainLists(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.capabilities("set", "set", sitemap.ResourceList)
	newPlace(t, f).follow("/b", time.Millisecond, func(*destination.Copy) {}, func(*destination.Copy) { f.Put("/b", "b") })
}

// A Source that answers at once with the same changes in another document, and waits from then
// on, is not left alone for a while.
func TestFollowOtherDocument(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	asked := 0
	f.Fault("/set/changelist.xml", func(w http.ResponseWriter, r *http.Request) bool {
		asked++
		tag := fmt.Sprintf("%q", fmt.Sprint(min(asked, 2)))
		if r.Header.Get("If-None-Match") == tag && r.Header.Get("Prefer") != "" { // as if it had waited
			f.put("/b", "b")
		}
		w.Header().Set("ETag", tag)
		return false
	})
	newPlace(t, f).follow("/b", time.Hour, func(*destination.Copy) {}, func(*destination.Copy) {})
}

// Woken by a notification, a copy asks at once.
func TestFollowWoken(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Fault("/set/changelist.xml", func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Prefer") != "" {
			t.Error("a request was held open")
		}
		return false
	})
	newPlace(t, f).follow("/b", time.Hour, func(c *destination.Copy) {
		if got := c.Topics(); len(got) != 1 || got[0] != f.URL+"/set/changelist.xml" {
			t.Errorf("topics %v", got)
		}
		c.Expect()
	}, func(c *destination.Copy) {
		go func() {
			f.Put("/b", "b")
			c.Wake()
		}()
	})
}

// Made anew, a copy takes deletions since its last run.
func TestDeletionsBeforeABaselineMadeAnew(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Remove("/a")
	f.Put("/c", "c")
	p.mustSync(func(o *destination.Options) { o.Again = true })
	p.want()
}

// The files of a queue go with it: promoted, they would be handed out again.
func TestQueuesRemovedAtTheSource(t *testing.T) {
	f := newSource(t)
	f.Put("/queues/q/pending/j1", "a")
	f.Put("/queues/old/pending/j1", "b")
	f.Put("/queues/old2/pending/j1", "c")
	queues := []string{"q", "old", "old2"}
	status := http.StatusForbidden
	serveQueues(f, &queues, &status)
	p := newPlace(t, f)
	p.mustSync(nil)
	p.want()
	queues = []string{"q", "old2"}
	p.mustSync(nil)
	if len(p.files()) != 3 {
		t.Errorf("a set not to be read was taken for a removed one: %v", p.files())
	}
	status = http.StatusNotFound // perhaps the original is lost, and the copy all there is
	p.mustSync(nil)
	if len(p.files()) != 3 {
		t.Errorf("a set not found was taken for a removed one: %v", p.files())
	}
	status = http.StatusGone
	if r := p.mustSync(nil); r.Deleted != 1 {
		t.Errorf("got %+v", r)
	}
	delete(f.Resources, "/queues/old/pending/j1")
	p.want()
	_, all, err := destination.Standings(p.dir)
	if err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// Resources in transit are not forgotten when a run is cut off while it asks for them.
func TestTransitOutlivesACutRun(t *testing.T) {
	f := newSource(t)
	for i := range 100 {
		f.Put(fmt.Sprintf("/r%d", i), "x")
	}
	down := true
	for path := range f.Resources {
		f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool {
			if down {
				http.NotFound(w, r)
			}
			return down
		})
	}
	p := newPlace(t, f)
	if r := p.mustSync(nil); r.Failed != 100 {
		t.Fatalf("got %+v", r)
	}
	p.cut("/r7", func(o *destination.Options) { o.HTTP.Connections = 1 })
	down = false
	p.mustSync(nil)
	p.want()
}

// A Source whose events go back, as that of a promoted copy does, is no longer the one known.
func TestEventsThatGoBack(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	f.Put("/b", "b")
	f.Changes[len(f.Changes)-1].Seq = 10
	p.mustSync(nil)
	f.Changes = f.Changes[:1]
	delete(f.Resources, "/b")
	f.Put("/c", "c")
	f.Changes[len(f.Changes)-1].Seq = 10
	if r := p.mustSync(func(o *destination.Options) { o.Delete = destination.DeleteAll }); !r.Sets[0].Baseline {
		t.Errorf("got %+v", r)
	}
	p.want()
}

// serveQueues gives a Source a set for each queue, as daemons have them, with one
// resource; sets of queues no longer there answer with a status.
func serveQueues(f *testSource, queues *[]string, status *int) {
	for _, q := range *queues {
		set := ".well-known/resourcesync/" + q + "/replica"
		f.capabilities(set, set, sitemap.ResourceList, sitemap.ChangeList)
		there := f.Faults["/"+set+"/capabilitylist.xml"]
		f.Fault("/"+set+"/capabilitylist.xml", func(w http.ResponseWriter, r *http.Request) bool {
			if !slices.Contains(*queues, q) {
				w.WriteHeader(*status)
				return true
			}
			return there(w, r)
		})
		f.serve("/"+set+"/resourcelist.xml", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
			return sitemap.URLSet, f.head(sitemap.ResourceList), []sitemap.Entry{f.Entry("/queues/" + q + "/pending/j1")}
		})
		f.serveList("/"+set+"/changelist.xml", sitemap.Head{Capability: sitemap.ChangeList, From: f.From})
	}
	f.serve("/.well-known/resourcesync", func() (sitemap.Root, sitemap.Head, []sitemap.Entry) {
		var all []sitemap.Entry
		for _, q := range *queues {
			all = append(all, sitemap.Entry{Loc: f.URL + "/.well-known/resourcesync/" + q + "/replica/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1})
		}
		return sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, all
	})
}

// Later runs copy the sets chosen once. A run for some sets takes no file of others for
// extra.
func TestChosenSetsAreRemembered(t *testing.T) {
	f := newSource(t)
	queues, status := []string{"a", "b"}, http.StatusOK
	for _, q := range queues {
		f.Put("/queues/"+q+"/pending/j1", q)
	}
	serveQueues(f, &queues, &status)
	p := newPlace(t, f)
	only := func(name string) func(*destination.Options) {
		return func(o *destination.Options) { o.Sets, o.Delete = []string{name + "/replica"}, destination.DeleteAll }
	}
	p.mustSync(only("a"))
	p.mustSync(nil)
	if got := p.files(); len(got) != 1 || got["/queues/a/pending/j1"] != "a" {
		t.Errorf("got %v", got)
	}
	if r := p.audit(false); !r.Clean() || r.Same != 1 {
		t.Errorf("audit: got %+v", r)
	}
	if r := p.mustSync(only("b")); r.Deleted != 0 {
		t.Errorf("got %+v", r)
	}
	if got := p.files(); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if r := p.audit(false); !r.Clean() || r.Same != 1 {
		t.Errorf("audit of b: got %+v", r)
	}
}

// A dry run needs no directory, and leaves none.
func TestDryRunWithoutDirectory(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	if r := p.mustSync(func(o *destination.Options) { o.DryRun = true }); r.Fetched != 1 {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left %v", err)
	}
}

// An audit changes nothing, not even the time of a file.
func TestAuditChangesNoFile(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	name, at := filepath.Join(p.dir, "a"), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	must(t, os.Chtimes(name, at, at))
	if r := p.audit(false); !r.Clean() {
		t.Errorf("got %+v", r)
	}
	if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("got %v, %v", info, err)
	}
	p.mustSync(func(o *destination.Options) { o.Again = true })
	if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(f.Modified["/a"]) || f.Asked["/a"] != 1 {
		t.Errorf("got %v, %v, asked %d times", info, err, f.Asked["/a"])
	}
}

// A run that is cut off in a long list goes on after the part it has done.
func TestLongListsAreTakenInParts(t *testing.T) {
	f := newSource(t)
	f.Put("/first", "1")
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 2100 {
		f.Put(fmt.Sprintf("/r%d", i), "x")
	}
	p.cut("/r2050", nil)
	_, all, err := destination.Standings(p.dir)
	if err != nil || len(all) != 1 || !all[0].Until.After(f.From.Add(1000*time.Second)) {
		t.Errorf("got %+v, %v", all, err)
	}
	p.mustSync(nil)
	p.want()
}

// A package that cannot be used is no reason to have no copy: the Resource List is used, and
// unless it is gone a line says why. With packages alone it is an error, and no file is made.
func TestPackagesThatCannotBeUsed(t *testing.T) {
	const path = "/set/dump.zip"
	type tests map[string]func(f *testSource)
	all := tests{"no manifest": func(f *testSource) { f.Pack = func(z *zip.Writer, _ []byte) { put(z, "x", "y") } },
		"another manifest": func(f *testSource) {
			f.Pack = func(z *zip.Writer, m []byte) {
				put(z, "manifest.xml", strings.Replace(string(m), "resourcedump-manifest", "resourcelist", 1))
			}
		}}
	for _, text := range []string{"\x1f\x8b no ZIP", "", "<html>login</html>"} {
		all[fmt.Sprintf("%q", text)] = func(f *testSource) { f.say(path, text) }
	}
	for _, status := range []int{http.StatusGone, http.StatusNotFound} {
		all[fmt.Sprint(status)] = func(f *testSource) { f.status(path, status) }
	}
	for part := range 4 {
		all[fmt.Sprintf("%d quarters", part)] = func(f *testSource) {
			f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool {
				text := f.Package()
				w.Write(text[:len(text)*part/4])
				return true
			})
		}
	}
	for alg, n := range map[string]int{"md5": 32, "sha-1": 40, "sha-256": 64} {
		all[alg] = func(f *testSource) {
			e := sitemap.Entry{Loc: f.URL + path, Length: -1, Hashes: []sitemap.Hash{{Alg: alg, Value: strings.Repeat("0", n)}}}
			f.serveList("/set/resourcedump.xml", f.head(sitemap.ResourceDump), e)
		}
	}
	for name, prepare := range all {
		f := newSource(t)
		f.Dumped = true
		for i := range 20 {
			f.Put(fmt.Sprint("/r", i), fmt.Sprint(i))
		}
		prepare(f)
		p := newPlace(t, f)
		_, err := p.sync(func(o *destination.Options) { o.By = destination.ByDump })
		if got := p.files(); err == nil || len(got) > 0 || f.Faults["/set/resourcedump.xml"] != nil && !errors.Is(err, local.ErrDiffers) {
			t.Errorf("%s: by packages alone: got %v, %v", name, got, err)
		}
		p = newPlace(t, f)
		r, gone := p.mustSync(nil), name == "410" || name == "404"
		if said := strings.Join(p.said, "\n"); r.Sets[0].By != destination.ByList || !r.InSync() || strings.Contains(said, "the Resource List is used") == gone {
			t.Errorf("%s: got %+v and %q", name, r, said)
		}
		p.want()
	}
}

// Packages that lie give no file another content, and none outside.
func TestPackagesThatLie(t *testing.T) {
	bomb := strings.Repeat("0", 1<<20)
	for name, pack := range map[string]func(z *zip.Writer, manifest []byte){
		"bomb": func(z *zip.Writer, m []byte) { put(z, "manifest.xml", string(m)); put(z, "resources/000000", bomb) },
		"traversal": func(z *zip.Writer, m []byte) {
			put(z, "manifest.xml", strings.ReplaceAll(string(m), "/resources/000000", "/../../etc/x"))
			put(z, "../../etc/x", "evil")
		},
		"twice": func(z *zip.Writer, m []byte) {
			put(z, "manifest.xml", string(m))
			put(z, "resources/000000", "evil")
			put(z, "resources/000000", "a")
		},
		"manifest as a file": func(z *zip.Writer, m []byte) {
			put(z, "manifest.xml", strings.ReplaceAll(string(m), "/resources/000000", "/manifest.xml"))
		},
	} {
		f := newSource(t)
		f.Dumped, f.Pack = true, pack
		f.Put("/a", "a")
		p := newPlace(t, f)
		p.mustSync(func(o *destination.Options) { o.By = destination.ByDump })
		p.want()
		if f.Asked["/a"] != 1 {
			t.Errorf("%s: asked %d times", name, f.Asked["/a"])
		}
		if entries, err := os.ReadDir(filepath.Dir(p.dir)); err != nil || len(entries) != 1 {
			t.Errorf("%s: beside the copy: %v, %v", name, entries, err)
		}
	}
}

func put(z *zip.Writer, name, text string) {
	w, err := z.Create(name)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err != nil {
		panic(err)
	}
}

// Documents without an end, or cut off before the first entry, end a run with an error. An
// entry with an entity that grows is skipped.
func TestDocumentsThatLie(t *testing.T) {
	head := `<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>` +
		`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`
	entry := strings.Repeat("<url><loc>http://127.0.0.1/x</loc></url>", 1000)
	for name, do := range map[string]func(w io.Writer) error{
		"endless":  func(w io.Writer) error { _, err := io.WriteString(w, entry); return err },
		"entities": func(w io.Writer) error { io.WriteString(w, "<url><loc>&b;</loc></url></urlset>"); return io.EOF },
		"cut":      func(w io.Writer) error { return io.EOF },
	} {
		f := newSource(t)
		f.Put("/a", "a")
		f.Fault("/set/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, head)
			for do(w) == nil {
			}
			return true
		})
		p := newPlace(t, f)
		r, err := p.sync(func(o *destination.Options) { o.HTTP.Tries = 1 })
		if name == "entities" {
			if err != nil || r.Skipped != 1 || len(p.said) == 0 || !strings.Contains(p.said[0], "/set/resourcelist.xml: entry at line 1: ") {
				t.Errorf("%s: got %+v, %v, said %q", name, r, err, p.said)
			}
		} else if err == nil || !strings.Contains(err.Error(), "/set/resourcelist.xml") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A resource that is listed several times in the same words is asked for once, also without
// length and digest.
func TestAResourceListedTwiceIsFetchedOnce(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	f.Lock(func() { f.Changes, f.From = nil, f.Now })
	var all []sitemap.Entry
	for _, loc := range []string{"/a", "/b", "/a", "/./a", "/%61"} {
		all = append(all, sitemap.Entry{Loc: f.URL + loc, Length: -1})
	}
	f.serveList("/set/resourcelist.xml", f.head(sitemap.ResourceList), all...)
	p := newPlace(t, f)
	if r := p.mustSync(nil); r.Fetched != 2 || f.Asked["/a"] != 1 {
		t.Errorf("got %+v, asked %d times", r, f.Asked["/a"])
	}
}

// A resource whose length no list says has a limit, in a package and alone; the rest is copied,
// and a run with a higher limit completes the copy.
func TestResourcesWithoutALengthHaveALimit(t *testing.T) {
	for _, by := range []destination.By{destination.ByList, destination.ByDump} {
		f := newSource(t)
		f.Dumped = true
		f.Edit = func(_ string, e *sitemap.Entry) {
			if e.Capability == "" {
				e.Length = -1
			}
		}
		f.Put("/a", "a")
		f.Put("/bomb", strings.Repeat("0", 1<<20))
		f.Lock(func() { f.Changes, f.From = nil, f.Now })
		p := newPlace(t, f)
		limit := func(o *destination.Options) { o.By, o.MaxResource = by, 1<<20-1 }
		r := p.mustSync(limit)
		if said := strings.Join(p.said, "\n"); r.Fetched != 1 || r.Failed != 1 || !strings.Contains(said, "/bomb: the resource is too large: more than 1048575 octets") {
			t.Errorf("%s: got %+v and %q", by, r, said)
		}
		p.mustSync(nil)
		p.want()
	}
}
