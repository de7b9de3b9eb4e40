package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// A daemon is a running "cutie serve" on a free port.
type daemon struct {
	cmd    *exec.Cmd
	url    string // with a slash at its end
	node   string // likewise, of the daemon among others with the same home in a store
	stderr lockedBuffer
	read   chan struct{} // closed when its standard output has ended
}

// startLimit is how long a daemon may take to begin, stopLimit to end. It is asked
// again after askEvery.
const (
	startLimit = 30 * time.Second
	stopLimit  = 30 * time.Second
	askEvery   = 10 * time.Millisecond
)

// start runs a daemon on home and returns once it has printed what to open.
func start(dir, home string, args ...string) (*daemon, error) {
	d := &daemon{read: make(chan struct{})}
	if !slices.Contains(args, "--config") { // it may say the level
		args = append([]string{"--log-level", "warn"}, args...)
	}
	args = append([]string{"serve", "--home", home, "--listen", "127.0.0.1:0"}, args...)
	d.cmd = exec.Command("cutie", args...)
	d.cmd.Dir = dir
	d.cmd.Stderr = &d.stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := processes.Start(d.cmd); err != nil {
		return nil, err
	}
	kill := time.AfterFunc(startLimit, func() { d.cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "open" {
			d.url = f[1]
		} else if len(f) == 2 && f[0] == "node" {
			d.node = f[1]
		}
		if strings.HasPrefix(lines.Text(), "stop with") {
			go func() {
				io.Copy(io.Discard, out)
				close(d.read)
			}()
			return d, nil
		}
	}
	close(d.read)
	return nil, fmt.Errorf("daemon did not begin: %v: %s", d.cmd.Wait(), d.stderr.String())
}

// stop ends the daemon by a signal and returns how it ended.
func (d *daemon) stop(sig syscall.Signal) error {
	if err := d.cmd.Process.Signal(sig); err != nil {
		return err
	}
	return d.ended()
}

// ended waits for the end of a daemon that was told to stop.
func (d *daemon) ended() error {
	kill := time.AfterFunc(stopLimit, func() { d.cmd.Process.Kill() })
	defer kill.Stop()
	<-d.read
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, d.stderr.String())
	}
	return nil
}

// kill makes sure that no daemon outlives its test.
func (d *daemon) kill() {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		<-d.read
		d.cmd.Wait()
	}
}

// serve runs a daemon on a fresh home for the length of a test.
func serve(t *testing.T, args ...string) *daemon {
	t.Helper()
	return serveHome(t, filepath.Join(t.TempDir(), "home"), args...)
}

func serveHome(t *testing.T, home string, args ...string) *daemon {
	t.Helper()
	d, err := start(t.TempDir(), home, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

// send sends a request to the daemon, and expects a success.
func (d *daemon) send(t *testing.T, method, path, body string, header ...string) string {
	t.Helper()
	r, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %v %s", method, path, a.Status, err, text)
	}
	return string(text)
}

// environ is the environment without variables for tests and settings.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CUTIE_") })
}

// cutie runs a command to its end and returns what it printed.
func cutie(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command("cutie", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CUTIE_HOME=", "CUTIE_URL=")
	var e bytes.Buffer
	cmd.Stderr = &e
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, e.String())
	}
	return string(out), err
}

// A lockedBuffer may be read while a process still writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
