package destination_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/sitemap"
)

// randomText returns octets that no two parts have in common.
func randomText(n int) string {
	text := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(text)
	return string(text)
}

// A counting writer ends a connection after some octets.
type cutWriter struct {
	http.ResponseWriter
	left int
	sent *atomic.Int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.ResponseWriter.Write(p[:n])
	c.sent.Add(int64(n))
	if c.left -= n; n < len(p) {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// serveCut serves a resource with ranges; each connection ends after so many octets.
func serveCut(f *testSource, path string, octets func() int, tag func() string, sent *atomic.Int64) {
	f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool {
		if tag() != "" {
			w.Header().Set("ETag", tag())
		}
		http.ServeContent(&cutWriter{w, octets(), sent}, r, "", time.Time{}, strings.NewReader(f.Resources[path]))
		return true
	})
}

// A large file goes on where it was cut off, within a run and in the next one; nothing
// unfinished has its name.
func TestLargeFilesAreResumed(t *testing.T) {
	f := newSource(t)
	text := randomText(4 << 20)
	f.Put("/large", text)
	var sent atomic.Int64
	serveCut(f, "/large", func() int { return 1 << 19 }, func() string { return `"1"` }, &sent)
	p := newPlace(t, f)
	for range 3 {
		if r, err := p.sync(nil); err == nil && r.InSync() {
			break
		}
		if got := p.files(); len(got) > 0 && got["/large"] != text {
			t.Fatal("unfinished octets have the name of the resource")
		}
	}
	p.want()
	if n := sent.Load(); n > 5<<20 {
		t.Errorf("%d octets were sent of %d", n, len(text))
	}
	if parts, _ := filepath.Glob(filepath.Join(p.dir, ".cutie-sync", "part-*")); len(parts) > 0 {
		t.Errorf("left %v", parts)
	}
}

// Octets of another version are no part of the resource, whatever the server says.
func TestPartsOfOtherVersions(t *testing.T) {
	for name, tag := range map[string]func(n int32) string{
		"new tag":  func(n int32) string { return fmt.Sprintf("%q", fmt.Sprint(n)) },
		"same tag": func(int32) string { return `"1"` },
		"no tag":   func(int32) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			text := randomText(2 << 20)
			f.Put("/large", text)
			var n atomic.Int32
			f.Fault("/large", func(w http.ResponseWriter, r *http.Request) bool {
				body := text
				if n.Add(1) == 1 {
					body = strings.Repeat("x", len(text))
				}
				if s := tag(n.Load()); s != "" {
					w.Header().Set("ETag", s)
				}
				var sent atomic.Int64
				left := len(text)
				if n.Load() == 1 {
					left = 1 << 19
				}
				http.ServeContent(&cutWriter{w, left, &sent}, r, "", time.Time{}, strings.NewReader(body))
				return true
			})
			p := newPlace(t, f)
			if r := p.mustSync(nil); !r.InSync() {
				t.Errorf("got %+v, said %q", r, p.said)
			}
			p.want()
		})
	}
}

// A package stays until all its files are made, and is completed if it was cut off.
func TestPackagesAreResumed(t *testing.T) {
	f := newSource(t)
	f.Dumped = true
	for i := range 30 {
		f.Put(fmt.Sprint("/r", i), randomText(64<<10))
	}
	dumpWithDigest(t, f)
	pack := f.Package()
	var sent atomic.Int64
	f.Fault("/set/dump.zip", func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&cutWriter{w, len(pack)/3 + 1, &sent}, r, "", time.Time{}, bytes.NewReader(pack))
		return true
	})
	p := newPlace(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	f.Fault("/set/changelist.xml", func(http.ResponseWriter, *http.Request) bool { cancel(); return false })
	by := func(o *destination.Options) { o.By, o.HTTP.Tries = destination.ByDump, 2 }
	if _, err := p.sync(by); err == nil {
		t.Error("the package was not cut off")
	}
	c, err := p.open(by)
	if err != nil {
		t.Fatal(err)
	}
	c.Sync(ctx)
	c.Close()
	f.Fault("/set/changelist.xml", nil)
	p.mustSync(by)
	p.want()
	if n := sent.Load(); n > int64(len(pack))+1024 || f.Asked["/r0"] > 0 {
		t.Errorf("%d octets were sent of %d; asked for %v", n, len(pack), f.Asked)
	}
}

// dumpWithDigest gives the package of a Source a digest.
func dumpWithDigest(t *testing.T, f *testSource) {
	pack := f.Package()
	sum := sha256.Sum256(pack)
	f.Fault("/set/resourcedump.xml", func(w http.ResponseWriter, _ *http.Request) bool {
		f.Document(w, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceDump, At: f.Now, Links: f.Up()}, []sitemap.Entry{
			{Loc: f.URL + "/set/dump.zip", Length: int64(len(pack)), Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}}})
		return true
	})
}
