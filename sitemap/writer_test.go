package sitemap_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/sitemap"
)

var update = flag.Bool("update", false, "write the golden files")

// samples are documents of every kind, by the name of their golden file.
func samples() map[string]document {
	const base = "http://example.com/.well-known/resourcesync"
	up := sitemap.Link{Rel: sitemap.RelUp, Href: base + "/q/pending/capabilitylist.xml"}
	index := sitemap.Link{Rel: sitemap.RelIndex, Href: base + "/q/pending/index.xml"}
	full := fullEntry()
	full.Links = []sitemap.Link{
		{Rel: sitemap.RelDescribedBy, Href: "http://example.com/queues/q/pending/j000000012345", Type: "text/plain"},
		{
			Rel: sitemap.RelDuplicate, Href: "http://mirror.example.com/?a=1&b=<2>", Pri: 1, Modified: full.LastMod,
			Hashes: full.Hashes, Length: 8876, Type: "application/zip", Encoding: "gzip", Path: "/x",
		},
	}
	deleted := sitemap.Entry{Loc: full.Loc, Change: sitemap.Deleted, DateTime: at("2026-03-05"), Length: -1}
	capability := func(c sitemap.Capability) sitemap.Entry {
		return sitemap.Entry{Loc: base + "/q/pending/" + string(c) + ".xml", Capability: c, Length: -1}
	}
	list := fullEntry()
	list.Change, list.DateTime, list.ChangeFreq, list.Priority = "", time.Time{}, "daily", "0.5"
	manifest := fullEntry()
	manifest.Path = "/resources/000001"
	return map[string]document{
		"description.xml": {
			Head:    sitemap.Head{Capability: sitemap.Description},
			Entries: []sitemap.Entry{capability(sitemap.CapabilityList)},
		},
		"capabilitylist.xml": {
			Head: sitemap.Head{Capability: sitemap.CapabilityList, Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: base}}},
			Entries: []sitemap.Entry{
				capability(sitemap.ResourceList), capability(sitemap.ChangeList), capability(sitemap.ChangeListArchive),
			},
		},
		"resourcelist.xml": {
			Head: sitemap.Head{
				Capability: sitemap.ResourceList, At: at("2026-03-04T00:00:00Z"), Completed: at("2026-03-04T00:00:01.5Z"),
				Links: []sitemap.Link{up, index},
			},
			Entries: []sitemap.Entry{list},
		},
		"resourcelist-index.xml": {
			Root: sitemap.SitemapIndex,
			Head: sitemap.Head{Capability: sitemap.ResourceList, At: at("2026-03-04T00:00:00Z"), Links: []sitemap.Link{up}},
			Entries: []sitemap.Entry{
				{Loc: base + "/q/pending/resourcelist-1.xml", At: at("2026-03-04T00:00:00Z"), Length: -1},
				{Loc: base + "/q/pending/resourcelist-2.xml", LastMod: at("2026-03-04"), Length: -1},
			},
		},
		"changelist.xml": {
			Head:    changeListHead(),
			Entries: []sitemap.Entry{full, deleted},
		},
		"changedump.xml": {
			Head: sitemap.Head{
				Capability: sitemap.ChangeDump, From: at("2026-01-01"), Until: at("2026-02-01"), Links: []sitemap.Link{up},
			},
			Entries: []sitemap.Entry{{
				Loc: base + "/q/pending/changedump-1.zip", From: at("2026-01-01"), Until: at("2026-02-01"), Length: 0,
				Links: []sitemap.Link{{Rel: sitemap.RelContents, Href: base + "/q/pending/changedump-1.xml"}},
			}},
		},
		"changedump-manifest.xml": {
			Head:    sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: at("2026-01-01"), Links: []sitemap.Link{up}},
			Entries: []sitemap.Entry{manifest, deleted},
		},
		"resourcelist-archive.xml": {
			Head: sitemap.Head{Capability: sitemap.ResourceListArchive, Links: []sitemap.Link{up}},
			Entries: []sitemap.Entry{
				{Loc: base + "/q/pending/resourcelist-0.xml", At: at("2026-03-04"), Completed: at("2026-03-05"), Length: -1},
			},
		},
	}
}

func TestWriterPrintsGoldenDocuments(t *testing.T) {
	for name, doc := range samples() {
		got, err := doc.write()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if got := parse(t, want); !reflect.DeepEqual(got, doc) {
			t.Errorf("%s reads back as\n%+v\nwant\n%+v", name, got, doc)
		}
	}
}

