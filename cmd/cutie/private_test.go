package main_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// All of a home is for its owner alone, and a home that is not is warned of.
func TestHomesAreForTheirOwner(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home, "--dump-period", "1h")
	if resp, text := send(t, http.DefaultClient, "POST", d.url+"content/jobs", "x"); resp.StatusCode != 201 {
		t.Fatalf("got %s, %s", resp.Status, text)
	}
	if _, err := cutie(t, "--home", home, "set", "jobs", "--description", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := cutie(t, "--home", home, "publish", "--now"); err != nil {
		t.Fatal(err)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.stderr.String(), "chmod") {
		t.Errorf("got %s", d.stderr.String())
	}
	if _, err := cutie(t, "--home", home, "next", "jobs"); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if n++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", strings.TrimPrefix(path, home), info.Mode())
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d files, %v", n, err)
	}

	if err := os.Chmod(home, 0o750); err != nil {
		t.Fatal(err)
	}
	d = serveHome(t, home)
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.stderr.String(), "chmod 700") {
		t.Errorf("got %s, want a warning", d.stderr.String())
	}
}
