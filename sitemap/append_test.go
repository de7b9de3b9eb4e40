package sitemap_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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

func TestDocumentsPrintAsTheGoldenFiles(t *testing.T) {
	for name, doc := range samples() {
		got := doc.print(sitemap.V11)
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
		cmd := exec.Command(xmllint, "--noout", "--nonet", "--schema", filepath.Join(schemas, schema), "-")
		cmd.Stdin = bytes.NewReader(doc.print(sitemap.V11))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
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

// print prints the document in a dialect.
func (d document) print(v sitemap.Dialect) []byte {
	text := v.AppendHead(nil, d.Root, d.Head)
	for i := range d.Entries {
		text = v.AppendEntry(text, d.Root, &d.Entries[i])
	}
	return sitemap.AppendFoot(text, d.Root)
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

// TestPublishedExamplesPrintBackInTheirDialect reads the examples of each
// version and prints them again: canonically, the same document comes out.
func TestPublishedExamplesPrintBackInTheirDialect(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		vectors(t, "v"+d.String(), func(name string, text []byte) {
			if got, want := canonical(t, parse(t, text).print(d)), canonical(t, text); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
		})
	}
}

// canonical returns an element a line: its attributes in order of their names,
// times and digests in one form. Children stand in the order of their lines,
// but entries stay in theirs.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	var element func(start xml.StartElement) string
	element = func(start xml.StartElement) string {
		var attrs, children, entries []string
		for _, a := range start.Attr {
			if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
				attrs = append(attrs, fmt.Sprintf("%s=%q", a.Name.Local, canonicalValue(a.Name.Local, a.Value)))
			}
		}
		slices.Sort(attrs)
		var content strings.Builder
		for {
			tok, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			switch tok := tok.(type) {
			case xml.CharData:
				content.Write(tok)
			case xml.StartElement:
				if tok.Name.Local == "url" || tok.Name.Local == "sitemap" {
					entries = append(entries, element(tok))
				} else {
					children = append(children, element(tok))
				}
			case xml.EndElement:
				slices.Sort(children)
				value := canonicalValue(start.Name.Local, strings.TrimSpace(content.String()))
				head := strings.TrimSpace(fmt.Sprint(start.Name.Space, " ", start.Name.Local, " ", strings.Join(attrs, " "), " ", value))
				return head + "\n" + strings.Join(append(children, entries...), "")
			}
		}
	}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			t.Fatal("no element")
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := tok.(xml.StartElement); ok {
			return element(start)
		}
	}
}

func canonicalValue(name, value string) string {
	switch name {
	case "lastmod", "modified", "at", "completed", "from", "until", "datetime":
		if when, err := sitemap.ParseTime(value); err == nil {
			return string(sitemap.AppendTime(nil, when))
		}
	case "hash":
		return strings.Join(strings.Fields(value), " ")
	}
	return value
}

// TestADialectReadsBackAsFarAsItGoes prints what 1.1 has in the older versions.
func TestADialectReadsBackAsFarAsItGoes(t *testing.T) {
	up := sitemap.Link{Rel: sitemap.RelUp, Href: "http://x/capabilitylist.xml"}
	index := sitemap.Link{Rel: sitemap.RelIndex, Href: "http://x/index.xml"}
	contents := sitemap.Link{Rel: sitemap.RelContents, Href: "http://x/1-manifest.xml"}
	const begin, end = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	for _, tt := range []struct {
		name     string
		in       document
		v10, v09 document
	}{
		{
			name: "changes",
			in: document{
				Head: sitemap.Head{Capability: sitemap.ChangeList, From: at(begin), Until: at(end), Links: []sitemap.Link{up, index}},
				Entries: []sitemap.Entry{
					{Loc: "http://x/a", LastMod: at("2025-01-01"), Change: sitemap.Created, DateTime: at(begin), Length: 3, Event: "submit", Seq: 1},
					{Loc: "http://x/a", Change: sitemap.Deleted, DateTime: at(end), Length: -1},
				},
			},
			v10: document{
				Head: sitemap.Head{Capability: sitemap.ChangeList, From: at(begin), Until: at(end), Links: []sitemap.Link{up, index}},
				Entries: []sitemap.Entry{
					{Loc: "http://x/a", LastMod: at(begin), Change: sitemap.Created, Length: 3, Event: "submit", Seq: 1},
					{Loc: "http://x/a", LastMod: at(end), Change: sitemap.Deleted, Length: -1},
				},
			},
		},
		{
			name: "packages",
			in: document{
				Head: sitemap.Head{Capability: sitemap.ResourceDump, At: at(begin), Completed: at(end), Links: []sitemap.Link{up}},
				Entries: []sitemap.Entry{
					{Loc: "http://x/1.zip", At: at(begin), Completed: at(end), Length: 9, Links: []sitemap.Link{contents}},
				},
			},
			v10: document{
				Head: sitemap.Head{Capability: sitemap.ResourceDump, At: at(begin), Completed: at(end), Links: []sitemap.Link{up}},
				Entries: []sitemap.Entry{
					{Loc: "http://x/1.zip", At: at(begin), Completed: at(end), Length: 9, Links: []sitemap.Link{contents}},
				},
			},
			v09: document{
				Head:    sitemap.Head{Capability: sitemap.ResourceDump, At: at(begin), Links: []sitemap.Link{up}},
				Entries: []sitemap.Entry{{Loc: "http://x/1.zip", LastMod: at(end), Length: 9}},
			},
		},
		{
			name: "description",
			in: document{
				Head:    sitemap.Head{Capability: sitemap.Description},
				Entries: []sitemap.Entry{{Loc: "http://x/c", Capability: sitemap.CapabilityList, Length: -1}},
			},
			v10: document{
				Head:    sitemap.Head{Capability: sitemap.Description},
				Entries: []sitemap.Entry{{Loc: "http://x/c", Capability: sitemap.CapabilityList, Length: -1}},
			},
		},
	} {
		if tt.v09.Head.Capability == "" {
			tt.v09 = tt.v10
		}
		for d, want := range map[sitemap.Dialect]document{sitemap.V11: tt.in, sitemap.V10: tt.v10, sitemap.V09: tt.v09} {
			r := sitemap.NewReader(bytes.NewReader(tt.in.print(d)))
			got, err := read(r)
			for i := range got.Entries {
				if got.Entries[i].Links == nil && len(want.Entries[i].Links) == 0 {
					want.Entries[i].Links = nil
				}
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %v: %v, got\n%+v\nwant\n%+v", tt.name, d, err, got, want)
			}
			if d == sitemap.V09 && r.Dialect() != d {
				t.Errorf("%s in %v is taken for %v", tt.name, d, r.Dialect())
			}
		}
	}
}

