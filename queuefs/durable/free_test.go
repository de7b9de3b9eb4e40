package durable_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
)

func TestFreeIsWhatTheFileSystemHas(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	n, files, err := d.Free()
	if err != nil || n <= 0 || n > int64(st.Blocks)*int64(st.Bsize) {
		t.Errorf("got %d octets, %v, of %d", n, err, int64(st.Blocks)*int64(st.Bsize))
	}
	if files <= 0 || st.Files > 0 && files > int64(st.Files) {
		t.Errorf("got %d files of %d", files, st.Files)
	}
}
