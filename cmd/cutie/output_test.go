package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files returns the names and contents in a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

func TestFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	s := sink{Name: filepath.Join(dir, "out")}
	bad := errors.New("bad")
	err := s.Text(func(w io.Writer) error {
		io.WriteString(w, "half")
		return bad
	})
	if got := files(t, dir); err != bad || len(got) > 0 {
		t.Errorf("got %v, %q, want no file", err, got)
	}
	for _, text := range []string{"first\n", "second\n"} {
		if err := s.Emit([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir); len(got) != 1 || got["out"] != text {
			t.Errorf("got %q, want %q alone", got, text)
		}
	}
}

func TestFileBehindALinkIsWrittenInPlace(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(other, []byte("longer than before"), 0o666), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	s := sink{Name: link}
	if err := s.Emit([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(other); err != nil || string(got) != "new" {
		t.Errorf("got %q, %v, want new", got, err)
	}
}

func TestTableInAFile(t *testing.T) {
	dir := t.TempDir()
	s := sink{Name: filepath.Join(dir, "out")}
	unfinished := s.Table("NUMBER", "TEXT")
	table := s.Table("NUMBER", "TEXT")
	var want strings.Builder
	for i := range 2500 {
		if err := errors.Join(table.Row(i, "a\tb\x1b"), unfinished.Row(i, "")); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%d\ta?b?\n", i)
	}
	unfinished.Discard()
	if err := table.End(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); len(got) != 1 || got["out"] != want.String() {
		t.Errorf("got %d files, %.100q, want %.100q", len(got), got["out"], want.String())
	}
}
