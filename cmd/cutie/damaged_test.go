package main_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestADamagedPayloadIsNoticed flips a bit of stored payloads of 2 MiB, which the daemon hands
// out unread. The answers have the digests of the submission, and clients verify them: get
// and peek fail.
func TestADamagedPayloadIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, payload := filepath.Join(dir, "home"), bytes.Repeat([]byte("payload\n"), 2<<20/8)
	if err := os.WriteFile(filepath.Join(dir, "text"), payload, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := start(dir, home)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command("cutie", append(args, "-u", d.url)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 5 {
		if out, err := run("put", "jobs", "text"); err != nil {
			t.Fatalf("put: %v: %s", err, out)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil { // with all files written
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(home, "queues/jobs/payload/*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("got payloads %q, %v", files, err)
	}
	payload[1<<20] ^= 1
	for _, file := range files[:4] {
		if err := os.WriteFile(file, payload, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = start(dir, home); err != nil {
		t.Fatal(err)
	}
	defer d.stop(syscall.SIGTERM)
	const want = "digest verification failed"
	for _, args := range [][]string{
		{"peek", "jobs", "-o", "got"},
		{"get", "jobs", "-o", "got"},
		{"get", "jobs", "--lease", "1h", "-o", "got"},
	} {
		out, err := run(args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: got %v, %s, want %q", args, err, out, want)
		}
	}
	resp, err := http.Get(d.url + "content/jobs/j000000000005?t=application/octet-stream")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	other, err := http.Get(d.url + "queues/jobs/payload/j000000000005")
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	if got, want := resp.Header.Get("Repr-Digest"), other.Header.Get("Repr-Digest"); got != want || !strings.HasPrefix(got, "sha-256=:") {
		t.Errorf("got Repr-Digest %q, want %q", got, want)
	}
}
