package source_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
	"cutie/wellknown"
)

// resources returns the last segments of all resources of the one set of a site whose
// documents are given by path; in them SITE stands for its URL.
func resources(t *testing.T, documents map[string]string) (string, time.Time, error) {
	t.Helper()
	var site *httptest.Server
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, strings.ReplaceAll(text, "SITE", site.URL))
	}))
	defer site.Close()
	found, err := source.Find(t.Context(), source.NewClient(source.Options{Origin: site.URL, Tries: 1}), site.URL)
	must(t, err)
	set, err := found.Open(t.Context(), "")
	must(t, err)
	var got []string
	at, err := set.Resources(t.Context(), func(e *sitemap.Entry, _ time.Time) error {
		got = append(got, strings.TrimPrefix(e.Loc, site.URL+"/"))
		return nil
	})
	return strings.Join(got, " "), at, err
}

func list(at string, names ...string) string  { return listOf("urlset", "url", at, names) }
func index(at string, names ...string) string { return listOf("sitemapindex", "sitemap", at, names) }

func listOf(root, entry, at string, names []string) string {
	text := `<` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	if at != "" {
		text += `<rs:md capability="resourcelist" at="` + at + `"/>`
	}
	for _, n := range names {
		text += fmt.Sprintf("<%s><loc>SITE/%s</loc></%[1]s>", entry, n)
	}
	return text + "</" + root + ">"
}

func TestAllListsAreRead(t *testing.T) {
	deep := map[string]string{"/sitemap.xml": index("", "d0")}
	for i := range 9 {
		deep[fmt.Sprintf("/d%d", i)] = index("", fmt.Sprintf("d%d", i+1))
	}
	for name, tt := range map[string]struct {
		documents map[string]string
		want, at  string // or part of the error
		err       string
	}{
		"two in robots.txt": {map[string]string{"/robots.txt": "Sitemap: s1.xml\nSitemap: SITE/s2.xml\n",
			"/s1.xml": list("2026-01-02T00:00:00Z", "a", "b"), "/s2.xml": list("2026-01-01T00:00:00Z", "c")}, "a b c", "2026-01-01", ""},
		"an index in an index": {map[string]string{"/sitemap.xml": index("", "i2.xml", "s1.xml"), "/i2.xml": index("", "s2.xml", "s1.xml"),
			"/s1.xml": list("", "a"), "/s2.xml": list("", "b")}, "b a", "0001-01-01", ""},
		"an index of a time": {map[string]string{"/sitemap.xml": index("2026-01-03T00:00:00Z", "i2.xml"), "/i2.xml": index("2026-01-02T00:00:00Z", "s1.xml"),
			"/s1.xml": list("2026-01-01T00:00:00Z", "a")}, "a", "2026-01-03", ""},
		"an index in itself": {map[string]string{"/sitemap.xml": index("", "sitemap.xml", "s1.xml"), "/s1.xml": list("", "a")}, "a", "0001-01-01", ""},
		"an endless index":   {deep, "", "", "/d3: an index in more than 4 others"},
		"one is missing":     {map[string]string{"/sitemap.xml": index("", "s1.xml", "s2.xml"), "/s1.xml": list("", "a")}, "", "", "/s2.xml: 404"},
	} {
		got, at, err := resources(t, tt.documents)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", name, err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want || at.Format(time.DateOnly) != tt.at {
			t.Errorf("%s: got %q of %v, %v; want %q of %s", name, got, at, err, tt.want, tt.at)
		}
	}
}

