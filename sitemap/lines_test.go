package sitemap_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/sitemap"
)

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
