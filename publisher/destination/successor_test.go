package destination_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"cutie/publisher/destination"
	"cutie/publisher/destination/sourcetest"
	"cutie/sitemap"
)

// A successor gets sets that its original never had. They are copied, too, and the others are
// followed. Alone they prove nothing.
func TestSuccessorsHaveSetsOfTheirOwn(t *testing.T) {
	f := sourcetest.New(t)
	f.Put("/a", "a")
	next := sourcetest.New(t)
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
