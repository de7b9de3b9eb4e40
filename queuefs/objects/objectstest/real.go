package objectstest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Key and Secret are the credentials of [Real].
const (
	Key    = "someone"
	Secret = "a-secret-of-the-tests"
)

// startLimit is how long a server may take to begin.
const startLimit = 30 * time.Second

// Real starts the server that make store has built, for the length of a test. It serves
// the S3 API at the URL returned, with a bucket named bucket. Without a server the test
// is skipped.
func Real(t testing.TB) (endpoint string) {
	t.Helper()
	program, ok := find(filepath.Join("bin", "versitygw"))
	if !ok {
		t.Skip("bin/versitygw is not there: make store builds it")
	}
	dir := t.TempDir()
	data, facts := filepath.Join(dir, "data"), filepath.Join(dir, "facts") // without facts it has no conditional writes
	for _, d := range []string{filepath.Join(data, "bucket"), facts} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command(program, "--port", address, "--quiet", "posix", "--sidecar", facts, data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Key, "ROOT_SECRET_KEY="+Secret)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(startLimit); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return "http://" + address
		}
		if time.Now().After(end) {
			t.Fatal(err)
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
