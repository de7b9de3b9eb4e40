package sitemap_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/text/encoding/unicode"

	"cutie/sitemap"
)

// vectors calls f with each example document of a version.
func vectors(t *testing.T, version string, f func(name string, text []byte)) {
	dir := shared(t, "vectors/resourcesync/"+version)
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in %s: %v", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f(version+"/"+filepath.Base(file), text)
	}
}

func TestReaderTakesThePublishedExamples(t *testing.T) {
	for _, version := range []string{"v0.9", "v1.0", "v1.1"} {
		vectors(t, version, func(name string, text []byte) {
			r := sitemap.NewReader(strings.NewReader(string(text)))
			doc, err := read(r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if want := strings.Count(string(text), "<loc>"); len(doc.Entries) != want {
				t.Errorf("%s: got %d entries, want %d", name, len(doc.Entries), want)
			}
			checkNormal(t, name, doc)
			if got := r.Dialect(); !plausible(got, version, doc) {
				t.Errorf("%s: taken for %v", name, got)
			}
		})
	}
}

// checkNormal checks that nothing of the older versions is left.
func checkNormal(t *testing.T, name string, doc document) {
	t.Helper()
	h := doc.Head
	switch h.Capability {
	case "resourcesync":
		t.Errorf("%s: capability %s", name, h.Capability)
	case sitemap.ResourceList, sitemap.ResourceDump, sitemap.ResourceDumpManifest:
		if h.At.IsZero() || !h.From.IsZero() {
			t.Errorf("%s: at %v, from %v", name, h.At, h.From)
		}
	case sitemap.ResourceListArchive, sitemap.ChangeListArchive:
		if !h.At.IsZero() || !h.From.IsZero() && !strings.HasPrefix(name, "v0.9") {
			t.Errorf("%s: root times %+v", name, h)
		}
	}
	for _, l := range h.Links {
		if l.Rel == "resourcesync" || l.Rel == sitemap.RelUp && strings.Contains(l.Href, "index") {
			t.Errorf("%s: link %+v", name, l)
		}
	}
	for _, e := range doc.Entries {
		if !strings.HasPrefix(name, "v1.1") && e.Change != "" && e.Changed().IsZero() {
			t.Errorf("%s: %s changed at no time", name, e.Loc)
		}
	}
}

// plausible reports whether a document of a version can be told as that: only
// changes tell 1.0 from 1.1, and some examples of 0.9 use nothing that changed.
func plausible(d sitemap.Dialect, version string, doc document) bool {
	changes := len(doc.Entries) > 0 && doc.Entries[0].Change != ""
	dated := changes && !doc.Entries[0].DateTime.IsZero()
	switch version {
	case "v1.1":
		return d == sitemap.V11 || d == sitemap.V10 && changes && !dated
	case "v1.0":
		return d == sitemap.V11 && !changes || d == sitemap.V10 && changes
	}
	return d == sitemap.V09 || doc.Head.Link(sitemap.RelUp) == ""
}

func TestPublishedExamplesPrintBack(t *testing.T) {
	vectors(t, "v1.1", func(name string, text []byte) {
		want := parse(t, text)
		if got := parse(t, want.print(sitemap.V11)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
		}
	})
}

const (
	open    = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	open13  = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/">`
	changes = `<rs:md capability="changelist" from="2013-01-01T00:00:00Z"/>`
)

func TestReaderNormalisesDialects(t *testing.T) {
	const links = `<rs:ln rel="resourcesync" href="c"/><rs:ln rel="up" href="i"/>`
	up := []sitemap.Link{{Rel: sitemap.RelUp, Href: "c"}, {Rel: sitemap.RelIndex, Href: "i"}}
	for _, tt := range []struct {
		name, text string
		dialect    sitemap.Dialect
		want       sitemap.Head
	}{
		{
			"0.9 list", open + links + `<rs:md capability="resourcelist" from="2013-01-03"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.ResourceList, At: at("2013-01-03"), Links: up},
		},
		{
			"0.9 changes", open + links + `<rs:md capability="changelist" from="2013-01-03" until="2013-01-04"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.ChangeList, From: at("2013-01-03"), Until: at("2013-01-04"), Links: up},
		},
		{
			"0.9 description", open + `<rs:md capability="resourcesync"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.Description},
		},
		{
			"0.9 archive", open + links + `<rs:md capability="resourcelist-archive" from="2013-01-03"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.ResourceListArchive, From: at("2013-01-03"), Links: up},
		},
		{
			"0.6 list", open + links + `<rs:md capability="resourcelist" modified="2013-01-03"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.ResourceList, At: at("2013-01-03"), Links: up},
		},
		{
			"2013 list",
			open13 + `<rs:md capability="resourcelist" modified="2013-01-03"/><rs:ln rel="top" href="c"/><rs:ln rel="up" href="i"/>`,
			sitemap.Jan2013,
			sitemap.Head{Capability: sitemap.ResourceList, At: at("2013-01-03"), Links: up},
		},
		{
			"2013 changes", open13 + `<rs:md capability="changelist" modified="2013-01-03"/>`, sitemap.Jan2013,
			sitemap.Head{Capability: sitemap.ChangeList},
		},
		{
			"1.0 with from for at",
			open + `<rs:md capability="resourcelist" from="2013-01-03"/><rs:ln rel="up" href="c"/>`, sitemap.V09,
			sitemap.Head{Capability: sitemap.ResourceList, At: at("2013-01-03"), Links: up[:1]},
		},
		{
			"prefixed attributes", open + `<rs:md rs:capability="changelist" rs:from="2013-01-03T02:00:00+02:00"/>`, sitemap.V11,
			sitemap.Head{Capability: sitemap.ChangeList, From: at("2013-01-03")},
		},
	} {
		r := sitemap.NewReader(strings.NewReader(tt.text + "</urlset>"))
		got, err := read(r)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !reflect.DeepEqual(got.Head, tt.want) || r.Dialect() != tt.dialect {
			t.Errorf("%s: got %v %+v, want %v %+v", tt.name, r.Dialect(), got.Head, tt.dialect, tt.want)
		}
	}
}

func TestReaderTellsOneZeroByItsChanges(t *testing.T) {
	const (
		old   = `<url><loc>a</loc><lastmod>2013-01-03</lastmod><rs:md change="created"/></url>`
		dated = `<url><loc>a</loc><lastmod>2013-01-02</lastmod><rs:md change="created" datetime="2013-01-03"/></url>`
	)
	for _, tt := range []struct {
		entries string
		want    sitemap.Dialect
	}{
		{"", sitemap.V11},
		{old, sitemap.V10},
		{dated, sitemap.V11},
		{old + dated, sitemap.V11},
		{dated + old, sitemap.V11},
	} {
		r := sitemap.NewReader(strings.NewReader(open + changes + tt.entries + "</urlset>"))
		doc, err := read(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Dialect(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.entries, got, tt.want)
		}
		for _, e := range doc.Entries {
			if got, want := e.Changed(), at("2013-01-03"); got != want {
				t.Errorf("%s: changed %v, want %v", tt.entries, got, want)
			}
		}
	}
}

func TestReaderToleratesWhatOccurs(t *testing.T) {
	text := "\ufeff<?xml version='1.0'?><!-- c -->" + open + `
		<rs:ln href="h" rel="up"/><x:y xmlns:x="x"><x:z/></x:y>` + changes + `
		<url a="b"><news:n xmlns:news="n">x</news:n><loc>
			http://example.com/?a&amp;b </loc><lastmod></lastmod><video>x</video>
		<rs:md change="updated" length="" datetime="2013-01-02T03:04:05" etag="e"
			hash="MD5:AB
			sha-256:f4OxZX_x- urn:sha1:0c qqq=" cut:event="x" e:event="consume" e:seq="7"
			xmlns:e="http://uc3.cdlib.org/ontology/mrt/cutie/event"/></url></urlset><!-- end -->
`
	want := sitemap.Entry{
		Loc: "http://example.com/?a&b", Change: sitemap.Updated, DateTime: at("2013-01-02T03:04:05Z"), Length: -1,
		Hashes: []sitemap.Hash{
			{Alg: "md5", Value: "ab"}, {Alg: "sha-256", Value: "f4OxZX_x-"}, {Alg: "urn:sha1", Value: "0c"}, {Value: "qqq="},
		},
		Event: "consume", Seq: 7,
	}
	got := parse(t, []byte(text))
	if len(got.Entries) != 1 || !reflect.DeepEqual(got.Entries[0], want) {
		t.Errorf("got %+v\nwant %+v", got.Entries, want)
	}
}

func TestReaderRefuses(t *testing.T) {
	entry := func(s string) string { return open + changes + "\n<url><loc>a</loc>" + s + "</url></urlset>" }
	for _, tt := range []struct {
		name, text string
		line       int
	}{
		{"nothing", "", 1},
		{"HTML", "<!DOCTYPE html>\n<html></html>", 2},
		{"another namespace", `<urlset xmlns="x"/>`, 1},
		{"no rs:md", open + "\n<url><loc>a</loc></url></urlset>", 2},
		{"no capability", open + "\n<rs:md/></urlset>", 2},
		{"two rs:md", open + changes + "\n" + changes + "</urlset>", 2},
		{"late rs:md", open + changes + "<url><loc>a</loc></url>\n" + changes + "</urlset>", 2},
		{"late rs:ln", open + changes + "<url><loc>a</loc></url>\n<rs:ln rel='up' href='h'/></urlset>", 2},
		{"sitemap in urlset", open + changes + "\n<sitemap><loc>a</loc></sitemap></urlset>", 2},
		{"root time", open + "\n<rs:md capability='changelist' from='x'/></urlset>", 2},
		{"link without href", open + changes + "\n<rs:ln rel='up'/></urlset>", 2},
		{"no loc", open + changes + "\n<url></url></urlset>", 2},
		{"two loc", entry("<loc>b</loc>"), 2},
		{"loc with elements", open + changes + "\n<url><loc><a/></loc></url></urlset>", 2},
		{"lastmod", entry("\n<lastmod>x</lastmod>"), 3},
		{"two entry rs:md", entry("\n<rs:md/>\n<rs:md/>"), 4},
		{"change", entry("<rs:md change='moved'/>"), 2},
		{"length", entry("<rs:md length='-1'/>"), 2},
		{"priority", entry("<rs:ln rel='duplicate' href='a' pri='0'/>"), 2},
		{"sequence number", entry("<rs:md xmlns:c='http://uc3.cdlib.org/ontology/mrt/cutie/event' c:seq='x'/>"), 2},
		{"cut off", open + changes + "\n<url><loc>a</loc></url>", 2},
		{"not well-formed", entry("</loc>"), 2},
		{"second root", entry("") + "\n<urlset/>", 3},
		{"another charset", "<?xml version='1.0' encoding='latin1'?>" + open, 1},
	} {
		doc, err := read(sitemap.NewReader(strings.NewReader(tt.text)))
		var parseErr *sitemap.ParseError
		if !errors.As(err, &parseErr) {
			t.Errorf("%s: got %+v, %v", tt.name, doc, err)
			continue
		}
		if parseErr.Line != tt.line {
			t.Errorf("%s: got %v, want line %d", tt.name, err, tt.line)
		}
	}
}

func TestReaderKeepsItsLimits(t *testing.T) {
	one := "<url><loc>http://example.com/</loc></url>"
	head := open + changes
	for _, tt := range []struct {
		name string
		r    sitemap.Reader
		text string
		want int // entries before the error
	}{
		{"entries", sitemap.Reader{MaxEntries: 3}, head + strings.Repeat(one, 4), 3},
		{"octets of an entry", sitemap.Reader{MaxElement: 1000}, head + one + one + "<url><loc>" + strings.Repeat("x", 1000), 2},
		{"octets of the head", sitemap.Reader{MaxElement: 1000}, head + strings.Repeat("<rs:ln rel='a' href='b'/>", 100), 0},
		{"octets of a foreign element", sitemap.Reader{MaxElement: 1000}, head + one + "<x>" + strings.Repeat("<y/>", 1000), 1},
	} {
		r := sitemap.NewReader(strings.NewReader(tt.text))
		r.MaxEntries, r.MaxElement = tt.r.MaxEntries, tt.r.MaxElement
		doc, err := read(r)
		var parseErr *sitemap.ParseError
		if !errors.As(err, &parseErr) || errors.Is(err, io.ErrUnexpectedEOF) || len(doc.Entries) != tt.want {
			t.Errorf("%s: got %d entries and %v, want %d", tt.name, len(doc.Entries), err, tt.want)
		}
		if _, again := r.Read(); again != err {
			t.Errorf("%s: then got %v", tt.name, again)
		}
	}
}

func TestReaderHandsOnInputErrors(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(open+changes+"<url><loc>"), iotest.ErrReader(io.ErrClosedPipe))
	_, err := read(sitemap.NewReader(broken))
	if err != io.ErrClosedPipe {
		t.Errorf("got %v", err)
	}
}

func TestReaderTakesAFullDocument(t *testing.T) {
	e := fullEntry()
	doc := sitemap.AppendHead(nil, sitemap.URLSet, changeListHead())
	for i := range sitemap.MaxEntries {
		e.Seq = uint64(i + 1)
		e.DateTime = e.DateTime.Add(time.Microsecond)
		doc = sitemap.AppendEntry(doc, sitemap.URLSet, &e)
	}
	got := parse(t, sitemap.AppendFoot(doc, sitemap.URLSet)).Entries
	if len(got) != sitemap.MaxEntries || !reflect.DeepEqual(got[len(got)-1], e) {
		t.Errorf("got %d entries, the last %+v", len(got), got[len(got)-1])
	}
}

func TestPlainSitemaps(t *testing.T) {
	for _, text := range []string{
		`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://s.org/a</loc><lastmod>2026-01-02</lastmod></url></urlset>`,
		`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://s.org/a</loc></sitemap></sitemapindex>`,
	} {
		r := sitemap.NewReader(strings.NewReader(text))
		if _, _, err := r.ReadHead(); err == nil {
			t.Errorf("%s: taken", text)
		}
		r = sitemap.NewReader(strings.NewReader(text))
		r.Plain = true
		root, head, err := r.ReadHead()
		if err != nil || head.Capability != sitemap.ResourceList || !head.At.IsZero() || !strings.Contains(text, "<"+root.String()) {
			t.Errorf("%s: got %v, %+v, %v", text, root, head, err)
		}
		if e, err := r.Read(); err != nil || e.Loc != "http://s.org/a" {
			t.Errorf("%s: got %+v, %v", text, e, err)
		}
	}
}

