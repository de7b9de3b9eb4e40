// Package browsertest tries the pages of a daemon in a browser. It is apart from the other
// tests of the program, so that these link without a driver of browsers.
package browsertest

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
	"cutie/testdata/tmpfs"
)

// program is the daemon, built once for all tests.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	tmpfs.Use()
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "cutie-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "cutie")
		if _, err := exec.LookPath("chromium"); err == nil {
			if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, "cutie/cmd/cutie").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "cutie is not built: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// A daemon is a running "cutie serve" on a free port.
type daemon struct {
	cmd   *exec.Cmd
	url   string // with a slash at its end
	ended chan error
}

// waitLimit is how long the browser and the daemon may take for a step; they are asked again
// after askEvery.
const (
	waitLimit = 30 * time.Second
	askEvery  = 10 * time.Millisecond
)

// startForBrowser runs a daemon on a fresh home for the length of a test.
func startForBrowser(t *testing.T) *daemon {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed: pages are not tried in a browser")
	}
	dir := t.TempDir()
	d := &daemon{ended: make(chan error, 1)}
	d.cmd = exec.Command(program, "serve", "--home", filepath.Join(dir, "home"), "--listen", "127.0.0.1:0", "--log-level", "warn")
	d.cmd.Dir, d.cmd.Stderr = dir, os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = processes.Start(d.cmd)
	}
	must(t, err)
	kill := time.AfterFunc(waitLimit, func() { d.cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "stop with") {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "open" {
			d.url = f[1]
		}
	}
	go func() {
		io.Copy(io.Discard, out)
		d.ended <- d.cmd.Wait()
	}()
	t.Cleanup(func() { d.stop() })
	if d.url == "" {
		t.Fatal("the daemon did not begin")
	}
	return d
}

// stop ends the daemon as a supervisor does.
func (d *daemon) stop() error {
	d.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(waitLimit, func() { d.cmd.Process.Kill() })
	defer kill.Stop()
	err := <-d.ended
	d.ended <- err // for another call
	return err
}

// send sends a request to the daemon, and expects a success.
func (d *daemon) send(t *testing.T, method, path, body string, header ...string) string {
	t.Helper()
	r, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	must(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %v %s", method, path, a.Status, err, text)
	}
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
