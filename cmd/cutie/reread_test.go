package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "cutie.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("max-waits = 5\nmax-conns = 20\n")
	d := serveHome(t, filepath.Join(dir, "home"), "--config", file, "--log-keep", "3")
	// hangup sends SIGHUP, and returns what the daemon logs until the last word of it.
	hangup := func(last string) string {
		t.Helper()
		before := len(d.stderr.String())
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(askEvery) {
			if text := d.stderr.String()[before:]; strings.Contains(text, last) {
				return text
			}
		}
		t.Fatalf("got %s, want %q", d.stderr.String()[before:], last)
		return ""
	}
	log := func() string {
		t.Helper()
		before := len(d.stderr.String())
		resp, err := http.Get(d.url + "livez")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := hangup("access log reopened"); len(got) == 0 {
			t.Fatal("nothing is logged")
		}
		return d.stderr.String()[before:]
	}
	const done, stay = "settings read again", "settings of before stay in force"
	if got := hangup(done); strings.Contains(got, "need a restart") {
		t.Errorf("got %s, want no changes", got)
	}
	if got := log(); strings.Contains(got, "/livez") {
		t.Errorf("got %s, want no lines of requests", got)
	}
	write("max-waits = 5\nmax-conns = 30\nlog-level = \"debug\"\nlog-keep = 9\nkeep = \"5h\"\nrobots = true\n")
	if got := hangup(done); !strings.Contains(got, `"settings":["max-conns","robots"]`) {
		t.Errorf("got %s, want the settings that wait; that of the command line stays", got)
	}
	if got := log(); !strings.Contains(got, "/livez") {
		t.Errorf("got %s, want a line for the request", got)
	}
	about := d.send(t, "GET", ".well-known/resourcesync/jobs/replica/about.json", "")
	if !strings.Contains(about, `"keep": 18000,`) {
		t.Errorf("got %s, want the time that documents are kept", about)
	}
	for _, wrong := range []string{"max-waits = 0", "keep-size = \"200%\"", "allow-fetch = [\"a b\"]", "log-level = \"loud\"", "what = 1", "x", "trace-ratio = \"7\""} {
		write(wrong + "\n")
		hangup(stay)
	}
	if got := log(); !strings.Contains(got, "/livez") {
		t.Errorf("got %s, want the level of before", got)
	}
	write("max-conns = 20\nlog-level = \"info\"\n")
	if got := hangup(done); strings.Contains(got, "need a restart") {
		t.Errorf("got %s, want all as at the start", got)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
