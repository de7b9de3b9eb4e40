package set

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
)

// lines returns a text of n lines with digests in them.
func lines(n int) (text []byte) {
	for i := range n {
		text = fmt.Appendf(text, "<url><loc>http://source.test/%d</loc><rs:md hash=\"%x\"/></url>\n", i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	return text
}

// pack returns a text in gzip.
func pack(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewGzipWriter(&out)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(t testing.TB, octets []byte) (*Packed, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list.gz")
	if err := os.WriteFile(name, octets, 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return OpenPacked(file)
}

// gunzip reads the only member of gzip.
func gunzip(t testing.TB, octets []byte) []byte {
	t.Helper()
	in := bytes.NewReader(octets)
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil || in.Len() > 0 {
		t.Fatalf("gzip reads %d octets, %d are left, %v", len(text), in.Len(), err)
	}
	return text
}

func TestAPackedFileIsReadFromAnywhere(t *testing.T) {
	for _, n := range []int{0, 1, 500, 4000} {
		text := lines(n)
		octets := pack(t, text)
		p, err := open(t, octets)
		if err != nil || p.Len != int64(len(text)) {
			t.Fatalf("%d lines: %v", n, err)
		}
		for at := 0; at <= len(text); at += 1 + len(text)/17 {
			for _, size := range []int{1, 100, 70_000, len(text)} {
				for _, from := range []int{at, len(text) - at} {
					buf := make([]byte, size)
					got, err := p.ReadAt(buf, int64(from))
					want := text[from:min(from+size, len(text))]
					if !bytes.Equal(buf[:got], want) || (err != nil) != (len(want) < size) || err != nil && err != io.EOF {
						t.Fatalf("%d octets from %d of %d: got %d, %v", size, from, len(text), got, err)
					}
				}
			}
		}
		var all []byte
		if err := p.Each(func(b []byte) error { all = append(all, b...); return nil }); err != nil || !bytes.Equal(all, text) {
			t.Errorf("%d lines: got %d octets of %d, %v", n, len(all), len(text), err)
		}
		if got := gunzip(t, octets); !bytes.Equal(got, text) {
			t.Errorf("others read %d octets of %d", len(got), len(text))
		}
	}
}

// With any octet of a file changed, or with the file cut anywhere, it is not opened or does
// not verify. Only bits that fill an octet up may change: then the text is as it was.
func TestDamageOfAPackedFileIsFound(t *testing.T) {
	t.Parallel()
	text := lines(700)
	octets := pack(t, text)
	check := func(what string, damaged []byte) {
		t.Helper()
		p, err := open(t, damaged)
		var got []byte
		if err == nil {
			err = p.Each(func(b []byte) error { got = append(got, b...); return nil })
		}
		if err == nil && bytes.Equal(got, text) && len(damaged) == len(octets) {
			return
		}
		if broken := (*PackedError)(nil); !errors.As(err, &broken) {
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