// With Fault a part that is not needed counts as absent where it cannot be read, and all else
// of the entry is read.
func TestOptionalPartsCountAsAbsent(t *testing.T) {
	const loc = "<loc>http://s.org/c</loc>"
	for text, want := range map[string]sitemap.Entry{
		`<lastmod>2026-11-02T00:00:00+0000</lastmod><rs:md length="2"/>`:                      {Length: 2},
		`<lastmod>31 Feb</lastmod><rs:md length="2"/>`:                                        {Length: 2},
		`<rs:md length="1,234" type="text/plain"/>`:                                           {Length: -1, Type: "text/plain"},
		`<rs:md length="-1"/>`:                                                                {Length: -1},
		`<rs:md length="2.0"/>`:                                                               {Length: -1},
		`<rs:md change="moved" length="2"/>`:                                                  {Length: 2},
		`<rs:md datetime="yesterday" change="deleted"/>`:                                      {Length: -1, Change: sitemap.Deleted},
		`<rs:md length="2"/><rs:md type="text/plain"/>`:                                       {Length: 2},
		`<rs:ln rel="describedby"/><rs:md length="2"/>`:                                       {Length: 2},
		`<rs:ln rel="duplicate" href="http://x.org/" pri="0" length="x"/><rs:md length="2"/>`: {Length: 2, Links: []sitemap.Link{{Rel: "duplicate", Href: "http://x.org/"}}},
	} {
		doc := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist" from="2026-01-01T00:00:00Z"/><url>` + loc + text + `</url><url><loc>http://s.org/d</loc></url></urlset>`
		r, faults := sitemap.NewReader(strings.NewReader(doc)), 0
		r.Fault = func(error) { faults++ }
		want.Loc = "http://s.org/c"
		if got, err := r.Read(); err != nil || !reflect.DeepEqual(got, want) || faults == 0 {
			t.Errorf("%s: got %+v, %v, %d faults, want %+v", text, got, err, faults, want)
		}
		if got, err := r.Read(); err != nil || got.Loc != "http://s.org/d" {
			t.Errorf("%s: then got %+v, %v", text, got, err)
		}
		if _, err := sitemap.NewReader(strings.NewReader(doc)).Read(); err == nil {
			t.Errorf("%s: no error without Fault", text)
		}
	}
}

