package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/durable"
)

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
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		other := t.TempDir()
		err = errors.Join(os.MkdirAll(dir+"/a/b/c", 0o777), os.WriteFile(dir+"/a/b/file", nil, 0o666), os.WriteFile(dir+"/a/file", nil, 0o666),
			os.WriteFile(other+"/kept", nil, 0o666), os.Symlink(other, dir+"/a/b/link"), os.Symlink(other, dir+"/link"), os.WriteFile(dir+"/kept", nil, 0o666))
		if err != nil {
			t.Fatal(err)
		}
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
