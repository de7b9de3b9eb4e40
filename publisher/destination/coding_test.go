package destination_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"cutie/sitemap"
)

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
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
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