func TestEncodings(t *testing.T) {
	const root = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>http://s.org/ü</loc></url>
<url><loc>http://s.org/b</loc></url>
</urlset>`
	declared := func(name string) string { return `<?xml version="1.0" encoding="` + name + `"?>` + root }
	utf16 := func(order unicode.Endianness, mark unicode.BOMPolicy, text string) string {
		text, err := unicode.UTF16(order, mark).NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, text := range map[string]string{
		"none":                  root,
		"mark":                  "\ufeff" + declared("UTF-8"),
		"lower case":            declared("utf-8"),
		"US-ASCII":              declared("US-ASCII"),
		"UTF-16":                utf16(unicode.BigEndian, unicode.UseBOM, declared("UTF-16")),
		"UTF-16, little":        utf16(unicode.LittleEndian, unicode.UseBOM, declared("utf-16")),
		"UTF-16, no mark":       utf16(unicode.LittleEndian, unicode.IgnoreBOM, declared("UTF-16LE")),
		"UTF-16, no mark, big":  utf16(unicode.BigEndian, unicode.IgnoreBOM, declared("UTF-16")),
		"UTF-16, not declared":  utf16(unicode.BigEndian, unicode.UseBOM, root),
		"UTF-16, declared as 8": utf16(unicode.BigEndian, unicode.UseBOM, declared("UTF-8")),
	} {
		r := sitemap.NewReader(strings.NewReader(text))
		r.Plain = true
		a, err := r.Read()
		if err != nil || a.Loc != "http://s.org/ü" {
			t.Errorf("%s: got %q, %v", name, a.Loc, err)
			continue
		}
		b, err := r.Read()
		if _, end := r.Read(); err != nil || b.Loc != "http://s.org/b" || end != io.EOF {
			t.Errorf("%s: got %q, %v, then %v", name, b.Loc, err, end)
		}
	}
	r := sitemap.NewReader(strings.NewReader(declared("EBCDIC")))
	if _, _, err := r.ReadHead(); err == nil || !strings.Contains(err.Error(), "encoding EBCDIC") {
		t.Errorf("got %v", err)
	}
}

func TestUnpackedDocumentsHaveALimit(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, strings.Repeat("x", 1000))
	w.Close()
	for name, c := range map[string]struct {
		in   string
		max  int64
		want error
	}{
		"plain": {strings.Repeat("x", 1000), 1000, nil}, "gzip": {z.String(), 1000, nil}, "empty": {"", 10, nil},
		"long": {strings.Repeat("x", 1000), 999, sitemap.ErrTooLong}, "bomb": {z.String(), 999, sitemap.ErrTooLong},
	} {
		r, err := sitemap.Unpack(strings.NewReader(c.in), c.max)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); !errors.Is(err, c.want) || err == nil && len(got) != 1000 && name != "empty" {
			t.Errorf("%s: got %d octets, %v", name, len(got), err)
		}
	}
}

// FuzzReader: no document makes the reader panic, and what it read prints well-formed.
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
		if doc, err := read(sitemap.NewReader(bytes.NewReader(text))); err == nil {
			canonical(t, doc.print(sitemap.V11))
		}
	})
}

// FuzzAppend: whatever the values are, the document is well-formed.
func FuzzAppend(f *testing.F) {
	f.Add(true, "changelist", "http://example.com/", int64(1357203600000000), int64(0), "created", "md5", "ab", int64(5), "text/plain", "up", 1, uint64(1))
	f.Add(false, "resourcelist", "a&<>\"\r\n\t'", int64(0), int64(1357203600000001), "", "", "é", int64(-1), "", "top", 0, uint64(0))
	f.Fuzz(func(t *testing.T, list bool, capability, text string, from, to int64, change, alg, digest string, length int64, typ, rel string, pri int, seq uint64) {
		instant := func(us int64) time.Time {
			if us == 0 {
				return time.Time{}
			}
			return time.UnixMicro(int64(uint64(us) % 253402300800_000000)).UTC() // up to the year 9999
		}
		hashes := []sitemap.Hash{{Alg: alg, Value: digest}}
		link := sitemap.Link{
			Rel: rel, Href: text, Pri: pri, Modified: instant(to), Hashes: hashes, Length: length, Type: typ, Path: text,
		}
		doc := document{
			Head: sitemap.Head{Capability: sitemap.Capability(capability), From: instant(from), Until: instant(to), Links: []sitemap.Link{link}},
			Entries: []sitemap.Entry{{
				Loc: text, LastMod: instant(from), Priority: typ, Capability: sitemap.Capability(typ),
				Change: sitemap.Change(change), DateTime: instant(to), Hashes: hashes, Length: length, Type: typ, Encoding: text, Path: rel,
				At: instant(from), Completed: instant(to), Event: text, Seq: seq, Links: []sitemap.Link{link, link},
			}},
		}
		if !list {
			doc.Root = sitemap.SitemapIndex
			doc.Head.At, doc.Head.Completed = doc.Head.From, doc.Head.Until
			doc.Head.From, doc.Head.Until = time.Time{}, time.Time{}
		}
		canonical(t, doc.print(sitemap.V11))
	})
}

// readLines reads entries that stand alone.
func readLines(text []byte) (entries []sitemap.Entry, err error) {
	l := sitemap.NewLines(bytes.NewReader(text))
	for {
		e, err := l.Read()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

// sameAsReader checks that Lines and a Reader take a line for the same.
func sameAsReader(t *testing.T, line []byte) {
	t.Helper()
	text := sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: at("2026-01-01")})
	text = sitemap.AppendFoot(append(text, line...), sitemap.URLSet)
	doc, err := read(sitemap.NewReader(bytes.NewReader(text)))
	got, lineErr := readLines(line)
	if err != nil || len(doc.Entries) != 1 {
		if lineErr == nil && len(got) > 0 {
			t.Errorf("%q: taken for %+v; a Reader says %v, %d entries", line, got, err, len(doc.Entries))
		}
		return
	}
	if lineErr != nil || !reflect.DeepEqual(got, doc.Entries) {
		t.Errorf("%q: %v, got\n%+v\nwant\n%+v", line, lineErr, got, doc.Entries)
	}
}

func TestLinesAreReadAsAReaderReadsThem(t *testing.T) {
	for name, doc := range samples() {
		if doc.Root != sitemap.URLSet {
			continue
		}
		var all []byte
		for i := range doc.Entries {
			line := sitemap.AppendEntry(nil, sitemap.URLSet, &doc.Entries[i])
			all = append(all, line...)
			sameAsReader(t, line)
			sameInLines(t, line)
			for _, change := range []struct{ old, new string }{
				{`="`, `=" `}, {`" `, `"  `}, {`"`, `'`}, {`<rs:md`, `<rs:md x="y"`}, {`/>`, ` />`}, {`/>`, `></rs:md>`},
				{`<loc>`, `<loc> `}, {`<loc>`, `<loc>&amp;`}, {`<loc>`, `<loc>]]>`}, {`md5:`, `MD5:`}, {`Z`, `+01:00`}, {`Z<`, `<`},
				{`cut:seq="`, `cut:seq="0`}, {`length="`, `length="0`}, {`length="`, `length="-`}, {`</url>`, ``}, {`</url>`, `</url><url><loc>x</loc></url>`},
				{`rel="`, `x="`}, {`href="`, `href="é`}, {`href="`, "href=\"\x01"}, {`href="`, "href=\"\xff"}, {`href="`, "href=\"\t"},
				{`change="`, `change="x`}, {`<rs:md`, `<rs:md change="created"`}, {`<rs:md`, `<rs:md/><rs:md`}, {`<url>`, ` <url>`},
			} {
				changed := []byte(strings.Replace(string(line), change.old, change.new, 1))
				sameAsReader(t, changed)
				sameInLines(t, changed)
			}
		}
		if got, err := readLines(all); err != nil || !reflect.DeepEqual(got, doc.Entries) {
			t.Errorf("%s: %v, got\n%+v\nwant\n%+v", name, err, got, doc.Entries)
		}
	}
}

