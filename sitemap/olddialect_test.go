package sitemap_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cutie/sitemap"
)

// writeAs prints the document in a dialect.
func (d document) writeAs(v sitemap.Dialect) ([]byte, error) {
	var buf bytes.Buffer
	w := sitemap.NewWriter(&buf)
	w.Dialect = v
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

// TestPublishedExamplesPrintBackInTheirDialect reads the examples of each
// version and prints them again: canonically, the same document comes out.
func TestPublishedExamplesPrintBackInTheirDialect(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		vectors(t, "v"+d.String(), func(name string, text []byte) {
			printed, err := parse(t, text).writeAs(d)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if got, want := canonical(t, printed), canonical(t, text); got != want {
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
			text, err := tt.in.writeAs(d)
			if err != nil {
				t.Errorf("%s in %v: %v", tt.name, d, err)
				continue
			}
			r := sitemap.NewReader(bytes.NewReader(text))
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

func TestWriterRefusesWhatADialectHasNot(t *testing.T) {
	open := document{Head: changeListHead()}
	if _, err := open.writeAs(sitemap.V09); err == nil {
		t.Error("0.9: a Change List without until is taken")
	}
	if _, err := open.writeAs(sitemap.Jan2013); err == nil {
		t.Error("the form of January 2013 is written")
	}
	never := document{Head: changeListHead(), Entries: []sitemap.Entry{{Loc: "http://x/a", Change: sitemap.Created, Length: -1}}}
	if _, err := never.writeAs(sitemap.V11); err != nil {
		t.Errorf("1.1: %v", err)
	}
	if _, err := never.writeAs(sitemap.V10); err == nil {
		t.Error("1.0: a change at no time is taken")
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
