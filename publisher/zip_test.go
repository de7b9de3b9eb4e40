package publisher_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/sitemap"
)

// TestPayloadsThatDoNotShrinkAreStored packs payloads of all sizes that matter,
// of a type that is likely to shrink and of one that is not.
func TestPayloadsThatDoNotShrinkAreStored(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	noise := rand.NewChaCha8([32]byte{1})
	want := map[string]uint16{} // method by contents
	add := func(text, mediaType string, method uint16) {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{MediaType: mediaType})
		must(t, err)
		_, err = io.WriteString(d, text)
		must(t, err)
		_, err = sub.Commit(context.Background())
		must(t, err)
		want[text] = method
	}
	for _, size := range []int{0, 4095, 4096, 5000, 1 << 20, 1<<20 + 1, 3 << 20} {
		random := make([]byte, size)
		noise.Read(random)
		words := strings.Repeat("word ", size/5+1)[:size]
		deflated, stored := zip.Deflate, zip.Store
		if size < 4096 {
			deflated = zip.Store
		}
		if size > 1<<20 { // a reader of ZIP wants to know the length before
			stored = zip.Deflate
		}
		add(words, "text/plain", deflated)
		add(string(random), "text/plain", stored)
		add(string(random[:size/2])+words[size/2:], "application/octet-stream", stored)
	}
	for range 200 {
		add(strings.Repeat("a small one ", 350)+string(rune('a'+len(want)%26))+strings.Repeat("x", len(want)), "text/plain", zip.Deflate)
	}
	must(t, s.pub.Publish(context.Background()))
	m := newMirror(s, "jobs", "pending")
	m.dump()
	m.compare(q)
	seen := map[string]bool{}
	for _, e := range m.capability(sitemap.ResourceDump).entries {
		data := s.body(e.Loc)
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		for _, f := range z.File[1:] {
			r, err := f.Open()
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			method, ok := want[string(text)]
			if seen[string(text)] = true; !ok || f.Method != method {
				t.Errorf("%s of %d octets has method %d, want %d (%v)", f.Name, len(text), f.Method, method, ok)
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d payloads, want %d", len(seen), len(want))
	}
}
