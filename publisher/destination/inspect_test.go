package destination_test

import (
	"archive/zip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

func report(t *testing.T, f *testSource) *destination.SourceReport {
	t.Helper()
	r, err := destination.Inspect(t.Context(), source.NewClient(source.Options{Origin: f.URL, Tries: 1}), f.URL, destination.InspectOptions{Sample: -1, Dumps: true})
	must(t, err)
	return r
}

func filled(t *testing.T) *testSource {
	f := newSource(t)
	f.Dumped = true
	for _, r := range []string{"/a", "/b", "/c/d"} {
		f.Put(r, "text of "+r)
	}
	f.Remove("/b")
	return f
}

func TestSourceWithoutFault(t *testing.T) {
	r := report(t, filled(t))
	if len(r.Findings) > 0 || r.Sets != 1 || r.Resources != 2 || r.Changes != 4 || r.Asked != 2 || r.Packages != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestEachFaultIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(f *testSource)
		uri    string
		text   string
	}{
		"flipped bit":   {func(f *testSource) { f.say("/a", "text of /b") }, "/a", "sha-256 is "},
		"missing file":  {func(f *testSource) { f.status("/a", http.StatusNotFound) }, "/a", "404"},
		"short file":    {func(f *testSource) { f.say("/a", "text") }, "/a", "octets"},
		"dangling list": {func(f *testSource) { f.status("/set/changelist.xml", http.StatusNotFound) }, "/set/changelist.xml", "404"},
		"order":         {func(f *testSource) { f.Changes[0], f.Changes[1] = f.Changes[1], f.Changes[0] }, "/set/changelist.xml", "comes after"},
		"time":          {func(f *testSource) { f.Changes[3].DateTime = f.From.Add(time.Millisecond) }, "/set/changelist.xml", "comes after"},
		"no proof":      {func(f *testSource) { f.Edit = func(_ string, e *sitemap.Entry) { e.Hashes, e.Length = nil, -1 } }, "/set/resourcelist.xml", "neither length nor digest"},
		"lie in a manifest": {func(f *testSource) {
			f.Pack = func(z *zip.Writer, manifest []byte) {
				put(z, "manifest.xml", string(manifest))
				put(z, "resources/000000", "text of /a")
				put(z, "resources/000001", "text of /c/e")
			}
		}, "/set/dump.zip", "/c/d: differs: sha-256 is "},
		"file without entry": {func(f *testSource) {
			f.Pack = func(z *zip.Writer, manifest []byte) {
				put(z, "manifest.xml", string(manifest))
				put(z, "resources/000000", "text of /a")
				put(z, "resources/000001", "text of /c/d")
				put(z, "more", "")
			}
		}, "/set/dump.zip", "not in the manifest"},
		"entry without file": {func(f *testSource) {
			f.Pack = func(z *zip.Writer, manifest []byte) {
				put(z, "manifest.xml", string(manifest))
				put(z, "resources/000000", "text of /a")
			}
		}, "/set/dump.zip", "not in the package"},
		"no manifest": {func(f *testSource) { f.Pack = func(z *zip.Writer, manifest []byte) { put(z, "x", "") } }, "/set/dump.zip", "no manifest.xml"},
		"no archive":  {func(f *testSource) { f.say("/set/dump.zip", "PK") }, "/set/dump.zip", "zip"},
	} {
		t.Run(name, func(t *testing.T) {
			f := filled(t)
			c.damage(f)
			r := report(t, f)
			found := false
			for _, g := range r.Findings {
				found = found || g.Path == f.URL+c.uri && strings.Contains(g.Text, c.text)
			}
			if !found {
				t.Errorf("no %q of %s in %+v", c.text, c.uri, r.Findings)
			}
		})
	}
}

// Closed lists leave neither a gap nor an overlap.
func TestSeamsOfChangeLists(t *testing.T) {
	for name, c := range map[string]struct {
		begins time.Duration // of the second list, after the end of the first
		want   string
	}{"whole": {0, ""}, "gap": {time.Minute, "are in no list"}, "overlap": {-time.Minute, "before the end"}} {
		t.Run(name, func(t *testing.T) {
			f := filled(t)
			t0 := f.From
			end := t0.Add(time.Hour)
			list := func(from, until time.Time) func(w http.ResponseWriter, _ *http.Request) bool {
				return func(w http.ResponseWriter, _ *http.Request) bool {
					f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: f.Up()}, nil)
					return true
				}
			}
			f.Fault("/set/1.xml", list(t0, end))
			f.Fault("/set/2.xml", list(end.Add(c.begins), time.Time{}))
			f.Fault("/set/changelist.xml", func(w http.ResponseWriter, _ *http.Request) bool {
				f.Document(w, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: t0, Links: f.Up()}, []sitemap.Entry{
					{Loc: f.URL + "/set/1.xml", From: t0, Until: end, Length: -1}, {Loc: f.URL + "/set/2.xml", From: end.Add(c.begins), Length: -1}})
				return true
			})
			r := report(t, f)
			switch {
			case c.want == "" && len(r.Findings) > 0:
				t.Errorf("got %+v", r.Findings)
			case c.want != "" && (len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Text, c.want)):
				t.Errorf("got %+v, want %q", r.Findings, c.want)
			}
		})
	}
}

// What cannot be read is named with its line, once, and all else is inspected.
func TestFaultsOfEntriesEndNothing(t *testing.T) {
	f := filled(t)
	var text string
	list := httptest.NewRecorder()
	f.ServeHTTP(list, httptest.NewRequest(http.MethodGet, "/set/resourcelist.xml", nil))
	text = strings.Replace(list.Body.String(), "<url><loc>"+f.URL+"/a</loc>", "<url><loc/></url><url><loc>"+f.URL+"/a</loc><lastmod>now</lastmod>", 1)
	f.Fault("/set/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, text); return true })
	r := report(t, f)
	want := []string{"entry at line 5: entry without loc", `line 5: not a W3C Datetime: "now"`}
	if r.Resources != 2 || r.Asked != 2 || len(r.Findings) != len(want) {
		t.Fatalf("got %+v", r)
	}
	for i, g := range r.Findings {
		if g.Path != f.URL+"/set/resourcelist.xml" || g.Text != want[i] {
			t.Errorf("got %+v, want %q", g, want[i])
		}
	}
}

// The resource of a requeued job comes back after the Resource Dump with its old time, and
// is in no package.
func TestWhatCameBackAfterADumpIsNoFinding(t *testing.T) {
	f := filled(t) // without /b
	was := f.Now
	for _, path := range []string{"/set/resourcedump.xml", "/set/dump.zip"} {
		resp, err := http.Get(f.URL + path)
		must(t, err)
		old, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(t, err)
		f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool { w.Write(old); return true })
	}
	f.Put("/b", "text of /b")
	f.Lock(func() {
		f.Modified["/b"] = was.Add(-2e9)
		f.Changes[len(f.Changes)-1].LastMod = was.Add(-2e9)
	})
	f.Put("/e", "later")
	if r := report(t, f); len(r.Findings) > 0 {
		t.Errorf("got %+v", r.Findings)
	}
}
