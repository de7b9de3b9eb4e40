package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"cutie/queuefs/durable"
)

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
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		sub, err := d.MakeSub("sub")
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		for _, err := range []error{sub.Put("put", []byte("x")), sub.Replace("replace", []byte("x")), sub.Allocate("allocate", 4096)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := sub.Append("append")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		temp, _, err := sub.Temp()
		if err != nil {
			t.Fatal(err)
		}
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