func TestLinesTellWhereTheyAreWrong(t *testing.T) {
	const good = "<url><loc>http://x/</loc></url>\n"
	for name, bad := range map[string]string{
		"empty":    "\n",
		"no entry": "<!-- nothing -->\n",
		"two":      strings.TrimSpace(good) + good,
		"cut off":  good[:20],
		"long":     "<url><loc>http://x/" + strings.Repeat("x", 70_000) + "</loc></url>\n",
		"no loc":   "<url></url>\n",
	} {
		got, err := readLines([]byte(good + good + bad))
		var p *sitemap.ParseError
		if !errors.As(err, &p) || p.Line != 3 || len(got) != 2 {
			t.Errorf("%s: got %d entries and %v, want an error of line 3", name, len(got), err)
		}
	}
}

// sameInLines checks that a Reader takes a line after an entry for the same, wherever it stands.
func sameInLines(t *testing.T, line []byte) {
	t.Helper()
	const good = "<url><loc>http://x/</loc></url>"
	document := func(between string) []byte {
		text := sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: at("2026-01-01")})
		text = append(text, good+between...)
		text = append(append(text, line...), good+between...)
		return sitemap.AppendFoot(text, sitemap.URLSet)
	}
	got, err := read(sitemap.NewReader(bytes.NewReader(document("\n"))))
	want, wantErr := read(sitemap.NewReader(bytes.NewReader(document("<!---->")))) // the XML decoder reads all of it
	if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %v, got\n%+v\nwant, as in one line, %v\n%+v", line, err, got, wantErr, want)
	}
}

