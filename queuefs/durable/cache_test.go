package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cutie/queuefs/durable"
)

// many returns n directories below one, in a cache of limit descriptors.
func many(t *testing.T, n, limit int) (string, *durable.Cache, []*durable.Dir) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := all[0].Open("f0"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v, want %v", err, fs.ErrClosed)
	}
}

func TestCacheMakesAndFollowsNothing(t *testing.T) {
	path, c, all := many(t, 2, 1)
	top, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	q := c.Dir(top, "q0", false)
	if at, err := q.Changed("in"); at != 0 || err != nil {
		t.Errorf("got %d, %v of a directory not made yet", at, err)
	}
	if err := all[0].Put("f", nil); err != nil {
		t.Fatal(err)
	}
	if at, err := q.Changed("in"); at == 0 || err != nil {
		t.Errorf("got %d, %v", at, err)
	}
	if err := c.Dir(top, "none", false).Put("f", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	if err := os.Symlink(filepath.Join(path, "q0"), filepath.Join(path, "q1")); err != nil {
		t.Fatal(err)
	}
	if err := all[1].Put("g", nil); err == nil {
		t.Error("a link was followed")
	}
	if err := os.RemoveAll(filepath.Join(path, "q0")); err != nil {
		t.Fatal(err)
	}
	c.Dir(top, "none", true).Put("f", nil) // closes q0/in
	if err := all[0].Put("f", nil); err != nil {
		t.Errorf("got %v of a directory made again", err)
	}
}