func TestWrittenDocumentsAreValid(t *testing.T) {
	schemas := shared(t, "xsd")
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	for name, doc := range samples() {
		schema := "joint-sitemap.xsd"
		if doc.Root == sitemap.SitemapIndex {
			schema = "joint-siteindex.xsd"
		}
		text, err := doc.write()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(xmllint, "--noout", "--nonet", "--schema", filepath.Join(schemas, schema), "-")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestWriterRefusesHeads(t *testing.T) {
	now := at("2026-01-01")
	for name, h := range map[string]sitemap.Head{
		"no capability":           {},
		"list without at":         {Capability: sitemap.ResourceList},
		"list with from":          {Capability: sitemap.ResourceList, At: now, From: now},
		"changes without from":    {Capability: sitemap.ChangeList},
		"changes with at":         {Capability: sitemap.ChangeList, From: now, At: now},
		"capability list with at": {Capability: sitemap.CapabilityList, At: now},
		"archive with from":       {Capability: sitemap.ChangeListArchive, From: now},
		"capability of 0.9":       {Capability: "resourcesync"},
		"link of 0.9":             {Capability: sitemap.Description, Links: []sitemap.Link{{Rel: "resourcesync", Href: "/"}}},
		"link without href":       {Capability: sitemap.Description, Links: []sitemap.Link{{Rel: "up"}}},
		"year":                    {Capability: sitemap.ResourceList, At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"control character":       {Capability: "a\x00"},
	} {
		var buf bytes.Buffer
		w := sitemap.NewWriter(&buf)
		if err := w.WriteHead(sitemap.URLSet, h); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
			t.Errorf("%s: writer is of no use after refusing: %v", name, err)
		}
	}
}

func TestWriterRefusesEntries(t *testing.T) {
	loc := "http://example.com/"
	hash := func(alg, value string) sitemap.Entry {
		return sitemap.Entry{Loc: loc, Hashes: []sitemap.Hash{{Alg: alg, Value: value}}}
	}
	link := func(l sitemap.Link) sitemap.Entry {
		l.Rel, l.Href = sitemap.RelDuplicate, loc
		return sitemap.Entry{Loc: loc, Links: []sitemap.Link{l}}
	}
	for name, e := range map[string]sitemap.Entry{
		"no loc":            {},
		"space around loc":  {Loc: loc + " "},
		"control character": {Loc: loc + "\x1f"},
		"noncharacter":      {Loc: loc + "\uffff"},
		"not UTF-8":         {Loc: loc + "\xff"},
		"changefreq":        {Loc: loc, ChangeFreq: "often"},
		"change":            {Loc: loc, Change: "moved"},
		"length":            {Loc: loc, Length: -2},
		"capability of 0.9": {Loc: loc, Capability: "resourcesync"},
		"year":              {Loc: loc, LastMod: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
		"upper-case digest": hash("md5", "AB"),
		"upper-case alg":    hash("MD5", "ab"),
		"space in digest":   hash("md5", "a b"),
		"colon in digest":   hash("md5", "a:b"),
		"empty digest":      hash("md5", ""),
		"priority":          link(sitemap.Link{Pri: 1_000_000}),
		"negative priority": link(sitemap.Link{Pri: -1}),
		"link length":       link(sitemap.Link{Length: -1}),
		"link type":         link(sitemap.Link{Type: "\v"}),
	} {
		var buf bytes.Buffer
		w := sitemap.NewWriter(&buf)
		if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(e); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := parse(t, buf.Bytes()); len(got.Entries) != 0 {
			t.Errorf("%s: left a trace: %+v", name, got.Entries)
		}
	}
}

func TestAppendEntryReplacesWhatXMLForbids(t *testing.T) {
	e := sitemap.Entry{Loc: "a\x00b\xffc\ufffed&<>\"\té", Length: -1}
	got := string(sitemap.AppendEntry(nil, sitemap.SitemapIndex, &e))
	want := "<sitemap><loc>a\ufffdb\ufffdc\ufffdd&amp;&lt;&gt;&quot;&#x9;é</loc></sitemap>\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriterIsFullAtTheLimits(t *testing.T) {
	small := sitemap.Entry{Loc: "http://example.com/", Length: -1}
	large := sitemap.Entry{Loc: "http://example.com/" + strings.Repeat("x", 600<<10), Length: -1}
	for name, tt := range map[string]struct {
		entry sitemap.Entry
		want  int
	}{
		"entries": {small, sitemap.MaxEntries},
		"octets":  {large, 85},
	} {
		var buf bytes.Buffer
		w := sitemap.NewWriter(&buf)
		if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
			t.Fatal(err)
		}
		got := 0
		var err error
		for ; err == nil; got++ {
			err = w.Write(tt.entry)
		}
		if got--; got != tt.want || !errors.Is(err, sitemap.ErrFull) {
			t.Errorf("%s: got %d entries and %v, want %d", name, got, err, tt.want)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if buf.Len() > sitemap.MaxOctets {
			t.Errorf("%s: %d octets", name, buf.Len())
		}
		if got := bytes.Count(buf.Bytes(), []byte("</url>\n")); got != tt.want || !bytes.HasSuffix(buf.Bytes(), []byte("</urlset>\n")) {
			t.Errorf("%s: %d entries in the document, want %d", name, got, tt.want)
		}
	}
}

// brokenWriter takes a number of octets and then fails.
type brokenWriter int

func (b *brokenWriter) Write(p []byte) (int, error) {
	if *b -= brokenWriter(len(p)); *b < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriterStaysBroken(t *testing.T) {
	room := brokenWriter(100 << 10)
	w := sitemap.NewWriter(&room)
	if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
		t.Fatal(err)
	}
	var err error
	for range sitemap.MaxEntries {
		if err = w.Write(fullEntry()); err != nil {
			break
		}
	}
	for _, got := range []error{err, w.Write(fullEntry()), w.Close()} {
		if !errors.Is(got, io.ErrClosedPipe) {
			t.Errorf("got %v", got)
		}
	}
}

func TestWriterKeepsTheOrderOfCalls(t *testing.T) {
	w := sitemap.NewWriter(io.Discard)
	if w.Write(fullEntry()) == nil || w.Close() == nil {
		t.Error("entry or end before the head")
	}
	if err := w.WriteHead(sitemap.URLSet, changeListHead()); err != nil {
		t.Fatal(err)
	}
	if w.WriteHead(sitemap.URLSet, changeListHead()) == nil {
		t.Error("second head")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Write(fullEntry()) == nil || w.Close() == nil {
		t.Error("entry or end after the end")
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	e, h := fullEntry(), changeListHead()
	buf := make([]byte, 0, 4<<10)
	if got := testing.AllocsPerRun(100, func() {
		b := sitemap.AppendHead(buf, sitemap.URLSet, h)
		b = sitemap.AppendEntry(b, sitemap.URLSet, &e)
		sitemap.AppendFoot(b, sitemap.URLSet)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