func TestLinesWithOtherPrefixesAreReadAsXML(t *testing.T) {
	const entry = `<url><loc>http://x/</loc><rs:md change="created" datetime="2026-01-01T00:00:00Z" cut:event="submit" cut:seq="7"/></url>` + "\n"
	for name, c := range map[string]struct {
		root   string
		seq    uint64
		change sitemap.Change
	}{
		"ours":     {`xmlns:rs="` + sitemap.RSNamespace + `" xmlns:cut="` + sitemap.EventNamespace + `"`, 7, sitemap.Created},
		"no rs":    {`xmlns:rs="urn:x" xmlns:cut="` + sitemap.EventNamespace + `"`, 0, ""},
		"no event": {`xmlns:rs="` + sitemap.RSNamespace + `" xmlns:cut="urn:x"`, 0, sitemap.Created},
	} {
		r := sitemap.NewReader(strings.NewReader(`<urlset xmlns="` + sitemap.Namespace + `" ` + c.root + ">\n" + entry + entry + "</urlset>\n" + entry))
		r.Plain = true
		for range 2 {
			if e, err := r.Read(); err != nil || e.Seq != c.seq || e.Change != c.change {
				t.Errorf("%s: got %+v, %v", name, e, err)
			}
		}
		if e, err := r.Read(); err == nil || err == io.EOF {
			t.Errorf("%s: got %+v, %v after the end", name, e, err)
		}
	}
}

