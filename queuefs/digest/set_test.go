package digest_test

import (
	"slices"
	"testing"

	"cutie/queuefs/digest"
)

func TestSetReadsAsWritten(t *testing.T) {
	for text, want := range map[string][]digest.Type{
		"":                        nil,
		"SHA-256":                 {digest.SHA256},
		" sha256,MD5\tcrc-32 md5": {digest.CRC32, digest.MD5, digest.SHA256},
	} {
		s, err := digest.ParseSet(text)
		if err != nil || !slices.Equal(s.Types(), want) || s != digest.SetOf(want...) {
			t.Errorf("%q: got %v, %v, want %v", text, s, err, want)
		}
		if again, err := digest.ParseSet(s.String()); again != s || err != nil {
			t.Errorf("%q: got %v, %v, want %v", s.String(), again, err, s)
		}
	}
	if _, err := digest.ParseSet("MD5 rot13"); err == nil {
		t.Error("a type that is none was read")
	}
}
