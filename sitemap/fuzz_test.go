package sitemap_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"cutie/sitemap"
)

// FuzzReader: no document makes the reader panic, and what it read either
// prints and reads back as the same, or is refused by the writer.
func FuzzReader(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.xml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(open + `<rs:ln rel="resourcesync" href="c"/><rs:md capability="resourcelist" from="2013"/><url><loc>a</loc></url></urlset>`))
	f.Add([]byte(open13 + `<rs:md capability="resourcelist" modified="2013"/><rs:ln rel="top" href="c"/></urlset>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := read(sitemap.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		printed, err := doc.write()
		if err != nil {
			return
		}
		if got := parse(t, printed); !reflect.DeepEqual(got, doc) {
			t.Errorf("got\n%+v\nwant\n%+v", got, doc)
		}
	})
}

// FuzzRoundTrip: what the writer takes reads back as the same, and what it
// refuses still leaves the append functions well-formed.
func FuzzRoundTrip(f *testing.F) {
	f.Add(true, "changelist", "http://example.com/", int64(1357203600000000), int64(0), "created", "md5", "ab", int64(5), "text/plain", "up", 1, uint64(1))
	f.Add(false, "resourcelist", "a&<>\"\r\n\t'", int64(0), int64(1357203600000001), "", "", "é", int64(-1), "", "top", 0, uint64(0))
	f.Fuzz(func(t *testing.T, list bool, capability, text string, from, to int64, change, alg, digest string, length int64, typ, rel string, pri int, seq uint64) {
		instant := func(us int64) time.Time {
			if us == 0 {
				return time.Time{}
			}
			return time.UnixMicro(us).UTC()
		}
		hashes := []sitemap.Hash{{Alg: alg, Value: digest}}
		link := sitemap.Link{
			Rel: rel, Href: text, Pri: pri, Modified: instant(to), Hashes: hashes, Length: length, Type: typ, Path: text,
		}
		want := document{
			Head: sitemap.Head{Capability: sitemap.Capability(capability), From: instant(from), Until: instant(to), Links: []sitemap.Link{link}},
			Entries: []sitemap.Entry{{
				Loc: text, LastMod: instant(from), Priority: typ, Capability: sitemap.Capability(typ),
				Change: sitemap.Change(change), DateTime: instant(to), Hashes: hashes, Length: length, Type: typ, Encoding: text, Path: rel,
				At: instant(from), Completed: instant(to), Event: text, Seq: seq, Links: []sitemap.Link{link, link},
			}},
		}
		if !list {
			want.Root = sitemap.SitemapIndex
			want.Head.At, want.Head.Completed = want.Head.From, want.Head.Until
			want.Head.From, want.Head.Until = time.Time{}, time.Time{}
		}
		printed, err := want.write()
		if err != nil {
			return
		}
		if got := parse(t, printed); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v\nwant\n%+v", got, want)
		}
	})
}
