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
		s, err := parseShare(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.on(filepath.Join(dir, "not", "made"))
		if got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "0%", "101%", "-5%", "5.5%", "5 %", "5%%", "x"} {
		if s, err := parseShare(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, s)
		}
	}
}
