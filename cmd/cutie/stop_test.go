package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An upload is a submission that stands still in the midst of its body.
type upload struct {
	conn net.Conn
	r    *bufio.Reader
}

const uploadSize = 10

// beginUpload returns once the daemon reads the body: it says 100 Continue.
func beginUpload(t *testing.T, d *daemon) *upload {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(stopLimit))
	fmt.Fprintf(conn, "POST /content/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", u.Host, uploadSize)
	up := &upload{conn, bufio.NewReader(conn)}
	line, err := up.r.ReadString('\n')
	if err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("got %q, %v, want 100 Continue", line, err)
	}
	if _, err := up.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return up
}

// finish sends the body and returns the answer.
func (u *upload) finish() (*http.Response, error) {
	if _, err := io.WriteString(u.conn, strings.Repeat("x", uploadSize)); err != nil {
		return nil, err
	}
	return http.ReadResponse(u.r, nil)
}

// awaitClosed returns once the daemon takes no more connections.
func awaitClosed(t *testing.T, d *daemon) {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(stopLimit); time.Now().Before(end); {
		conn, err := net.Dial("tcp", u.Host)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			conn.Close()
		}
	}
	t.Fatal("daemon still listens")
}

func TestRequestInProgressEndsBeforeTheDaemon(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home)
	up := beginUpload(t, d)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, d)
	resp, err := up.finish()
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("got %s, want 201", resp.Status)
	}
	if err := d.ended(); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	if out, err := cutie(t, "ls", "jobs", "--home", home); err != nil || !strings.HasPrefix(out, "j000000000001\tpending\t10\t") {
		t.Errorf("got %q, %v, want the job", out, err)
	}
}

func TestRequestIsCutOffAtTheEndOfTheGrace(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home, "--grace", "50ms")
	up := beginUpload(t, d)
	if err := d.stop(syscall.SIGINT); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
	if resp, err := up.finish(); err == nil {
		resp.Body.Close()
		t.Errorf("got %s, want no answer", resp.Status)
	}
	if out, err := cutie(t, "ls", "jobs", "--home", home); err != nil || out != "" {
		t.Errorf("got %q, %v, want no job", out, err)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home, "--grace", "1h")
	beginUpload(t, d)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, d)
	err := d.stop(syscall.SIGTERM)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want an end by the signal", err)
	}
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
}

func TestKilledDaemonLeavesNoTrouble(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := serveHome(t, home)
	resp, err := http.Post(d.url+"content/jobs", "text/plain", strings.NewReader("one"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := d.stop(syscall.SIGKILL); err == nil {
		t.Fatal("daemon survived")
	}
	// The socket is still there, and nobody listens on it.
	if out, err := cutie(t, "peek", "jobs", "--home", home); err != nil || out != "one" {
		t.Errorf("got %q, %v, want the payload", out, err)
	}
	d = serveHome(t, home)
	if out, err := cutie(t, "get", "jobs", "--home", home); err != nil || out != "one" {
		t.Errorf("got %q, %v, want the payload", out, err)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
}
