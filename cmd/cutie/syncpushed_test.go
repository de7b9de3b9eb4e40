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
	if err := os.WriteFile(payload, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := processes.Start(cmd); err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	if text := said.String(); strings.Contains(text, "names no hub") || strings.Contains(text, "subscribe") {
		t.Errorf("said %q", text)
	}
}
