package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// With --listen the hub of a daemon tells of changes: the copy has them although it would
// look again in an hour only. It unsubscribes at its end.
func TestSyncToldByAHub(t *testing.T) {
	t.Parallel()
	d := serve(t, "--allow-fetch", loopback)
	payload := filepath.Join(t.TempDir(), "payload")
	must(t, os.WriteFile(payload, []byte("text"), 0o600))
	put := func() {
		t.Helper()
		if _, err := cutie(t, "-u", d.url, "put", "jobs", payload); err != nil {
			t.Fatal(err)
		}
	}
	put()
	mirror := filepath.Join(t.TempDir(), "mirror")
	cmd := exec.Command("cutie", "sync", d.url, mirror, "--follow", "--every", "1h", "--listen", "127.0.0.1:0", "-v")
	var said lockedBuffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, processes.Start(cmd))
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "fetched ") {
	}
	put()
	copied := filepath.Join(mirror, "queues/jobs/payload/j000000000002")
	for end := time.Now().Add(startLimit); ; {
		if text, err := os.ReadFile(copied); err == nil && string(text) == "text" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the change did not arrive: %s", said.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	if text := said.String(); strings.Contains(text, "names no hub") || strings.Contains(text, "subscribe") {
		t.Errorf("said %q", text)
	}
}
