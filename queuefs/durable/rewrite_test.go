package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRewriteOfWhatIsNotCached gives files new contents whose old ones have
// left the page cache, as far as the system lets go of them.
func TestRewriteOfWhatIsNotCached(t *testing.T) {
	d := openDir(t, t.TempDir(), nil) // not in memory
	for _, was := range []int{0, 1, 400, 4095, 4096, 4097, 9000} {
		for _, is := range []int{0, 1, 400, 500, 4095, 4096, 4097, 8192, 9001} {
			for _, cold := range []bool{false, true} {
				if err := os.WriteFile(filepath.Join(d.Path(), "f"), []byte(strings.Repeat("o", was)), 0o666); err != nil {
					t.Fatal(err)
				}
				if cold {
					leaveCache(t, filepath.Join(d.Path(), "f"))
				}
				want := strings.Repeat("n", is)
				if err := d.Rewrite("f", []byte(want)); err != nil {
					t.Fatal(err)
				}
				if got := read(t, d, "f"); got != want {
					t.Errorf("%d octets instead of %d, cold %v: got %d: %.20q...", is, was, cold, len(got), got)
				}
			}
		}
	}
}

func leaveCache(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}
