package main_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
	if err := cmd.Start(); err != nil {
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
