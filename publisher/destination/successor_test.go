package destination_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"cutie/publisher/destination"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
)

// A successor gets sets that its original never had. They are copied, too, and the others are
// followed. Alone they prove nothing.
func TestSuccessorsHaveSetsOfTheirOwn(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	next := newSource(t)
	next.Put("/a", "a")
	next.Fault("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) bool {
		var all []sitemap.Entry
		for _, set := range []string{"set", "new"} {
			all = append(all, sitemap.Entry{Loc: next.URL + "/" + set + "/capabilitylist.xml", Capability: sitemap.CapabilityList, Length: -1})
		}
		next.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description}, all)
		return true
	})
	next.Fault("/new/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		next.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList},
			[]sitemap.Entry{{Loc: next.URL + "/new/resourcelist.xml", Capability: sitemap.ResourceList, Length: -1}})
		return true
	})
	next.Fault("/new/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		next.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: next.Now}, []sitemap.Entry{{Loc: next.URL + "/b", Length: 1}})
		return true
	})
	next.Fault("/b", func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "b"); return true })
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
