package main

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestShare(t *testing.T) {
	dir := t.TempDir()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	all := int64(disk.Blocks) * disk.Bsize
	for text, want := range map[string]int64{"0": 0, "64K": 64 << 10, "1%": all / 100, "50%": all / 100 * 50, "100%": all / 100 * 100} {
		s := share{octets: 7, percent: 7}
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}
		got, err := s.on(filepath.Join(dir, "not", "made"))
		if got != want || err != nil || s.String() != text {
			t.Errorf("%s: got %s, %d, %v, want %d", text, &s, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "0%", "101%", "-5%", "5.5%", "5 %", "5%%", "x"} {
		if s := new(share); s.Set(text) == nil {
			t.Errorf("%q: got %s, want an error", text, s)
		}
	}
}
