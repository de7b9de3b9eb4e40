package reach_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
)

func TestADaemonWaitsForAShortLock(t *testing.T) {
	home, want := t.TempDir(), new(queuefs.Service)
	calls := 0
	got, err := reach.OpenUnlocked(context.Background(), home, func() (*queuefs.Service, error) {
		if calls++; calls < 3 {
			return nil, &queuefs.LockedError{Dir: home}
		}
		return want, nil
	})
	if got != want || err != nil || calls != 3 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
}

func TestADaemonDoesNotWaitForAnother(t *testing.T) {
	home := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(home, "cutie-socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	calls := 0
	_, err = reach.OpenUnlocked(context.Background(), home, func() (*queuefs.Service, error) {
		calls++
		return new(queuefs.Service), nil // a file system without locks
	})
	if locked := (*queuefs.LockedError)(nil); !errors.As(err, &locked) || locked.PID != os.Getpid() || calls != 0 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}
