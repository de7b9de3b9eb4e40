package local_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination/local"
	"cutie/sitemap"
)

func open(t *testing.T, dir string) *local.Dir {
	t.Helper()
	d, err := local.Open(dir, "http://s.org/", true)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func entryOf(text string) *sitemap.Entry {
	sum := sha256.Sum256([]byte(text))
	return &sitemap.Entry{Length: int64(len(text)), LastMod: time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC),
		Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}}
}

func put(d *local.Dir, file, text string, want *sitemap.Entry) error {
	f, err := d.Receive(file, want)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	return f.Commit(time.Time{})
}

// files returns the files of a directory without those of the state.
func files(t *testing.T, d *local.Dir) (all []string) {
	t.Helper()
	must(t, d.Walk(".", func(file string) error { all = append(all, file); return nil }))
	slices.Sort(all)
	return all
}

func TestOnlyTheTruthGetsAName(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	want := entryOf("hello")
	for _, text := range []string{"", "hell", "hello!", "jello", strings.Repeat("hello", 1000)} {
		if err := put(d, "a/b", text, want); !errors.Is(err, local.ErrDiffers) {
			t.Errorf("%.10q: got %v", text, err)
		}
		if all := files(t, d); len(all) > 0 {
			t.Errorf("%.10q: left %q", text, all)
		}
	}
	must(t, put(d, "a/b", "hello", want))
	for _, deep := range []bool{false, true} {
		if m, _, err := d.Compare("a/b", want, deep); m != local.Same || err != nil {
			t.Errorf("deep %v: got %v, %v", deep, m, err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "a/b"))
	if err != nil || !info.ModTime().Equal(want.LastMod) {
		t.Errorf("got %v, %v", info, err)
	}
	// A flipped bit hides behind length and time, from all but a deep look.
	must(t, os.WriteFile(filepath.Join(dir, "a/b"), []byte("hellp"), 0o600))
	os.Chtimes(filepath.Join(dir, "a/b"), time.Time{}, want.LastMod)
	if m, _, _ := d.Compare("a/b", want, false); m != local.Same {
		t.Errorf("quick: got %v", m)
	}
	if m, _, _ := d.Compare("a/b", want, true); m != local.Different {
		t.Errorf("deep: got %v", m)
	}
	entries, err := os.ReadDir(filepath.Join(dir, local.Own))
	if err != nil || len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestFileAndFolderOfOneName(t *testing.T) {
	d := open(t, t.TempDir())
	for _, c := range []struct{ file, text string }{{"a", "1"}, {"a/b", "2"}, {"c/d", "3"}, {"c", "4"}, {"a", "5"}, {"a/b", "6"}} {
		must(t, put(d, c.file, c.text, entryOf(c.text)))
	}
	if all := files(t, d); !slices.Equal(all, []string{"a", "a^/b", "c/d", "c^"}) {
		t.Errorf("got %q", all)
	}
	for file, text := range map[string]string{"a": "5", "a/b": "6", "c": "4", "c/d": "3"} {
		want := entryOf(text)
		if m, _, err := d.Compare(file, want, true); m != local.Same || err != nil {
			t.Errorf("%s: got %v, %v", file, m, err)
		}
	}
	for _, file := range []string{"c", "a", "x", "x/y", "c/d/e"} {
		if err := d.Remove(file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if all := files(t, d); !slices.Equal(all, []string{"a^/b", "c/d"}) {
		t.Errorf("got %q", all)
	}
}

func TestNothingLeavesTheDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	d := open(t, dir)
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	must(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "file")))
	for _, file := range []string{"link/x", "file", "../x", "/etc/x", "link"} {
		if err := put(d, file, "x", entryOf("x")); err == nil {
			t.Errorf("%s: taken", file)
		}
	}
	if entries, err := os.ReadDir(outside); len(entries) > 0 || err != nil {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if _, err := local.Open(dir, "http://s.org/", true); !errors.Is(err, local.ErrBusy) {
		t.Errorf("second process: got %v", err)
	}
}

// A name may be that of a file and of a directory, and a copy that differs leaves nothing.
func TestCopiesGetTheirPaths(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	want, other := entryOf("hello"), entryOf("other")
	for _, c := range []struct {
		file, text string
		want       *sitemap.Entry
	}{{"a/b", "hello", want}, {"a/b", "other", other}, {"a", "hello", want}, {"a/b/c", "hello", want}, {"a/b/c", "other", other}} {
		must(t, put(d, c.file, c.text, c.want))
		if m, _, err := d.Compare(c.file, c.want, true); m != local.Same || err != nil {
			t.Errorf("%s: got %v, %v", c.file, m, err)
		}
	}
	if err := put(d, "x", "hell", want); !errors.Is(err, local.ErrDiffers) {
		t.Errorf("got %v", err)
	}
	if got, want := files(t, d), []string{"a/b", "a/b^/c", "a^"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, local.Own, "new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
