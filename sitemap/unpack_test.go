package sitemap_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"cutie/sitemap"
)

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
