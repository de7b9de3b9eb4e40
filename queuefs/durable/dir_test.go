package durable_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
)

// tempDir is a directory in memory where the system has one.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "durable-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openDir(t *testing.T, path string, fault durable.Fault) *durable.Dir {
	t.Helper()
	d, err := durable.OpenDir(path, fault)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func read(t *testing.T, d *durable.Dir, name string) string {
	t.Helper()
	data, err := d.ReadFile(name, nil, 1<<20)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestFilesOfADirectory(t *testing.T) {
	d := openDir(t, tempDir(t), nil)
	steps := []struct {
		name string
		do   func() error
		want string // contents of file a
		err  error
	}{
		{"put", func() error { return d.Put("a", []byte("one")) }, "one", nil},
		{"put again", func() error { return d.Put("a", []byte("two")) }, "one", fs.ErrExist},
		{"rewrite longer", func() error { return d.Rewrite("a", []byte("longer than it was")) }, "longer than it was", nil},
		{"rewrite shorter", func() error { return d.Rewrite("a", []byte("short")) }, "short", nil},
		{"rewrite empty", func() error { return d.Rewrite("a", nil) }, "", nil},
		{"rewrite what is not there", func() error { return d.Rewrite("b", nil) }, "", fs.ErrNotExist},
		{"replace", func() error { return d.Replace("a", []byte("replaced")) }, "replaced", nil},
		{"stage", func() error {
			tmp, err := d.Stage("a", []byte("staged"))
			if err != nil || !strings.HasPrefix(tmp, durable.TempPrefix) || read(t, d, "a") != "replaced" {
				t.Errorf("staged as %q, %v", tmp, err)
			}
			return d.Rename(tmp, d, "a")
		}, "staged", nil},
		{"rename what is not there", func() error { return d.Rename("b", d, "a") }, "staged", fs.ErrNotExist},
		{"remove what is not there", func() error { return d.Remove("b") }, "staged", fs.ErrNotExist},
		{"make anew", func() error { return errors.Join(d.Remove("a"), d.Replace("a", []byte("new"))) }, "new", nil},
	}
	for _, s := range steps {
		err := s.do()
		if !errors.Is(err, s.err) || s.err == nil && err != nil {
			t.Errorf("%s: got %v want %v", s.name, err, s.err)
		}
		var path *fs.PathError
		if err != nil && !errors.As(err, &path) {
			t.Errorf("%s: %v names no file", s.name, err)
		}
		if got := read(t, d, "a"); got != s.want {
			t.Errorf("%s: got %q want %q", s.name, got, s.want)
		}
	}
	if names, _ := os.ReadDir(d.Path()); len(names) != 1 {
		t.Errorf("got %v", names)
	}
}

func TestSubdirectories(t *testing.T) {
	d := openDir(t, tempDir(t), nil)
	wantErr(t, errOf(d.Sub("s")), fs.ErrNotExist, "")
	for range 2 {
		s, err := d.MakeSub("s")
		if err != nil || s.Path() != d.Path()+"/s" {
			t.Fatalf("got %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s, err := d.Sub("s")
	must(t, err)
	defer s.Close()
	before, err := d.Changed("s")
	must(t, err)
	var want []string
	for n := range 5000 {
		want = append(want, fmt.Sprintf("f%04d", n))
		must(t, s.Put(want[n], nil))
	}
	var got []string
	if err := s.Names(func(name string) { got = append(got, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %d names", len(got))
	}
	if after, err := d.Changed("s"); err != nil || after == before {
		t.Errorf("changed at %d, then %d, %v", before, after, err)
	}
	if err := s.Rename("f0001", d, "moved"); err != nil {
		t.Error(err)
	}
	if read(t, d, "moved") != "" || s.Sync() != nil || s.SyncFS() != nil {
		t.Error("moved, synced")
	}
	must(t, d.Put("f", nil))
	wantErr(t, errOf(d.MakeSub("f")), syscall.ENOTDIR, "a file is no directory")
}

// TestOnlyElementsAreNames gives every method names that lead elsewhere.
func TestOnlyElementsAreNames(t *testing.T) {
	d := openDir(t, tempDir(t), nil)
	must(t, d.Put("good", []byte("x")))
	for _, name := range []string{"", ".", "..", "/", "a/b", "../x", "/etc/passwd", "a\x00", "\x00", "good/", "./good"} {
		for method, do := range map[string]func() error{
			"Sub":         func() error { _, err := d.Sub(name); return err },
			"MakeSub":     func() error { _, err := d.MakeSub(name); return err },
			"Put":         func() error { return d.Put(name, nil) },
			"Rewrite":     func() error { return d.Rewrite(name, nil) },
			"Replace":     func() error { return d.Replace(name, nil) },
			"Stage":       func() error { _, err := d.Stage(name, nil); return err },
			"Rename from": func() error { return d.Rename(name, d, "good") },
			"Rename to":   func() error { return d.Rename("good", d, name) },
			"Remove":      func() error { return d.Remove(name) },
			"Open":        func() error { _, err := d.Open(name); return err },
			"Append":      func() error { _, err := d.Append(name); return err },
			"ReadFile":    func() error { _, err := d.ReadFile(name, nil, 1); return err },
			"Stat":        func() error { _, err := d.Stat(name); return err },
		} {
			if err := do(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "not a file name") {
				t.Errorf("%s(%q): got %v", method, name, err)
			}
		}
	}
	if names, _ := os.ReadDir(d.Path()); len(names) != 1 || read(t, d, "good") != "x" {
		t.Errorf("got %v", names)
	}
}

// TestLinksAreNotFollowed has symbolic links stand where files should.
func TestLinksAreNotFollowed(t *testing.T) {
	outside := filepath.Join(tempDir(t), "outside")
	must(t, os.WriteFile(outside, []byte("secret"), 0o666))
	d := openDir(t, tempDir(t), nil)
	for name, to := range map[string]string{"file": outside, "dir": filepath.Dir(outside)} {
		must(t, os.Symlink(to, filepath.Join(d.Path(), name)))
	}
	for method, do := range map[string]func() error{
		"Sub":      func() error { _, err := d.Sub("dir"); return err },
		"MakeSub":  func() error { _, err := d.MakeSub("dir"); return err },
		"Put":      func() error { return d.Put("file", []byte("x")) },
		"Rewrite":  func() error { return d.Rewrite("file", []byte("x")) },
		"Open":     func() error { _, err := d.Open("file"); return err },
		"Append":   func() error { _, err := d.Append("file"); return err },
		"ReadFile": func() error { _, err := d.ReadFile("file", nil, 100); return err },
	} {
		if err := do(); err == nil {
			t.Errorf("%s followed a link", method)
		}
	}
	if st, err := d.Stat("file"); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		t.Errorf("stat: %v", err)
	}
	if err := d.Replace("file", []byte("mine")); err != nil || read(t, d, "file") != "mine" {
		t.Errorf("replace: %v", err)
	}
	if got, err := os.ReadFile(outside); string(got) != "secret" {
		t.Errorf("outside: got %q, %v", got, err)
	}
}

func TestWhatIsNoRegularFile(t *testing.T) {
	d := openDir(t, tempDir(t), nil)
	must(t, syscall.Mkfifo(filepath.Join(d.Path(), "pipe"), 0o666))
	must(t, os.Mkdir(filepath.Join(d.Path(), "dir"), 0o777))
	for _, name := range []string{"pipe", "dir"} {
		if f, err := d.Open(name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := d.ReadFile("dir", nil, 10); err == nil {
		t.Error("a directory was read")
	}
	if data, err := d.ReadFile("pipe", nil, 10); len(data) > 0 { // does not wait for a writer
		t.Errorf("pipe: got %q, %v", data, err)
	}
}

func TestReadFileLimit(t *testing.T) {
	d := openDir(t, tempDir(t), nil)
	for _, size := range []int{0, 1, 511, 512, 513, 1024, 5000} {
		name := fmt.Sprint(size)
		must(t, d.Put(name, []byte(strings.Repeat("x", size))))
		if got, err := d.ReadFile(name, []byte("head"), size); err != nil || len(got) != 4+size || string(got[:4]) != "head" {
			t.Errorf("%d octets: got %d, %v", size, len(got), err)
		}
		if size > 0 {
			if got, err := d.ReadFile(name, []byte("head"), size-1); err == nil || string(got) != "head" {
				t.Errorf("%d octets, one too many: got %d, %v", size, len(got), err)
			}
		}
	}
}

// TestReplaceIsWholeAtEveryStep stops Replace at each of its steps, before and
// behind: the file is the old one or the new one, and nothing else is left but
// a file with an unfinished name.
func TestReplaceIsWholeAtEveryStep(t *testing.T) {
	for _, happened := range []bool{false, true} {
		for at := 1; ; at++ {
			n := 0
			var failed string
			d := openDir(t, tempDir(t), func(step string, do func() error) error {
				if n++; at > 0 && n >= at {
					if failed == "" && happened {
						do()
					}
					failed += step
					return syscall.EIO
				}
				return do()
			})
			must(t, os.WriteFile(filepath.Join(d.Path(), "f"), []byte("old"), 0o666))
			err := d.Replace("f", []byte("the new contents"))
			if failed == "" {
				if err != nil || at < 4 {
					t.Errorf("%d steps, %v", at-1, err)
				}
				break
			}
			if got := read(t, d, "f"); err == nil || got != "old" && got != "the new contents" {
				t.Errorf("%s: got %q, %v", failed, got, err)
			}
			err = d.Names(func(name string) {
				if name != "f" && !strings.HasPrefix(name, durable.TempPrefix) {
					t.Errorf("%s: left %s", failed, name)
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSpool writes sizes around blocks and buffers in uneven pieces.
func TestSpool(t *testing.T) {
	for _, in := range []struct{ name, path string }{{"memory", tempDir(t)}, {"disk", t.TempDir()}} {
		t.Run(in.name, func(t *testing.T) {
			d := openDir(t, in.path, nil)
			for _, size := range []int{0, 1, 4095, 4096, 4097, 256<<10 - 1, 256 << 10, 256<<10 + 1, 600_000, 1 << 20} {
				s, err := d.Spool()
				must(t, err)
				data := strings.Repeat("0123456789abcdef\n", size/17+1)[:size]
				for at := 0; at < size; at += 70_001 {
					if n, err := s.Write([]byte(data[at:min(at+70_001, size)])); err != nil || n != min(70_001, size-at) {
						t.Fatalf("%d octets: wrote %d, %v", size, n, err)
					}
				}
				if err := s.Sync(); err != nil {
					t.Errorf("%d octets: %v", size, err)
				}
				if got, err := os.ReadFile(filepath.Join(d.Path(), s.Name())); err != nil || string(got) != data {
					t.Errorf("%d octets: got %d, %v", size, len(got), err)
				}
				if f, err := s.File(); err != nil {
					t.Errorf("%d octets: %v", size, err)
				} else if st, err := f.Stat(); err != nil || st.Size() != int64(size) {
					t.Errorf("%d octets: %v", size, err)
				}
				// More may come after it was looked at.
				if _, err := s.Write([]byte("more")); err != nil {
					t.Error(err)
				}
				if _, err := s.File(); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(filepath.Join(d.Path(), s.Name())); err != nil || string(got) != data+"more" {
					t.Errorf("%d octets and more: got %d, %v", size, len(got), err)
				}
				if err := errors.Join(s.Close(), d.Remove(s.Name())); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestSpoolThatFindsNoRoom(t *testing.T) {
	full := true
	d := openDir(t, tempDir(t), func(step string, do func() error) error {
		if full && step == "spool write" {
			return syscall.ENOSPC
		}
		return do()
	})
	s, err := d.Spool()
	must(t, err)
	defer s.Close()
	var n int
	if n, err = s.Write(make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) || n > 256<<10 {
		t.Errorf("got %d, %v", n, err)
	}
	wantErr(t, s.Sync(), syscall.ENOSPC, "sync")
	full = false
	d2 := openDir(t, d.Path(), func(step string, do func() error) error {
		if step == "temp "+filepath.Base(d.Path()) {
			return syscall.ENOSPC
		}
		return do()
	})
	wantErr(t, errOf(d2.Spool()), syscall.ENOSPC, "")
}

// TestClosedDir closes a directory and opens others, which get its number: they
// are never taken for it.
func TestClosedDir(t *testing.T) {
	path := tempDir(t)
	for _, name := range []string{"a", "b"} {
		must(t, os.Mkdir(filepath.Join(path, name), 0o777))
	}
	a, err := durable.OpenDir(filepath.Join(path, "a"), nil)
	must(t, err)
	must(t, a.Close())
	b := openDir(t, filepath.Join(path, "b"), nil)
	must(t, b.Put("f", []byte("of b")))
	for method, do := range map[string]func() error{
		"Sub":      func() error { _, err := a.Sub("x"); return err },
		"MakeSub":  func() error { _, err := a.MakeSub("x"); return err },
		"Put":      func() error { return a.Put("x", nil) },
		"Rewrite":  func() error { return a.Rewrite("f", nil) },
		"Replace":  func() error { return a.Replace("f", nil) },
		"Stage":    func() error { _, err := a.Stage("f", nil); return err },
		"Temp":     func() error { _, _, err := a.Temp(); return err },
		"Spool":    func() error { _, err := a.Spool(); return err },
		"Rename":   func() error { return a.Rename("f", b, "g") },
		"Remove":   func() error { return a.Remove("f") },
		"Open":     func() error { _, err := a.Open("f"); return err },
		"Append":   func() error { _, err := a.Append("f"); return err },
		"ReadFile": func() error { _, err := a.ReadFile("f", nil, 10); return err },
		"Names":    func() error { return a.Names(func(string) {}) },
		"Stat":     func() error { _, err := a.Stat("f"); return err },
		"Changed":  func() error { _, err := a.Changed("f"); return err },
		"Sync":     func() error { return a.Sync() },
		"SyncFS":   func() error { return a.SyncFS() },
		"Close":    func() error { return a.Close() },
	} {
		wantErr(t, do(), fs.ErrClosed, "%s", method)
	}
	if names, _ := os.ReadDir(b.Path()); len(names) != 1 || read(t, b, "f") != "of b" {
		t.Errorf("got %v", names)
	}
}

// many returns n directories below one, in a cache of limit descriptors.
func many(t *testing.T, n, limit int) (string, *durable.Cache, []*durable.Dir) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	c := durable.NewCache(limit)
	var all []*durable.Dir
	for i := range n {
		q := c.Dir(d, fmt.Sprintf("q%d", i), true)
		all = append(all, c.Dir(q, "in", true))
	}
	return path, c, all
}

func TestCacheBoundsDescriptors(t *testing.T) {
	path, c, all := many(t, 20, 5)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i, d := range all {
				name := fmt.Sprint("f", w)
				if err := d.Replace(name, []byte(d.Path())); err != nil {
					t.Error(err)
				}
				got, err := d.ReadFile(name, nil, 1000)
				if want := fmt.Sprintf("%s/q%d/in", path, i); err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	if n := c.Open(); n == 0 || n > 5 {
		t.Errorf("%d directories open, at most 5 should be", n)
	}
	for _, d := range all {
		d.Close()
	}
	wantErr(t, errOf(all[0].Open("f0")), fs.ErrClosed, "")
}

func TestCacheMakesAndFollowsNothing(t *testing.T) {
	path, c, all := many(t, 2, 1)
	top, err := durable.OpenDir(path, nil)
	must(t, err)
	defer top.Close()
	q := c.Dir(top, "q0", false)
	if at, err := q.Changed("in"); at != 0 || err != nil {
		t.Errorf("got %d, %v of a directory not made yet", at, err)
	}
	must(t, all[0].Put("f", nil))
	if at, err := q.Changed("in"); at == 0 || err != nil {
		t.Errorf("got %d, %v", at, err)
	}
	wantErr(t, c.Dir(top, "none", false).Put("f", nil), fs.ErrNotExist, "")
	must(t, os.Symlink(filepath.Join(path, "q0"), filepath.Join(path, "q1")))
	if err := all[1].Put("g", nil); err == nil {
		t.Error("a link was followed")
	}
	must(t, os.RemoveAll(filepath.Join(path, "q0")))
	c.Dir(top, "none", true).Put("f", nil) // closes q0/in
	if err := all[0].Put("f", nil); err != nil {
		t.Errorf("got %v of a directory made again", err)
	}
}

func TestFreeIsWhatTheFileSystemHas(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	defer d.Close()
	var st unix.Statfs_t
	must(t, unix.Statfs(path, &st))
	n, files, err := d.Free()
	if err != nil || n <= 0 || n > int64(st.Blocks)*int64(st.Bsize) {
		t.Errorf("got %d octets, %v, of %d", n, err, int64(st.Blocks)*int64(st.Bsize))
	}
	if files <= 0 || st.Files > 0 && files > int64(st.Files) {
		t.Errorf("got %d files of %d", files, st.Files)
	}
}

func TestAddSubMakesOrOpens(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	defer d.Close()
	for range 2 {
		sub, err := d.AddSub("sub")
		must(t, err)
		if got, want := sub.Path(), filepath.Join(path, "sub"); got != want {
			t.Errorf("got %s want %s", got, want)
		}
		sub.Close()
	}
	must(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o666))
	for _, name := range []string{"", "..", "a/b", "file"} {
		if _, err := d.AddSub(name); err == nil {
			t.Errorf("%q was made", name)
		}
	}
}

func TestLinkTempIsTheSameFile(t *testing.T) {
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	defer d.Close()
	to, err := d.AddSub("to")
	must(t, err)
	defer to.Close()
	must(t, d.Put("file", []byte("content")))
	tmp, err := d.LinkTemp("file", to)
	if err != nil || !strings.HasPrefix(tmp, durable.TempPrefix) {
		t.Fatalf("got %q, %v", tmp, err)
	}
	a, e1 := os.Stat(filepath.Join(path, "file"))
	b, e2 := os.Stat(filepath.Join(path, "to", tmp))
	if e1 != nil || e2 != nil || !os.SameFile(a, b) {
		t.Errorf("not the same file: %v, %v", e1, e2)
	}
	wantErr(t, errOf(d.LinkTemp("none", to)), fs.ErrNotExist, "link to nothing")
	must(t, os.Symlink("file", filepath.Join(path, "link")))
	for _, name := range []string{"link", "to", "../x"} {
		if _, err := d.LinkTemp(name, to); err == nil {
			t.Errorf("%q was linked", name)
		}
	}
}

func TestFilesAreForTheirOwner(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for name, tt := range map[string]struct {
		open      func(string, durable.Fault) (*durable.Dir, error)
		file, dir fs.FileMode
	}{
		"private": {durable.OpenDir, 0o600, 0o700},
		"shared":  {durable.OpenShared, 0o644, 0o755},
	} {
		root := t.TempDir()
		d, err := tt.open(root, nil)
		must(t, err)
		defer d.Close()
		sub, err := d.MakeSub("sub")
		must(t, err)
		defer sub.Close()
		for _, err := range []error{sub.Put("put", []byte("x")), sub.Replace("replace", []byte("x")), sub.Allocate("allocate", 4096)} {
			must(t, err)
		}
		f, err := sub.Append("append")
		must(t, err)
		f.Close()
		temp, _, err := sub.Temp()
		must(t, err)
		temp.Close()
		filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == root {
				return err
			}
			info, err := os.Stat(path)
			want := tt.file
			if e.IsDir() {
				want = tt.dir
			}
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s: got %v, %v, want %v", name, e.Name(), info.Mode(), err, want)
			}
			return nil
		})
	}
}

// TestRewriteOfWhatIsNotCached gives files new contents whose old ones have
// left the page cache, as far as the system lets go of them.
func TestRewriteOfWhatIsNotCached(t *testing.T) {
	d := openDir(t, t.TempDir(), nil) // not in memory
	for _, was := range []int{0, 1, 400, 4095, 4096, 4097, 9000} {
		for _, is := range []int{0, 1, 400, 500, 4095, 4096, 4097, 8192, 9001} {
			for _, cold := range []bool{false, true} {
				must(t, os.WriteFile(filepath.Join(d.Path(), "f"), []byte(strings.Repeat("o", was)), 0o666))
				if cold {
					leaveCache(t, filepath.Join(d.Path(), "f"))
				}
				want := strings.Repeat("n", is)
				must(t, d.Rewrite("f", []byte(want)))
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
	must(t, err)
	defer f.Close()
	must(t, f.Sync())
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

func TestRemoveTree(t *testing.T) {
	for _, fails := range []bool{false, true} {
		dir := t.TempDir()
		left := 3 // steps that work before one fails
		d, err := durable.OpenDir(dir, func(step string, do func() error) error {
			if left--; fails && left == 0 {
				return errors.New("injected")
			}
			return do()
		})
		must(t, err)
		defer d.Close()
		other := t.TempDir()
		err = errors.Join(os.MkdirAll(dir+"/a/b/c", 0o777), os.WriteFile(dir+"/a/b/file", nil, 0o666), os.WriteFile(dir+"/a/file", nil, 0o666),
			os.WriteFile(other+"/kept", nil, 0o666), os.Symlink(other, dir+"/a/b/link"), os.Symlink(other, dir+"/link"), os.WriteFile(dir+"/kept", nil, 0o666))
		must(t, err)
		if err := d.RemoveTree("a"); (err != nil) != fails {
			t.Errorf("got %v", err)
		}
		for _, name := range []string{"a", "link", "absent"} {
			if err := d.RemoveTree(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"", ".", "..", "../x", "a/b"} {
			if err := d.RemoveTree(name); err == nil {
				t.Errorf("%q is taken", name)
			}
		}
		got, err := filepath.Glob(dir + "/*")
		if err != nil || len(got) != 1 || got[0] != dir+"/kept" {
			t.Errorf("left: %v, %v", got, err)
		}
		if _, err := os.Stat(other + "/kept"); err != nil {
			t.Errorf("behind a link: %v", err)
		}
	}
}

func TestCallersShareTheNextStep(t *testing.T) {
	var (
		together durable.Together[int]
		wg       sync.WaitGroup
		entered  = make(chan bool)
		goOn     = make(chan bool)
		steps    [][]int
	)
	failed := errors.New("failed")
	errs := make([]error, 9)
	step := func(all []int) error {
		steps = append(steps, all)
		if len(steps) == 1 {
			entered <- true
			<-goOn
			return nil
		}
		return failed
	}
	wg.Go(func() { errs[0] = together.Do(0, step) })
	<-entered
	for n := 1; n < 9; n++ {
		wg.Go(func() { errs[n] = together.Do(n, step) })
	}
	close(goOn)
	wg.Wait()
	if errs[0] != nil || len(steps[0]) != 1 {
		t.Errorf("the first step: %v of %v", errs[0], steps[0])
	}
	var others []int
	for _, s := range steps[1:] {
		others = append(others, s...)
	}
	slices.Sort(others)
	if !slices.Equal(others, []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("steps %v", steps)
	}
	for n, err := range errs[1:] {
		if err != failed {
			t.Errorf("caller %d got %v", n+1, err)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sealedIn(t *testing.T, fault durable.Fault) (durable.Sealed, string) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.OpenDir(path, fault)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return durable.Sealed{Dir: d, Name: "state", Kind: "state of tests", Max: 100}, path
}

func TestSealedReadsWhatItWrote(t *testing.T) {
	s, _ := sealedIn(t, nil)
	if _, err := s.Read(); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) {
		t.Fatalf("without a file: %v", err)
	}
	for _, contents := range []string{"", "a: 1\n", "no end of line", "seal: x\n", strings.Repeat("\x00", 100)} {
		must(t, s.Write([]byte(contents)))
		if got, err := s.Read(); err != nil || string(got) != contents {
			t.Errorf("got %q, %v; want %q", got, err, contents)
		}
	}
	if err := s.Write(make([]byte, 101)); err == nil {
		t.Error("more than Max was written")
	}
}

// Each octet of a file is flipped and each prefix of it is tried.
func TestSealedTellsEveryDamage(t *testing.T) {
	s, path := sealedIn(t, nil)
	must(t, s.Write([]byte("job: 7\nsequence: 12\n")))
	whole, err := os.ReadFile(filepath.Join(path, "state"))
	must(t, err)
	damaged := [][]byte{append(slices.Clone(whole), whole...), append(slices.Clone(whole), 1), make([]byte, 300)}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1
		damaged = append(damaged, flipped, whole[:i])
	}
	for _, data := range damaged {
		must(t, os.WriteFile(filepath.Join(path, "state"), data, 0o666))
		if got, err := s.Read(); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%q reads as %q, %v", data, got, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(path, "state"), whole, 0o666))
	s.Kind = "state of others"
	if got, err := s.Read(); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("a file of another kind reads as %q, %v", got, err)
	}
}

func TestSetAsideKeepsEveryFile(t *testing.T) {
	s, path := sealedIn(t, nil)
	wantErr(t, errOf(s.SetAside()), fs.ErrNotExist, "without a file")
	for i, want := range []string{"corrupt/state", "corrupt/state.1", "corrupt/state.2"} {
		data := strings.Repeat("x", i)
		must(t, os.WriteFile(filepath.Join(path, "state"), []byte(data), 0o666))
		got, err := s.SetAside()
		if err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
		if text, err := os.ReadFile(filepath.Join(path, got)); err != nil || string(text) != data {
			t.Errorf("%s has %q, %v; want %q", got, text, err, data)
		}
		wantErr(t, errOf(os.Stat(filepath.Join(path, "state"))), fs.ErrNotExist, "it stands still")
	}
}

func TestSweepRemovesWhatIsUnfinished(t *testing.T) {
	s, path := sealedIn(t, nil)
	for _, name := range []string{"a", durable.TempPrefix + "1", durable.TempPrefix + "2"} {
		must(t, os.WriteFile(filepath.Join(path, name), nil, 0o666))
	}
	if err := s.Dir.Sweep(func(name string) bool { return strings.HasSuffix(name, "2") }); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := s.Dir.Names(func(name string) { names = append(names, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := []string{"a", durable.TempPrefix + "2"}; !slices.Equal(names, want) {
		t.Errorf("left %q, want %q", names, want)
	}
}

// Every step of a Write fails in turn, as failed and as failed but done: the
// file holds the old contents or the new.
func TestSealedHoldsOldOrNewAfterFaults(t *testing.T) {
	for _, done := range []bool{false, true} {
		for fail := 1; ; fail++ {
			count, on := 0, false
			s, _ := sealedIn(t, func(step string, do func() error) error {
				if !on {
					return do()
				}
				if count++; count != fail {
					return do()
				}
				if done {
					do()
				}
				return errors.New("injected")
			})
			must(t, s.Write([]byte("old")))
			on = true
			err := s.Write([]byte("new"))
			on = false
			got, readErr := s.Read()
			if readErr != nil || string(got) != "new" && (err == nil || string(got) != "old") {
				t.Errorf("step %d (done %v) fails: %v; then %q, %v", fail, done, err, got, readErr)
			}
			if count < fail {
				break
			}
		}
	}
}

// An error of damage is one line, as each problem of a home is.
func TestDamageIsToldInOneLine(t *testing.T) {
	dir, err := durable.OpenDir(t.TempDir(), nil)
	must(t, err)
	defer dir.Close()
	for _, s := range []durable.Sealed{{Dir: dir, Name: "a", Kind: "k", Max: 10}, {Dir: dir, Name: "long", Kind: "k", Max: 10}} {
		must(t, errors.Join(dir.Replace("a", []byte("garbage")), dir.Replace("long", make([]byte, 1000))))
		if _, err := s.Read(); !errors.Is(err, durable.ErrDamaged) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q", err)
		}
	}
}

func TestAFileIsVerifiedAgainAfterEveryChange(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	text := []byte("some text")
	sum := sha256.Sum256(text)
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
	wantErr(t, check(), durable.ErrDamaged, "swapped")
	if durable.Lost(fs.ErrPermission) || !durable.Lost(fs.ErrNotExist) {
		t.Error("a file that may not be read is not lost, one that is gone is")
	}
}

func TestCallersAtTheSameTimeShareOneVerification(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte("some text"), 0o600))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	var (
		calls   atomic.Int64
		wg      sync.WaitGroup
		entered = make(chan bool, 8)
		goOn    = make(chan bool)
	)
	once := func() {
		err := v.Once(f, [sha256.Size]byte{1}, func() error {
			calls.Add(1)
			entered <- true
			<-goOn
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	wg.Go(once)
	<-entered
	var begun sync.WaitGroup
	for range 7 {
		begun.Add(1)
		wg.Go(func() { begun.Done(); once() })
	}
	begun.Wait()
	close(goOn)
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d verifications, want 1", n)
	}
}

// wantErr reports an error that is not the one wanted; about says of what.
func wantErr(t testing.TB, err, want error, about string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(about, args...), err, want)
	}
}

// errOf returns the error of a call with a result.
func errOf[T any](_ T, err error) error { return err }