func TestErrorsInLinesKeepTheirPlace(t *testing.T) {
	const good = "<url><loc>http://x/</loc></url>\n"
	head := string(sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList}))
	r := sitemap.NewReader(strings.NewReader(head + good + good + good + "<url></url>\n"))
	var err error
	for err == nil {
		_, err = r.Read()
	}
	var p *sitemap.ParseError
	if !errors.As(err, &p) || p.Line != strings.Count(head, "\n")+4 {
		t.Errorf("got %v, want an error of line %d", err, strings.Count(head, "\n")+4)
	}
	lost := errors.New("the connection was lost")
	r = sitemap.NewReader(io.MultiReader(strings.NewReader(head+good+good+"<url><lo"), iotest.ErrReader(lost)))
	for err = nil; err == nil; {
		_, err = r.Read()
	}
	if !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
	r = sitemap.NewReader(strings.NewReader(head + good + good + good + "</urlset>"))
	r.MaxEntries = 2
	for err = nil; err == nil; {
		_, err = r.Read()
	}
	if !errors.As(err, &p) {
		t.Errorf("got %v, want too many entries", err)
	}
}

func FuzzLines(f *testing.F) {
	for _, doc := range samples() {
		for i := range doc.Entries {
			f.Add(sitemap.AppendEntry(nil, sitemap.URLSet, &doc.Entries[i]))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.Count(line, []byte("\n")) == 1 && bytes.HasSuffix(line, []byte("\n")) && len(line) < 60_000 {
			sameAsReader(t, line)
			sameInLines(t, line)
		}
	})
}

func BenchmarkLines(b *testing.B) {
	e := fullEntry()
	line := sitemap.AppendEntry(nil, sitemap.URLSet, &e)
	text := bytes.Repeat(line, 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got, err := readLines(text); err != nil || len(got) != 1000 {
			b.Fatal(err)
		}
	}
}
