package main_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// A daemon under a service manager says when it is ready, that it lives, that it reloads,
// and that it stops.
func TestAServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	cmd := exec.Command("cutie", "serve", "--home", filepath.Join(dir, "home"), "--listen", "127.0.0.1:0", "--log-level", "warn")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=3000000")
	if err := processes.Start(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	hear := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		for {
			manager.SetReadDeadline(time.Now().Add(startLimit))
			n, err := manager.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	hear("READY=1\nSTATUS=serving http://127.0.0.1:")
	hear("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
