package destination_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/sourcetest"
	"cutie/sitemap"
)

// Resources made by changes after the lists were read are no extra files.
func TestDeleteAllKeepsWhatChangesMade(t *testing.T) {
	for _, by := range []destination.By{destination.ByList, destination.ByDump} {
		t.Run(string(by), func(t *testing.T) {
			f := sourcetest.New(t)
			f.Dumped = true
			f.Put("/a", "a")
			f.Put("/gone", "x")
			added := false
			f.Fault("/set/changelist.xml", func(http.ResponseWriter, *http.Request) bool {
				if !added {
					added = true
					f.Resources["/b"], f.Modified["/b"] = "b", f.Tick()
					e := f.Entry("/b")
					e.Change, e.DateTime = sitemap.Created, f.Now
					f.Changes = append(f.Changes, e)
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
	f := sourcetest.New(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	ctx, cancel := context.WithCancel(t.Context())
	f.Fault("/b", func(http.ResponseWriter, *http.Request) bool { cancel(); return false })
	p := newPlace(t, f)
	c, err := p.open(func(o *destination.Options) { o.HTTP.Connections = 1 })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sync(ctx); err == nil {
		t.Fatal("the run was not cut off")
	}
	c.Close()
	if got := p.files(); got["/a"] != "a" {
		t.Fatalf("got %v", got)
	}
	f.Fault("/b", nil)
	f.Remove("/a")
	f.Put("/c", "c")
	p.mustSync(nil)
	p.want()
}

// A Source without Change Lists is listed again in every run, whatever failed before.
func TestPlainListAfterAFailure(t *testing.T) {
	f := sourcetest.New(t)
	f.Put("/a", "a")
	f.Put("/b", "b")
	plain(f)
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

// plain leaves out the Change List of a Source.
func plain(f *sourcetest.Source) {
	f.Fault("/set/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}},
			[]sitemap.Entry{{Loc: f.URL + "/set/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1}})
		return true
	})
}

// A Source that refuses each range is not asked for ever.
func TestRangesRefusedForEver(t *testing.T) {
	f := sourcetest.New(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	asked := 0
	f.Fault("/set/changelist.xml", func(w http.ResponseWriter, r *http.Request) bool {
		if asked++; asked > 50 {
			http.NotFound(w, r)
			return true
		}
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return true
	})
	if _, err := p.sync(nil); err == nil || asked > 10 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// A copy of two sets without Change Lists has what is new of both.
func TestPlainSetsAreAllListedAgain(t *testing.T) {
	f := sourcetest.New(t)
	f.Put("/a", "a")
	f.Put("/b/b", "b")
	part := func(name, prefix string) {
		f.Fault("/"+name+"/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}},
				[]sitemap.Entry{{Loc: f.URL + "/" + name + "/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1}})
			return true
		})
		f.Fault("/"+name+"/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			var all []sitemap.Entry
			for path := range f.Resources {
				if strings.HasPrefix(path, "/b/") == (prefix == "/b/") {
					all = append(all, f.Entry(path))
				}
			}
			f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: f.Now, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/" + name + "/capabilitylist.xml"}}}, all)
			return true
		})
	}
	part("one", "/")
	part("two", "/b/")
	f.Fault("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, []sitemap.Entry{
			{Loc: f.URL + "/one/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1},
			{Loc: f.URL + "/two/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1}})
		return true
	})
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
	f := sourcetest.New(t)
	f.Put("/a", "a")
	plain(f)
	p := newPlace(t, f)
	c, err := p.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.Fault("/b", func(http.ResponseWriter, *http.Request) bool { cancel(); return false })
	ended := make(chan error)
	go func() { ended <- c.Follow(ctx, time.Millisecond, func(*destination.Report) { f.Put("/b", "b") }) }()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("/b was not asked for: %v, said %q", err, p.said)
	}
}

// Made anew, a copy takes deletions since its last run.
func TestDeletionsBeforeABaselineMadeAnew(t *testing.T) {
	f := sourcetest.New(t)
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
	f := sourcetest.New(t)
	f.Put("/queues/q/pending/j1", "a")
	f.Put("/queues/old/pending/j1", "b")
	f.Put("/queues/old2/pending/j1", "c")
	queues := []string{"q", "old", "old2"}
	status := http.StatusForbidden
	for _, q := range queues {
		list := "/.well-known/resourcesync/" + q + "/replica/"
		f.Fault(list+"capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			if !slices.Contains(queues, q) {
				w.WriteHeader(status)
				return true
			}
			f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: "up", Href: f.URL + "/.well-known/resourcesync"}}},
				[]sitemap.Entry{{Loc: f.URL + list + "resourcelist.xml", Capability: sitemap.ResourceList, Length: -1},
					{Loc: f.URL + list + "changelist.xml", Capability: sitemap.ChangeList, Length: -1}})
			return true
		})
		f.Fault(list+"resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: f.Now}, []sitemap.Entry{f.Entry("/queues/" + q + "/pending/j1")})
			return true
		})
		f.Fault(list+"changelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
			f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: f.From}, nil)
			return true
		})
	}
	f.Fault("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) bool {
		var all []sitemap.Entry
		for _, q := range queues {
			all = append(all, sitemap.Entry{Loc: f.URL + "/.well-known/resourcesync/" + q + "/replica/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1})
		}
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, all)
		return true
	})
	p := newPlace(t, f)
	p.mustSync(nil)
	p.want()
	queues = []string{"q", "old2"}
	p.mustSync(nil)
	if len(p.files()) != 3 {
		t.Errorf("a set not to be read was taken for a removed one: %v", p.files())
	}
	status = http.StatusNotFound
	if r := p.mustSync(nil); r.Deleted != 1 {
		t.Errorf("got %+v", r)
	}
	delete(f.Resources, "/queues/old/pending/j1")
	p.want()
	_, _, all, err := destination.Standings(p.dir)
	if err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// Resources in transit are not forgotten when a run is cut off while it asks for them.
func TestTransitOutlivesACutRun(t *testing.T) {
	f := sourcetest.New(t)
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
	c, err := p.open(func(o *destination.Options) { o.HTTP.Connections = 1 })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Fault("/r7", func(w http.ResponseWriter, r *http.Request) bool { cancel(); http.NotFound(w, r); return true })
	if _, err := c.Sync(ctx); err == nil {
		t.Fatal("the run was not cut off")
	}
	c.Close()
	f.Fault("/r7", nil)
	down = false
	p.mustSync(nil)
	p.want()
}

// A Source whose events go back, as that of a promoted copy does, is no longer the one known.
func TestEventsThatGoBack(t *testing.T) {
	f := sourcetest.New(t)
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
