package durable_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/durable"
)

func TestAFileIsVerifiedAgainAfterEveryChange(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	text := []byte("some text")
	sum := sha256.Sum256(text)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func() error {
		f, err := os.Open(name)
		must(t, err)
		defer f.Close()
		return v.Check(f, int64(len(text)), sum)
	}
	write := func(b []byte) { must(t, os.WriteFile(name, b, 0o600)) }
	write(text)
	for range 2 {
		must(t, check())
	}
	for what, bad := range map[string][]byte{"flip": []byte("some tExt"), "cut": text[:3], "empty": nil, "doubled": append(text, text...)} {
		write(bad)
		for range 2 {
			if err := check(); !errors.Is(err, durable.ErrDamaged) || !durable.Lost(err) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		write(text)
		must(t, check())
	}
	// Another file of the same length in its place.
	other := name + "2"
	must(t, os.WriteFile(other, []byte("SOME TEXT"), 0o600))
	must(t, os.Rename(other, name))
	if err := check(); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("swapped: got %v", err)
	}
	if durable.Lost(fs.ErrPermission) || !durable.Lost(fs.ErrNotExist) {
		t.Error("a file that may not be read is not lost, one that is gone is")
	}
}
