package digest_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/digest"
)

// readVector returns a file of the test vectors, or skips the test.
func readVector(t *testing.T, name string) []byte {
	t.Helper()
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "vectors")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDigestVectors(t *testing.T) {
	var vectors struct {
		Digests map[string]map[string]string
		Aliases map[string][]string
	}
	if err := json.Unmarshal(readVector(t, "checkm/digests.json"), &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors.Digests {
		for _, typ := range digest.Types() {
			if got := digest.Sum(typ, []byte(v["octets"])); got.Hex != v[typ.String()] {
				t.Errorf("%s of %q: got %s, want %s", typ, v["octets"], got.Hex, v[typ.String()])
			}
		}
	}
	for name, aliases := range vectors.Aliases {
		want, err := digest.Parse(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, alias := range aliases {
			alias, _, _ = strings.Cut(alias, " (")
			if got, err := digest.Parse(alias); got != want || err != nil {
				t.Errorf("%s: got %s, %v, want %s", alias, got, err, want)
			}
		}
	}
}

func TestDigestsOfAFile(t *testing.T) {
	var want map[string]any
	if err := json.Unmarshal(readVector(t, "checkm/digest-file/expect.json"), &want); err != nil {
		t.Fatal(err)
	}
	data := readVector(t, "checkm/digest-file/testfix.jpg")
	for _, typ := range []digest.Type{digest.MD5, digest.SHA256, digest.CRC32, digest.Adler32} {
		if got := digest.Sum(typ, data); got.Hex != want[typ.String()] {
			t.Errorf("%s: got %s, want %s", typ, got.Hex, want[typ.String()])
		}
	}
}

func TestMD2(t *testing.T) {
	// RFC 1319, appendix A.5
	tests := []struct{ data, want string }{
		{"", "8350e5a3e24c153df2275c9f80692773"},
		{"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
		{"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
		{"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
		{"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "da33def2a42df13975352846c30338cd"},
		{strings.Repeat("1234567890", 8), "d5976f79d83d3a0dc9806c3c66f3efd8"},
	}
	for _, tt := range tests {
		if got := digest.Sum(digest.MD2, []byte(tt.data)); got.Hex != tt.want {
			t.Errorf("%q: got %s, want %s", tt.data, got.Hex, tt.want)
		}
		// In pieces, with a Sum between that must not disturb.
		h := digest.MD2.New()
		h.Write([]byte("dropped"))
		h.Reset()
		for c := range strings.SplitSeq(tt.data, "") {
			h.Write([]byte(c))
			h.Sum(nil)
		}
		if got := digest.NewValue(digest.MD2, h.Sum(nil)); got.Hex != tt.want {
			t.Errorf("%q in pieces: got %s, want %s", tt.data, got.Hex, tt.want)
		}
	}
}

func TestTypes(t *testing.T) {
	want := []string{"Adler-32", "CRC-32", "MD2", "MD5", "SHA-1", "SHA-256", "SHA-384", "SHA-512"}
	var got []string
	for _, typ := range digest.Types() {
		got = append(got, typ.String())
		if n := typ.New().Size(); n != typ.Size() {
			t.Errorf("%s: got size %d, want %d", typ, typ.Size(), n)
		}
		if token := typ.Token(); token != strings.ToLower(typ.String()) {
			t.Errorf("%s: got token %s", typ, token)
		}
		if !typ.Valid() {
			t.Errorf("%s is not valid", typ)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if none := digest.Type(0); none.String() != "" || none.Valid() || digest.Type(9).Valid() {
		t.Errorf("the zero Type is %q, valid %v", none, none.Valid())
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		want digest.Type
	}{
		{"sha-256", digest.SHA256},
		{"SHA256", digest.SHA256},
		{" Sha 256\t", digest.SHA256},
		{"cdc32", digest.CRC32},
		{"SHA", digest.SHA1},
		{"", 0},
		{"-", 0},
		{"SHA-224", 0},
		{"sha_256", 0},
	}
	for _, tt := range tests {
		got, err := digest.Parse(tt.name)
		if got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("%q: got %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestParsePair(t *testing.T) {
	tests := []struct{ in, want, err string }{
		{"md5:B1946AC92492D2347C6235B4D2611184", "md5:b1946ac92492d2347c6235b4d2611184", ""},
		{"CRC-32:0", "crc-32:00000000", ""},
		{"alder32:2C0127", "adler-32:002c0127", ""},
		{"md5", "", `digest "md5" is not type:value`},
		{"sha-3:00", "", `unknown digest type "sha-3"`},
		{"md5:", "", `MD5 value "" is not 32 hexadecimal digits`},
		{"crc-32:", "", `CRC-32 value "" is not 8 hexadecimal digits`},
		{"crc-32:000000000", "", `CRC-32 value "000000000" is not 8 hexadecimal digits`},
		{"md2:0000000000000000000000000000000g", "", `MD2 value "0000000000000000000000000000000g" is not 32 hexadecimal digits`},
	}
	for _, tt := range tests {
		got, err := digest.ParsePair(tt.in)
		if got.String() != tt.want || tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
			t.Errorf("%q: got %q, %v, want %q, %s", tt.in, got, err, tt.want, tt.err)
		}
		if again, err := digest.ParsePair(got.String()); tt.err == "" && (again != got || err != nil) {
			t.Errorf("%q: got %q, %v again", got, again, err)
		}
	}
	if _, err := digest.ParseValue(0, "00"); err == nil || err.Error() != "digest value without digest type" {
		t.Errorf("without type: got %v", err)
	}
}

func TestCheck(t *testing.T) {
	want := digest.Value{Type: digest.Adler32, Hex: "24D0127"}
	if err := want.Check(digest.Sum(digest.Adler32, []byte("abc"))); err != nil {
		t.Error(err)
	}
	err := want.Check(digest.Sum(digest.Adler32, nil))
	if !errors.Is(err, digest.ErrMismatch) || err.Error() != "digest verification failed: expected adler-32:24D0127, got adler-32:00000001" {
		t.Errorf("got %v", err)
	}
	if want.Equal(digest.Value{Type: digest.CRC32, Hex: want.Hex}) {
		t.Error("equal although the types differ")
	}
}

func BenchmarkMD2(b *testing.B) {
	h := digest.MD2.New()
	data := make([]byte, 4096)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		h.Write(data)
	}
}
