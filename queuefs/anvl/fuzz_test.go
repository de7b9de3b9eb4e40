package anvl_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/anvl"
)

func FuzzRoundTrip(f *testing.F) {
	f.Add("name", "value", "other", "")
	f.Add("#a b:\t", " lead and trail ", "", "%0A%%%_%sp\r\n\x00\x7f")
	f.Add("\ufeff", "\xff\u0085\u2028", "\r", "\t")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		want := anvl.Record{{name1, value1}, {name2, value2}}
		b := anvl.AppendRecord(nil, want)
		if n := bytes.Count(b, []byte("\n")); n != 2 || bytes.ContainsAny(b, "\r\x00") {
			t.Fatalf("%q: written as %q", want, b)
		}
		got, err := anvl.ParseRecord(b)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, %v, want %q", b, got, err, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("entry:\n# first draft\nwho: Gilbert, W.S. | Sullivan, Arthur\nwhat: The Yeomen of\n   the Guard\nwhen/created: 1888\n"))
	f.Add([]byte("\ufeffa: b\r\n# x\r\n c\r\ra%_: 100%\n\n d"))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := anvl.ParseRecord(b)
		d, errDocument := anvl.ParseDocument(b)
		if (err == nil) != (errDocument == nil) {
			t.Fatalf("record: %v, document: %v", err, errDocument)
		}
		rec, errRead := anvl.NewReader(bytes.NewReader(b)).Read()
		if (err == nil && first != nil) != (errRead == nil) || !slices.Equal(rec, first) {
			t.Fatalf("ParseRecord: %q, %v; Read: %q, %v", first, err, rec, errRead)
		}
		if err != nil {
			return
		}
		again, err := anvl.ParseRecord(anvl.AppendRecord(nil, first))
		if err != nil || !slices.Equal(again, first) {
			t.Fatalf("got %q, %v, want %q", again, err, first)
		}
		checkDocument(t, d, b, first)
	})
}

// checkDocument checks that a document is the record it was read from, prints
// back, and takes changes that touch nothing else.
func checkDocument(t *testing.T, d *anvl.Document, b []byte, first anvl.Record) {
	if got := d.Bytes(); !bytes.Equal(got, b) {
		t.Fatalf("untouched: got %q, want %q", got, b)
	}
	if got := d.Record(); !slices.Equal(got, first) {
		t.Fatalf("record: got %q, want %q", got, first)
	}
	want := slices.Clone(first)
	names := []string{"new"}
	for _, e := range first[:min(len(first), 2)] {
		names = append(names, strings.Clone(e.Name))
	}
	for _, name := range names {
		d.Set(name, " changed")
		want.Set(name, " changed")
	}
	got, err := anvl.ParseRecord(d.Bytes())
	if err != nil || !slices.Equal(got, want) || !slices.Equal(d.Record(), want) {
		t.Fatalf("changed: got %q, %v, want %q", got, err, want)
	}
}
