package sitemap_test

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"cutie/sitemap"
)

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
