package home_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cutie/queuefs/home"
)

// TestALockOutlivesItsFile removes and replaces cutie-lock, as rm and rsync do, while the
// home is held: nobody else gets it, and no foreign process is blamed.
func TestALockOutlivesItsFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"untouched": func(string) error { return nil },
		"removed":   os.Remove,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+"-1", []byte("1\n"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+"-1", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			held, err := home.Lock(dir)
			must(t, err)
			must(t, change(filepath.Join(dir, home.LockName)))
			for by, lock := range map[string]func(string) (*home.Held, error){"to write": home.Lock, "to look": home.LockToLook} {
				got, err := lock(dir)
				var locked *home.LockedError
				if !errors.As(err, &locked) {
					t.Fatalf("%s: got %v, %v", by, got, err)
				}
				if want := map[bool]int{true: os.Getpid()}[name == "untouched"]; locked.PID != want {
					t.Errorf("%s: got process %d, want %d", by, locked.PID, want)
				}
			}
			must(t, held.Close())
			again, err := home.Lock(dir)
			must(t, err)
			must(t, again.Close())
		})
	}
}

// TestLooksShareAHome: those who look keep writers out, and write no file.
func TestLooksShareAHome(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		look, err := home.LockToLook(dir)
		must(t, err)
		defer look.Close()
	}
	if got, err := home.Lock(dir); err == nil {
		t.Errorf("got %v beside those who look", got)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("got files %v, %v", names, err)
	}
}

// A child that is being started has a copy of each descriptor for a moment: a home that was
// let go of is free all the same.
func TestALockEndsWhileChildrenAreStarted(t *testing.T) {
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = exec.Command("/bin/true").Run() // absent or not, it forks
			}
		}
	}()
	for range 2000 {
		held, err := home.Lock(dir)
		if err != nil {
			t.Error(err)
			break
		}
		must(t, held.Close())
	}
	close(stop)
	<-stopped
}
