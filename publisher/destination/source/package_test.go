package source_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

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
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w, manifest, &listed)
	for i := range files {
		if _, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
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
		read := 0
		e, err := p.Read()
		for ; err == nil; e, err = p.Read() {
			if want := fmt.Sprintf("http://s.org/%d", read); e.Loc != want {
				t.Errorf("got %q, want %q", e.Loc, want)
			}
			read++
		}
		if read != min(tt.entries, 10) || (err == io.EOF) != (tt.entries <= 10) {
			t.Errorf("%+v: read %d, %v", tt, read, err)
		}
		p.Close()
	}
}