// Equal URIs are one resource.
func TestLocationsAreNormal(t *testing.T) {
	got, _, err := resources(t, map[string]string{"/sitemap.xml": list("", "%7ea", "x/../~a", "ü", "b")})
	if want := "~a ~a %C3%BC b"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

const (
	plainSitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://s.org/a</loc></url></urlset>`
	description  = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="description"/><url><loc>SITE/sets.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`
)

var loopback, _ = outbound.NewAddresses([]string{"127.0.0.1"})

// A site names a plain Sitemap in its robots.txt. It is taken where no other Source is, and
// not in place of one that gives no answer.
func TestAnotherSourceIsNoSubstitute(t *testing.T) {
	for _, tt := range []struct {
		name   string
		path   string         // of the URL
		failed map[string]int // statuses by path
		times  int            // how often they fail
		want   string         // part of the error, or else By
	}{
		{"nothing else", "/page", nil, 0, "robots.txt"},
		{"there is none", "/page", map[string]int{wellknown.Path: 404, "/page": 404}, 9, "robots.txt"},
		{"a static site", "/page", map[string]int{wellknown.Path: 403}, 9, "robots.txt"},
		{"a Source that fails once", "/page", map[string]int{wellknown.Path: 503}, 1, string(wellknown.ByWellKnown)},
		{"a Source that fails", "/page", map[string]int{wellknown.Path: 503}, 9, "503"},
		{"a private Source", "/", map[string]int{wellknown.Path: 401}, 9, "401"},
		{"a private URL", "/page", map[string]int{"/page": 401}, 9, "401"},
		{"a forbidden URL", "/page", map[string]int{"/page": 403}, 9, "403"},
		{"a page that fails", "/page", map[string]int{"/page": 502}, 9, "502"},
		{"a Sitemap beside a failure", "/map.xml", map[string]int{wellknown.Path: 503}, 9, string(wellknown.ByDocument)},
	} {
		asked := map[string]int{}
		var site *httptest.Server
		site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[r.URL.Path]++
			if status := tt.failed[r.URL.Path]; status > 0 && asked[r.URL.Path] <= tt.times {
				w.WriteHeader(status)
				return
			}
			switch r.URL.Path {
			case "/robots.txt":
				io.WriteString(w, "Sitemap: "+site.URL+"/map.xml\n")
			case "/map.xml":
				io.WriteString(w, plainSitemap)
			case wellknown.Path:
				if tt.want == string(wellknown.ByWellKnown) {
					io.WriteString(w, strings.ReplaceAll(description, "SITE", site.URL))
					return
				}
				fallthrough
			default:
				http.NotFound(w, r)
			}
		}))
		s, err := source.Find(t.Context(), source.NewClient(source.Options{Addresses: loopback, Tries: 2, Pause: time.Millisecond}), site.URL+tt.path)
		switch {
		case err != nil && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: got %v", tt.name, err)
		case err == nil && string(s.By) != tt.want:
			t.Errorf("%s: found by %q, want %q", tt.name, s.By, tt.want)
		}
		if got := asked["/robots.txt"]; err != nil && got > 0 {
			t.Errorf("%s: robots.txt was asked for %d times", tt.name, got)
		}
		site.Close()
	}
}

// A missing server ends the search at once.
func TestNoServer(t *testing.T) {
	site := httptest.NewServer(nil)
	site.Close()
	client := source.NewClient(source.Options{Addresses: loopback, Tries: 2, Pause: time.Millisecond})
	_, err := source.Find(t.Context(), client, site.URL)
	requests, _ := client.Counts()
	if err == nil || !strings.Contains(err.Error(), wellknown.ErrNoAnswer.Error()) || requests > 4 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

const manifest = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcedump-manifest"/>%s</urlset>`

// zipped returns a package with a manifest of entries, and files.
func zipped(t *testing.T, entries, files int) *bytes.Reader {
	t.Helper()
	var b, listed bytes.Buffer
	for i := range entries {
		fmt.Fprintf(&listed, "<url><loc>HTTP://S.org/%d</loc></url>", i)
	}
	z := zip.NewWriter(&b)
	w, err := z.Create("manifest.xml")
	must(t, err)
	fmt.Fprintf(w, manifest, &listed)
	for i := range files {
		if _, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, z.Close())
	return bytes.NewReader(b.Bytes())
}

// A counter counts what is read.
type counter struct {
	*bytes.Reader
	n int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

func TestPackagesHaveALimitOfFiles(t *testing.T) {
	for _, tt := range []struct {
		entries, files, most int
		open                 bool
	}{
		{0, 9, 10, true}, {0, 10, 10, false}, {0, 60_000, 10_000, false}, {0, 60_000, 0, true}, {10, 0, 10, true}, {11, 0, 10, true},
	} {
		in := &counter{Reader: zipped(t, tt.entries, tt.files)}
		p, err := source.OpenPackage(in, in.Size(), sitemap.ResourceDumpManifest, tt.most)
		if !tt.open {
			if !errors.Is(err, source.ErrFiles) {
				t.Errorf("%+v: got %v", tt, err)
			}
			if in.n > 2<<20 {
				t.Errorf("%+v: %d bytes were read", tt, in.n)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: got %v", tt, err)
			continue
		}
		read, whole := 0, true
		for e, err := range p.Entries() {
			if whole = err == nil; !whole {
				break
			}
			if want := fmt.Sprintf("http://s.org/%d", read); e.Loc != want {
				t.Errorf("got %q, want %q", e.Loc, want)
			}
			read++
		}
		if read != min(tt.entries, 10) || whole != (tt.entries <= 10) {
			t.Errorf("%+v: read %d, whole %v", tt, read, whole)
		}
		p.Close()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