func TestParseDialectAcceptsWhatStringPrints(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09, sitemap.Jan2013} {
		if got, err := sitemap.ParseDialect(d.String()); got != d || err != nil {
			t.Errorf("%v: got %v, %v", d, got, err)
		}
	}
	for _, bad := range []string{"", "1", "1.10", " 1.1", "V11", "2.0"} {
		if d, err := sitemap.ParseDialect(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, d)
		}
	}
}

func TestParseTime(t *testing.T) {
	utc := func(year int, month time.Month, day, hour, minute, second, us int) time.Time {
		return time.Date(year, month, day, hour, minute, second, us*1000, time.UTC)
	}
	for _, tt := range []struct {
		in   string
		want time.Time
	}{
		{"2013", utc(2013, 1, 1, 0, 0, 0, 0)},
		{"2013-02", utc(2013, 2, 1, 0, 0, 0, 0)},
		{"2013-02-03", utc(2013, 2, 3, 0, 0, 0, 0)},
		{"2013-02-03T04:05Z", utc(2013, 2, 3, 4, 5, 0, 0)},
		{"2013-02-03T04:05", utc(2013, 2, 3, 4, 5, 0, 0)},
		{"2013-02-03T04:05+02:00", utc(2013, 2, 3, 2, 5, 0, 0)},
		{"2013-02-03T04:05:06Z", utc(2013, 2, 3, 4, 5, 6, 0)},
		{"2013-02-03T04:05:06", utc(2013, 2, 3, 4, 5, 6, 0)},
		{"2013-02-03T04:05:06+02:00", utc(2013, 2, 3, 2, 5, 6, 0)},
		{"2013-02-03T04:05:06-05:30", utc(2013, 2, 3, 9, 35, 6, 0)},
		{"2013-02-03T04:05:06.5Z", utc(2013, 2, 3, 4, 5, 6, 500_000)},
		{"2013-02-03T04:05:06.123456789", utc(2013, 2, 3, 4, 5, 6, 123_456)},
		{"2013-02-03T04:05:06.000120-01:00", utc(2013, 2, 3, 5, 5, 6, 120)},
		{"2012-02-29T23:59:59.999999Z", utc(2012, 2, 29, 23, 59, 59, 999_999)},
	} {
		got, err := sitemap.ParseTime(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
		} else if got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.in, got, tt.want)
		}
	}
	for _, in := range []string{
		"", "yesterday", "13-01-01", "2013-13-01", "2013-02-29", "2013-02-03T", "2013-02-03T04:05:60Z",
		"2013-02-03 04:05:06Z", "2013-02-03T04:05:06+2", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00",
	} {
		if got, err := sitemap.ParseTime(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
}

func TestAppendTime(t *testing.T) {
	for _, tt := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2013, 1, 3, 9, 0, 0, 0, time.UTC), "2013-01-03T09:00:00Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 999, time.UTC), "2013-01-03T09:00:00Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 120_999, time.UTC), "2013-01-03T09:00:00.000120Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 500_000_000, time.UTC), "2013-01-03T09:00:00.500000Z"},
		{time.Date(2013, 1, 3, 1, 0, 0, 0, time.FixedZone("", 2*60*60)), "2013-01-02T23:00:00Z"},
		{time.Date(987, 12, 31, 23, 59, 59, 0, time.UTC), "0987-12-31T23:59:59Z"},
	} {
		if got := string(sitemap.AppendTime(nil, tt.in)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.in, got, tt.want)
		}
	}
}

// fullEntry is what a Source writes for each change.
func fullEntry() sitemap.Entry {
	return sitemap.Entry{
		Loc:      "http://example.com/queues/ingest/payload/j000000012345",
		LastMod:  time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC),
		Change:   sitemap.Created,
		DateTime: time.Date(2026, 3, 4, 5, 6, 7, 123457000, time.UTC),
		Hashes: []sitemap.Hash{
			{Alg: "md5", Value: "1584abdf8ebdc9802ac0c6a7402c03b6"},
			{Alg: "sha-256", Value: "854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"},
		},
		Length: 8876,
		Type:   "application/zip",
		Event:  "submit",
		Seq:    12345,
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := fullEntry()
	buf := sitemap.AppendEntry(nil, sitemap.URLSet, &e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = sitemap.AppendEntry(buf[:0], sitemap.URLSet, &e)
	}
}

func BenchmarkReader(b *testing.B) {
	const entries = 1000
	e := fullEntry()
	doc := sitemap.AppendHead(nil, sitemap.URLSet, changeListHead())
	for range entries {
		doc = sitemap.AppendEntry(doc, sitemap.URLSet, &e)
	}
	doc = sitemap.AppendFoot(doc, sitemap.URLSet)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		parse(b, doc)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}
