package destination_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// answers serves any URL of the world.
type answers func(uri string) (text []byte, ok bool)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if text, ok := a(r.URL.String()); ok {
		w.Write(text)
	} else {
		http.NotFound(w, r)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// syncAnswers copies a list and its resources, and audits the copy.
func syncAnswers(t *testing.T, list string, a answers) (*destination.Report, *destination.AuditReport) {
	t.Helper()
	c, err := destination.Open(t.Context(), destination.Options{URL: list, Dir: filepath.Join(t.TempDir(), "copy"), Settle: time.Millisecond,
		HTTP: source.Options{Transport: a, Tries: 1}})
	must(t, err)
	defer c.Close()
	r, err := c.Sync(t.Context())
	must(t, err)
	audit, err := c.Audit(t.Context())
	must(t, err)
	return r, audit
}

// The Resource Lists in the three versions of the standard, as Sources: resources with
// digests cannot be had, as nobody knows their octets, and are refused; all others are copied.
func TestPublishedResourceLists(t *testing.T) {
	dir := os.Getenv("CUTIE_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	files, err := filepath.Glob(filepath.Join(dir, "vectors/resourcesync/*/*.xml"))
	if err != nil || len(files) == 0 {
		t.Skip("the examples of the standard are not in ../shared/vectors beside the repository, nor below $CUTIE_SHARED")
	}
	lists := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		plain, proved := resourcesOf(text)
		if plain+proved == 0 {
			continue
		}
		lists++
		const uri = "http://example.com/the-list.xml"
		r, audit := syncAnswers(t, uri, func(asked string) ([]byte, bool) {
			if asked == uri {
				return text, true
			}
			return []byte("x"), !strings.HasSuffix(asked, ".xml") && !strings.Contains(asked, "/.well-known/") && !strings.HasSuffix(asked, ".txt")
		})
		if int(r.Fetched) != plain || int(r.Failed) != proved || int(audit.Unverified+audit.Same) != plain {
			t.Errorf("%s: got %+v, audit %+v; want %d fetched, %d failed", file, r, audit, plain, proved)
		}
	}
	if lists < 10 {
		t.Errorf("%d lists", lists)
	}
}

// resourcesOf counts the resources of a Resource List without a length or digest, and with.
func resourcesOf(text []byte) (plain, proved int) {
	r := sitemap.NewReader(bytes.NewReader(text))
	root, head, err := r.ReadHead()
	if err != nil || root != sitemap.URLSet || head.Capability != sitemap.ResourceList {
		return 0, 0
	}
	for {
		e, err := r.Read()
		if err == io.EOF {
			return plain, proved
		}
		if err != nil || strings.HasSuffix(e.Loc, ".xml") {
			return 0, 0
		}
		if e.Length >= 0 || len(e.Hashes) > 0 {
			proved++
		} else {
			plain++
		}
	}
}

// A site that knows nothing of ResourceSync: robots.txt names an index of Sitemaps, some of
// them compressed.
func TestPlainSitemaps(t *testing.T) {
	site := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(site, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	defer server.Close()
	urls := func(paths ...string) string {
		text := `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
		for _, p := range paths {
			text += "<url><loc>" + server.URL + p + "</loc><changefreq>daily</changefreq><priority>0.5</priority></url>"
			write(p, "text of "+p)
		}
		return text + "</urlset>"
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, urls("/two/c.html", "/two/d.pdf"))
	z.Close()
	write("maps/one.xml", urls("/a.html", "/one/b.html"))
	write("maps/two.xml.gz", packed.String())
	write("maps/all.xml", fmt.Sprintf(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>%s/maps/one.xml</loc></sitemap>`+
		`<sitemap><loc>%[1]s/maps/two.xml.gz</loc></sitemap></sitemapindex>`, server.URL))
	write("robots.txt", "User-agent: *\nDisallow: /x\nSitemap: "+server.URL+"/maps/all.xml\n")
	dir := filepath.Join(t.TempDir(), "copy")
	sync := func() *destination.Report {
		t.Helper()
		c, err := destination.Open(t.Context(), destination.Options{URL: server.URL, Dir: dir, Settle: time.Millisecond})
		must(t, err)
		defer c.Close()
		r, err := c.Sync(t.Context())
		must(t, err)
		return r
	}
	if r := sync(); r.Fetched != 4 || !r.InSync() {
		t.Errorf("got %+v", r)
	}
	for _, p := range []string{"/a.html", "/one/b.html", "/two/c.html", "/two/d.pdf"} {
		if text, err := os.ReadFile(filepath.Join(dir, p)); string(text) != "text of "+p {
			t.Errorf("%s: got %q, %v", p, text, err)
		}
	}
	if r := sync(); r.Fetched != 0 || r.Same != 4 {
		t.Errorf("asked with If-Modified-Since: got %+v", r)
	}
}

// coded returns text in a content coding.
func coded(t *testing.T, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, 5)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return text
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return b.String()
}

// A server compresses although it was asked not to. The copy has the bytes of the list, and
// without facts in the list the plain ones.
func TestServersThatCompressUnasked(t *testing.T) {
	const (
		full    = iota // length and digest in the list
		length         // no digest
		nothing        // neither
	)
	page := strings.Repeat("<p>text\n", 300)
	large := strings.Repeat("<p>some text that goes on\n", 1<<16)
	for name, tt := range map[string]struct {
		path, text    string // of the resource
		coding, label string // of the body, and as the header says
		typ           string
		facts         int
		failed        string // why, if it is
	}{
		"gzip":                     {"/a", page, "gzip", "gzip", "", full, ""},
		"x-gzip, no digest":        {"/a", page, "gzip", "x-gzip", "", length, ""},
		"gzip, no facts":           {"/a", page, "gzip", "gzip", "text/html", nothing, ""},
		"deflate":                  {"/a", page, "deflate", "deflate", "", full, ""},
		"deflate, no facts":        {"/a", page, "deflate", "deflate", "", nothing, ""},
		"deflate without zlib":     {"/a", page, "raw", "deflate", "", full, ""},
		"zstd":                     {"/a", page, "zstd", "zstd", "", full, ""},
		"large":                    {"/a", large, "gzip", "gzip", "", full, ""},
		"a label without coding":   {"/a", page, "", "gzip", "", full, ""},
		"the same without facts":   {"/a", page, "", "gzip", "", nothing, ""},
		"no coding":                {"/a", page, "", "UTF-8", "", full, ""},
		"identity":                 {"/a", page, "", "identity", "", nothing, ""},
		"an archive":               {"/a.gz", coded(t, "gzip", page), "", "x-gzip", "", full, ""},
		"an archive without facts": {"/a.tgz", coded(t, "gzip", page), "", "gzip", "", nothing, ""},
		"an archive by its type":   {"/a", coded(t, "gzip", page), "", "gzip", "application/gzip", nothing, ""},
		"one of another name":      {"/a", coded(t, "gzip", page), "", "gzip", "", full, ""},
		"a page of odd name":       {"/a.gz", page, "gzip", "gzip", "", full, ""},
		"unknown, but right":       {"/a", page, "", "br", "", full, ""},
		"unknown":                  {"/a", page, "", "br", "", nothing, "content coding: br"},
	} {
		f := newSource(t)
		f.Put(tt.path, tt.text)
		f.Lock(func() { f.Changes, f.From = nil, f.Now })
		f.Edit = func(_ string, e *sitemap.Entry) {
			if e.Capability != "" {
				return
			}
			if tt.facts >= length {
				e.Hashes = nil
			}
			if tt.facts == nothing {
				e.Length = -1
			}
		}
		f.Fault(tt.path, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Encoding", tt.label)
			w.Header().Set("Content-Type", tt.typ)
			io.WriteString(w, coded(t, tt.coding, tt.text))
			return true
		})
		p := newPlace(t, f)
		r := p.mustSync(nil)
		got, _ := os.ReadFile(filepath.Join(p.dir, tt.path))
		said := strings.Join(p.said, "\n")
		if tt.failed != "" {
			if r.Failed != 1 || !strings.Contains(said, tt.failed) {
				t.Errorf("%s: got %+v and %q", name, r, said)
			}
		} else if string(got) != tt.text || !r.InSync() {
			t.Errorf("%s: got %d bytes of %d, %+v, %q", name, len(got), len(tt.text), r, said)
		}
	}
}
