package compose_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"cutie/publisher/compose"
)

// lines returns a text of n lines with digests in them.
func lines(n int) (text []byte) {
	for i := range n {
		text = fmt.Appendf(text, "<url><loc>http://source.test/%d</loc><rs:md hash=\"%x\"/></url>\n", i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	return text
}

// pack writes a text to a file in gzip.
func pack(t testing.TB, text []byte) (name string) {
	t.Helper()
	var out bytes.Buffer
	w, err := compose.NewFileWriter(&out)
	for from := int64(0); err == nil && from < int64(len(text)); {
		var m *compose.Member
		if from > 0 { // some are compressed already, or seem to be
			if m, _, err = compose.Block(from%(300<<10), int64(len(text)), bytes.NewReader(text)); err != nil {
				break
			}
		}
		var n int64
		n, err = w.Add(m, from, int64(len(text)), bytes.NewReader(text), func(block []byte) {
			if !bytes.HasPrefix(text[from:], block) {
				t.Errorf("other text at %d: %.80q", from, block)
			}
		})
		from += n
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return put(t, out.Bytes())
}

func put(t testing.TB, octets []byte) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file.gz")
	if err := os.WriteFile(name, octets, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t testing.TB, name string) (*compose.Packed, error) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return compose.OpenPacked(file)
}

func TestAPackedFileIsReadFromAnywhere(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 3000} { // one run, and many
		text := lines(n)
		name := pack(t, text)
		p, err := open(t, name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Len != int64(len(text)) {
			t.Errorf("%d octets, want %d", p.Len, len(text))
		}
		for _, at := range p.Starts() {
			if at > 0 && text[at-1] != '\n' {
				t.Errorf("a run begins in a line, at %d", at)
			}
		}
		for off := 0; off <= len(text); off += 1 + len(text)/37 {
			for _, size := range []int{1, 4000, 70_000, len(text)} {
				got := make([]byte, size)
				k, err := p.ReadAt(got, int64(off))
				want := text[off:min(off+size, len(text))]
				if !bytes.Equal(got[:k], want) || (err == io.EOF) != (len(want) < size) || err != nil && err != io.EOF {
					t.Fatalf("%d octets at %d: got %d, %v", size, off, k, err)
				}
			}
		}
		var all []byte
		if err := p.Each(func(text []byte) error { all = append(all, text...); return nil }); err != nil || !bytes.Equal(all, text) {
			t.Errorf("got %d octets, %v", len(all), err)
		}

		// Others read the same text.
		octets, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(octets))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, text) {
			t.Errorf("gzip reads %d octets, %v", len(got), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Every octet of a file counts: with any of them changed, or with the file cut anywhere, it
// is not opened or does not verify.
func TestDamageOfAPackedFileIsFound(t *testing.T) {
	t.Parallel()
	octets, err := os.ReadFile(pack(t, lines(700)))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, damaged []byte) {
		t.Helper()
		p, err := open(t, put(t, damaged))
		if err == nil {
			err = p.Each(func([]byte) error { return nil })
		}
		if broken := (*compose.PackedError)(nil); !errors.As(err, &broken) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	places := []int{}
	for at := 0; at < len(octets); at += 1 + len(octets)/150 {
		places = append(places, at)
	}
	for at := len(octets) - 60; at < len(octets); at++ {
		places = append(places, at)
	}
	for _, at := range places {
		damaged := bytes.Clone(octets)
		damaged[at] ^= 1 << (at % 8)
		check(fmt.Sprintf("octet %d of %d", at, len(octets)), damaged)
		check(fmt.Sprintf("cut at %d of %d", at, len(octets)), octets[:at])
	}
	check("octets at the end", append(bytes.Clone(octets), 0))
	check("empty", nil)
}
