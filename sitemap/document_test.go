package sitemap_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cutie/sitemap"
)

// document is all of a document.
type document struct {
	Root    sitemap.Root
	Head    sitemap.Head
	Entries []sitemap.Entry
}

func read(r *sitemap.Reader) (document, error) {
	var d document
	var err error
	if d.Root, d.Head, err = r.ReadHead(); err != nil {
		return d, err
	}
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		d.Entries = append(d.Entries, e)
	}
}

func parse(t testing.TB, text []byte) document {
	t.Helper()
	d, err := read(sitemap.NewReader(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d document) write() ([]byte, error) {
	var buf bytes.Buffer
	w := sitemap.NewWriter(&buf)
	if err := w.WriteHead(d.Root, d.Head); err != nil {
		return nil, err
	}
	for _, e := range d.Entries {
		if err := w.Write(e); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func at(s string) time.Time {
	t, err := sitemap.ParseTime(s)
	if err != nil {
		panic(err)
	}
	return t
}

func changeListHead() sitemap.Head {
	return sitemap.Head{
		Capability: sitemap.ChangeList,
		From:       at("2026-01-01T00:00:00Z"),
		Links:      []sitemap.Link{{Rel: sitemap.RelUp, Href: "http://example.com/capabilitylist.xml"}},
	}
}

// shared returns a folder of the published test material, and skips the test
// where that is absent.
func shared(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CUTIE_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	dir = filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no published test material: %v (set CUTIE_SHARED)", err)
	}
	return dir
}
