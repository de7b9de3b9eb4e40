package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs/durable"
)

func TestAddSubMakesOrOpens(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		sub, err := d.AddSub("sub")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sub.Path(), filepath.Join(path, "sub"); got != want {
			t.Errorf("got %s want %s", got, want)
		}
		sub.Close()
	}
	if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "..", "a/b", "file"} {
		if _, err := d.AddSub(name); err == nil {
			t.Errorf("%q was made", name)
		}
	}
}

func TestLinkTempIsTheSameFile(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	to, err := d.AddSub("to")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := d.Put("file", []byte("content")); err != nil {
		t.Fatal(err)
	}
	tmp, err := d.LinkTemp("file", to)
	if err != nil || !strings.HasPrefix(tmp, durable.TempPrefix) {
		t.Fatalf("got %q, %v", tmp, err)
	}
	a, e1 := os.Stat(filepath.Join(path, "file"))
	b, e2 := os.Stat(filepath.Join(path, "to", tmp))
	if e1 != nil || e2 != nil || !os.SameFile(a, b) {
		t.Errorf("not the same file: %v, %v", e1, e2)
	}
	if _, err := d.LinkTemp("none", to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("link to nothing: got %v", err)
	}
	if err := os.Symlink("file", filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "to", "../x"} {
		if _, err := d.LinkTemp(name, to); err == nil {
			t.Errorf("%q was linked", name)
		}
	}
}
