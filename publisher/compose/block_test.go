package compose_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"cutie/publisher/compose"
)

// TestBlocksEndWithALine cuts texts with lines of many lengths. A block ends with its
// first line beyond 64 KiB, or with the text.
func TestBlocksEndWithALine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		want  int
		whole bool
	}{
		{"a\nb\n", 4, false},
		{strings.Repeat("x", 65534) + "\n" + "rest\n", 65540, true},
		{strings.Repeat("x", 65535) + "\n" + "rest\n", 65536, true},
		{strings.Repeat("x", 65535) + "y\n" + "rest\n", 65537, true},
		{strings.Repeat("x", 65536+1023) + "\n" + "rest\n", 65536 + 1024, true},
		{strings.Repeat("x", 65536+1024) + "\n" + "rest\n", 65536 + 1025, true},
		{strings.Repeat("x", 65536+30000) + "\n" + strings.Repeat("y", 5000) + "\n", 65536 + 30001, true},
		{strings.Repeat("x", 65536+1024), 65536 + 1024, false},
		{strings.Repeat("x", 65536+20000), 65536 + 20000, false},
		{strings.Repeat("line\n", 20000), 65540, true},
	} {
		m, whole, err := compose.Block(0, int64(len(c.text)), strings.NewReader(c.text))
		if err != nil || m.Len != int64(c.want) || whole != c.whole {
			t.Errorf("%d octets: a block of %d, %v, %v; want %d, %v", len(c.text), m.Len, whole, err, c.want, c.whole)
		}
		if _, _, err := compose.Block(0, int64(len(c.text))+1, bytes.NewReader([]byte(c.text))); err != io.EOF && c.want < 65536 {
			t.Errorf("%d octets, one is missing: %v", len(c.text), err)
		}
	}
}
