package objectstest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Key and Secret are the credentials of a [Process].
const (
	Key    = "someone"
	Secret = "a-secret-of-the-tests"
)

// startLimit is how long a server may take to begin.
const startLimit = 30 * time.Second

// Real starts a [Process] for the length of a test, and returns its endpoint.
func Real(t testing.TB) (endpoint string) {
	t.Helper()
	return Start(t).Endpoint
}

// A Process is a server of the S3 API in a process of its own, with a bucket named
// bucket. Its objects outlive it.
type Process struct {
	Endpoint string // URL

	t     testing.TB
	dir   string
	cmd   *exec.Cmd
	apart bool // facts are in files of their own
}

// Start starts the server that make store has built, for the length of a test. Without
// one the test is skipped.
func Start(t testing.TB) *Process {
	t.Helper()
	p := &Process{t: t, dir: t.TempDir()}
	if _, ok := find(server); !ok {
		t.Skip(server + " is not there: make store builds it")
	}
	for _, d := range []string{filepath.Join(p.data(), "bucket"), p.facts()} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if p.apart = unix.Setxattr(p.data(), "user.test", []byte("x"), 0) != nil; p.apart {
		t.Log("no extended attributes here: a store killed while it makes an object may say for good that it is there and that it is not")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Endpoint = "http://" + free.Addr().String()
	free.Close()
	p.Again()
	t.Cleanup(p.Kill)
	return p
}

var server = filepath.Join("bin", "versitygw")

func (p *Process) data() string { return filepath.Join(p.dir, "data") }

// facts is for what the server knows of objects, on a file system without extended
// attributes. A server that keeps it there writes it before the object has its name: one
// killed in between refuses to make the object, and to read it.
func (p *Process) facts() string { return filepath.Join(p.dir, "facts") }

// Kill ends the process at once.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Again starts the process again at its address, with its objects.
func (p *Process) Again() {
	p.t.Helper()
	program, _ := find(server)
	address := strings.TrimPrefix(p.Endpoint, "http://")
	args := []string{"--port", address, "--quiet", "posix", p.data()}
	if p.apart {
		args = slices.Insert(args, len(args)-1, "--sidecar", p.facts())
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Key, "ROOT_SECRET_KEY="+Secret)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for end := time.Now().Add(startLimit); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			p.t.Fatal(err)
		}
	}
}

// find looks for a file of the module, from the directory of the test upwards.
func find(name string) (path string, ok bool) {
	for up := "."; len(up) < 40; up = filepath.Join("..", up) {
		path := filepath.Join(up, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}
