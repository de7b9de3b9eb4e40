package destination_test

import (
	"archive/zip"
	"io"
	"net/http"
	"strings"
	"testing"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// A package that is there and cannot be read is no reason to have no copy: the Resource List
// is used, and a line says why. With packages alone it is an error.
func TestABrokenPackageIsReplacedByTheList(t *testing.T) {
	for name, body := range map[string]string{"no ZIP": "\x1f\x8b rest", "empty": "", "a page": "<html>login</html>", "no manifest": "x", "another manifest": "y"} {
		f := newSource(t)
		f.Dumped = true
		f.Put("/a", "a")
		f.Put("/b", "b")
		switch body {
		case "x":
			f.Pack = func(z *zip.Writer, _ []byte) { put(z, "x", "y") }
		case "y":
			f.Pack = func(z *zip.Writer, m []byte) {
				put(z, "manifest.xml", strings.Replace(string(m), "resourcedump-manifest", "resourcelist", 1))
			}
		default:
			f.Fault("/set/dump.zip", func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, body); return true })
		}
		p := newPlace(t, f)
		r := p.mustSync(nil)
		if said := strings.Join(p.said, "\n"); r.Sets[0].By != destination.ByList || !r.InSync() || !strings.Contains(said, "the Resource List is used") {
			t.Errorf("%s: got %+v and %q", name, r, said)
		}
		p.want()
		if _, err := newPlace(t, f).sync(func(o *destination.Options) { o.By = destination.ByDump }); err == nil {
			t.Errorf("%s: by packages alone there is a copy", name)
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
	f.Fault("/set/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		var all []sitemap.Entry
		for _, loc := range []string{"/a", "/b", "/a", "/./a", "/%61"} {
			all = append(all, sitemap.Entry{Loc: f.URL + loc, Length: -1})
		}
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: f.Now, Links: f.Up()}, all)
		return true
	})
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
