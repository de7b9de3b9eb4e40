package destination_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/sitemap"
)

// inLists makes an index of Change Lists, with so many changes each.
func inLists(f *testSource, size int) {
	f.Fault("/set/changelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		var all []sitemap.Entry
		from := f.From
		for first := 0; first < len(f.Changes); first += size {
			part := f.Changes[first:min(first+size, len(f.Changes))]
			until := part[len(part)-1].DateTime
			e := sitemap.Entry{Loc: fmt.Sprintf("%s/set/changes-%d.xml", f.URL, first), From: from, Until: until, Length: -1}
			f.Faults[strings.TrimPrefix(e.Loc, f.URL)] = func(w http.ResponseWriter, _ *http.Request) bool {
				f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: e.From, Until: until, Links: f.Up()}, part)
				return true
			}
			all, from = append(all, e), until
		}
		f.Document(w, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: f.From, Links: f.Up()}, all)
		return true
	})
}

// Nothing is fetched that a later list replaces or deletes.
func TestPlanOverSeveralLists(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	inLists(f, 3)
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 5 {
		f.Put("/a", fmt.Sprint("a", i))
		f.Put(fmt.Sprint("/b", i), "b")
		f.Put(fmt.Sprint("/c", i), "c")
	}
	for i := range 5 {
		f.Remove(fmt.Sprint("/b", i))
	}
	f.Put("/b1", "once more")
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 7 || len(p.said) > 0 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	if f.Asked["/a"] != 1 || f.Asked["/b1"] != 1 || f.Asked["/b2"] != 0 {
		t.Errorf("asked for %v", f.Asked)
	}
	p.want()
}

// changeDump gives a Source a Change Dump with one package of all changes; each file is of
// the text that its resource has now.
func changeDump(f *testSource) {
	list := func(c sitemap.Capability, name string) sitemap.Entry {
		return sitemap.Entry{Loc: f.URL + "/set/" + name, Capability: c, Length: -1}
	}
	f.Fault("/set/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList}, []sitemap.Entry{list(sitemap.ResourceList, "resourcelist.xml"),
			list(sitemap.ChangeList, "changelist.xml"), list(sitemap.ChangeDump, "changedump.xml")})
		return true
	})
	f.Fault("/set/changedump.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		e := list("", "changes.zip")
		e.From, e.Until, e.Length = f.From, f.Now, int64(len(changesZip(f)))
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDump, From: f.From, Links: f.Up()}, []sitemap.Entry{e})
		return true
	})
	f.Fault("/set/changes.zip", func(w http.ResponseWriter, r *http.Request) bool {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(changesZip(f)))
		return true
	})
}

func changesZip(f *testSource) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	text := sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: f.From, Until: f.Now})
	files := map[string]string{}
	for i, e := range f.Changes {
		if now, ok := f.Resources[strings.TrimPrefix(e.Loc, f.URL)]; ok && e.Change != sitemap.Deleted {
			e.Path = fmt.Sprint("/", i)
			files[fmt.Sprint(i)] = now
		}
		text = sitemap.AppendEntry(text, sitemap.URLSet, &e)
	}
	put(z, "manifest.xml", string(sitemap.AppendFoot(text, sitemap.URLSet)))
	for i := range f.Changes {
		if now, ok := files[fmt.Sprint(i)]; ok {
			put(z, fmt.Sprint(i), now)
		}
	}
	z.Close()
	return b.Bytes()
}

// Many changes come by packages, where these are shorter; few, or a broken package, by
// requests.
func TestCatchingUpByChangeDump(t *testing.T) {
	f := newSource(t)
	changeDump(f)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 200 {
		f.Put(fmt.Sprint("/r", i), "x")
	}
	for i := range 50 {
		f.Remove(fmt.Sprint("/r", i))
		f.Put(fmt.Sprint("/r", 50+i), "y")
	}
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 150 || r.Failed > 0 || len(p.said) > 0 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	for path, n := range f.Asked {
		if strings.HasPrefix(path, "/r") || n > 1 && !strings.Contains(path, "list") {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	p.want()

	f.Put("/few", "1")
	clear(f.Asked)
	p.mustSync(nil)
	if f.Asked["/set/changedump.xml"]+f.Asked["/set/changes.zip"] > 0 || f.Asked["/few"] != 1 {
		t.Errorf("asked for %v", f.Asked)
	}
	p.want()

	for i := range 200 {
		f.Put(fmt.Sprint("/s", i), "x")
	}
	f.Fault("/set/changes.zip", func(w http.ResponseWriter, _ *http.Request) bool { w.Write(changesZip(f)[:1000]); return true })
	clear(f.Asked)
	if r := p.mustSync(nil); r.Fetched != 200 || !r.InSync() || len(p.said) != 1 {
		t.Errorf("got %+v, said %q", r, p.said)
	}
	p.want()
}
