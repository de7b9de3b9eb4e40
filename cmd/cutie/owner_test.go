package main_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const ownerID = 12345

// TestFilesOfRootBelongToTheOwnerOfTheHome runs commands of root on a home of another user,
// and serves it. Else the daemon of that user could not open these files. Root still reads
// what only root may read.
func TestFilesOfRootBelongToTheOwnerOfTheHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); errno != 0 {
		t.Skip("a build with cgo cannot keep the capabilities of root, and not enter this directory")
	}
	dir := t.TempDir()
	home, private := filepath.Join(dir, "home"), filepath.Join(dir, "private")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, ownerID, ownerID); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(private, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	owned := func(by string) {
		t.Helper()
		err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if of := info.Sys().(*syscall.Stat_t); of.Uid != ownerID || of.Gid != ownerID {
				t.Errorf("after %s %s belongs to %d:%d", by, path, of.Uid, of.Gid)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, command := range []string{"init", "create jobs", "put jobs " + private, "status", "ls jobs", "get jobs", "set jobs --description new",
		"check", "check --repair", "check --rebuild", "publish --status", "publish --rebuild"} {
		args := append(strings.Fields(command), "--home", home)
		cmd := exec.Command("cutie", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		owned(command)
	}
	d, err := start(dir, home)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cutie", "put", "jobs", private, "--home", home).CombinedOutput(); err != nil {
		t.Errorf("put: %v: %s", err, out)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	owned("serve")
}
