package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A trace goes from the environment of the submitter to that of the command that works,
// and its spans to the collector before the daemon has stopped.
func TestATraceGoesThroughTheQueue(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	var octets atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		octets.Add(n)
	}))
	defer sink.Close()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	d := serveHome(t, home, "--traces", sink.URL)
	sh(t, dir, `echo hello >file
TRACEPARENT=00-`+trace+`-b7ad6b7169203331-01 cutie put jobs file --home home
cutie work jobs --drain --home home -- sh -c 'echo $TRACEPARENT >>`+dir+`/seen'
`)
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if line := string(seen); err != nil || !strings.HasPrefix(line, "00-"+trace+"-") || strings.Contains(line, "b7ad6b7169203331") {
		t.Errorf("got %q, %v, want another span of the trace", seen, err)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if octets.Load() == 0 {
		t.Error("no spans came")
	}
	for _, wrong := range [][]string{{"--traces", "127.0.0.1:4318"}, {"--trace-ratio", "2"}, {"--trace-ratio", "NaN"}} {
		if out, err := cutie(t, append([]string{"serve", "--home", filepath.Join(dir, "other")}, wrong...)...); err == nil || !strings.Contains(err.Error(), wrong[0]) {
			t.Errorf("%v: got %q, %v", wrong, out, err)
		}
	}
}
