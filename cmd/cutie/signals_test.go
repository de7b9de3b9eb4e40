package main_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// A daemon goes on when those who read its log and its output have left.
func TestADaemonOutlivesWhoReadsItsOutput(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.Command("cutie", "serve", "--home", home, "--listen", "127.0.0.1:0")
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := processes.Start(cmd); err != nil {
		t.Fatal(err)
	}
	d := &daemon{cmd: cmd, read: make(chan struct{})}
	close(d.read)
	t.Cleanup(d.kill)
	for lines := bufio.NewScanner(out); d.url == "" && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "open" {
			d.url = f[1]
		}
	}
	out.Close()
	log.Close()
	record := filepath.Join(home, "log/web-access.txt")
	until(t, "an access log", func() bool { // it is written once in a second
		send(t, http.DefaultClient, "GET", d.url+"livez", "")
		_, err := os.Stat(record)
		return err == nil
	})
	if err := os.Rename(record, record+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "a new access log, of which a line was logged", func() bool {
		_, err := os.Stat(record)
		return err == nil
	})
	send(t, http.DefaultClient, "GET", d.url+"livez", "")
	if err := d.stop(syscall.SIGTERM); err != nil { // which logs more lines
		t.Error(err)
	}
}

// SIGHUP ends no daemon, neither one that begins nor one that stops.
func TestSIGHUPEndsNoDaemon(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	done := make(chan struct{})
	for range 3 {
		d := serveHome(t, home)
		process := d.cmd.Process
		go func() {
			defer func() { done <- struct{}{} }()
			for process.Signal(syscall.SIGHUP) == nil { // until it has ended
			}
		}()
		err := d.stop(syscall.SIGTERM)
		<-done
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A daemon that cannot serve leaves nothing behind, and one that is told to stop
// says so before it waits for anybody.
func TestADaemonSaysWhatItDoesBeforeItDoesIt(t *testing.T) {
	t.Parallel()
	d := serve(t, "--log-level", "info")
	home := filepath.Join(t.TempDir(), "second")
	_, err := cutie(t, "serve", "--home", home, "--listen", strings.Trim(strings.TrimPrefix(d.url, "http:"), "/"))
	if err == nil || !strings.Contains(err.Error(), "port in use") || !strings.Contains(err.Error(), "hint: --listen 127.0.0.1:0 takes a free port") {
		t.Errorf("got %v, want the port in use", err)
	}
	if _, err := os.Lstat(home); !os.IsNotExist(err) {
		t.Errorf("a home was made all the same: %v", err)
	}

	// A submission in progress delays the stop.
	body, more := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		r, err := http.NewRequest("POST", d.url+"content/jobs", body)
		if err == nil {
			r.Header.Set("Expect", "100-continue") // so that the body is read when the daemon wants it
			var resp *http.Response
			if resp, err = (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}
		sent <- err
	}()
	io.WriteString(more, "x")
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "stopping in the log", func() bool { return strings.Contains(d.stderr.String(), `"message":"stopping"`) })
	if strings.Contains(d.stderr.String(), "requests ended") {
		t.Error("the daemon did not wait for the submission")
	}
	more.Close()
	if err := errors.Join(<-sent, d.ended()); err != nil {
		t.Error(err)
	}
}
