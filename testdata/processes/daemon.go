package processes

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Daemon is a running "cutie serve", the program of this name in PATH.
type Daemon struct {
	Cmd    *exec.Cmd
	URL    string // with a slash at its end
	Node   string // likewise, of the daemon among others with the same home in a store
	Stderr Output

	read chan struct{} // closed when its standard output has ended
}

// Limit is how long a daemon may take to begin, and to end. It is asked again after Again.
const (
	Limit = 30 * time.Second
	Again = 10 * time.Millisecond
)

// Begin runs a daemon on home, on a free port unless args have another one, and returns once
// it has printed what to open.
func Begin(dir, home string, args ...string) (*Daemon, error) {
	d := &Daemon{read: make(chan struct{})}
	if !slices.Contains(args, "--config") { // it may say the level
		args = append([]string{"--log-level", "warn"}, args...)
	}
	args = append([]string{"serve", "--home", home, "--listen", "127.0.0.1:0"}, args...)
	d.Cmd = exec.Command("cutie", args...)
	d.Cmd.Dir = dir
	d.Cmd.Stderr = &d.Stderr
	out, err := d.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := Start(d.Cmd); err != nil {
		return nil, err
	}
	kill := time.AfterFunc(Limit, func() { d.Cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "open" {
			d.URL = f[1]
		} else if len(f) == 2 && f[0] == "node" {
			d.Node = f[1]
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
	return nil, fmt.Errorf("daemon did not begin: %v: %s", d.Cmd.Wait(), d.Stderr.String())
}

// Serve runs a daemon on home for the length of a test.
func Serve(t testing.TB, home string, args ...string) *Daemon {
	t.Helper()
	d, err := Begin(t.TempDir(), home, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return d
}

// Stop ends the daemon by a signal and returns how it ended.
func (d *Daemon) Stop(sig syscall.Signal) error {
	if err := d.Cmd.Process.Signal(sig); err != nil {
		return err
	}
	return d.Ended()
}

// Ended waits for the end of a daemon that was told to stop.
func (d *Daemon) Ended() error {
	kill := time.AfterFunc(Limit, func() { d.Cmd.Process.Kill() })
	defer kill.Stop()
	<-d.read
	if err := d.Cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, d.Stderr.String())
	}
	return nil
}

// End ends the daemon as a supervisor does.
func (d *Daemon) End(t testing.TB) {
	t.Helper()
	if err := d.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("daemon ended badly: %v", err)
	}
}

// Kill makes sure that no daemon outlives its test.
func (d *Daemon) Kill() {
	if d.Cmd.ProcessState == nil {
		d.Cmd.Process.Kill()
		<-d.read
		d.Cmd.Wait()
	}
}

// Send sends a request to the daemon, and expects a success.
func (d *Daemon) Send(t testing.TB, method, path, body string, header ...string) string {
	t.Helper()
	a, text, err := Request(http.DefaultClient, method, d.URL+path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	if a.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, path, a.Status, text)
	}
	return text
}

// Request makes a request and returns the answer with its body.
func Request(c *http.Client, method, url, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// An Output is what a process says. It may be read while the process still writes.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
