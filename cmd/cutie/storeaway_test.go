package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/long"
)

// The credentials of an owner expire at work. It says so, refuses changes, and goes on by
// itself with valid ones; what it acknowledged is there. The daemon asks for half a minute
// before it refuses.
func TestAnOwnerOutlivesItsCredentials(t *testing.T) {
	t.Parallel()
	if !long.On() {
		t.Skip("takes half a minute: CUTIE_LONG=1")
	}
	var expired atomic.Bool
	store := objectstest.Handler(new(objectstest.Memory))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !expired.Load() {
			store.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>ExpiredToken</Code><Message>as the store says it</Message></Error>")
	}))
	defer srv.Close()
	d, err := start(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer d.kill()
	submit := func() (status int, after string) {
		t.Helper()
		resp, err := http.Post(d.node+"content/jobs", "text/plain", strings.NewReader("payload"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	get := func(path string) (status int, text string) {
		t.Helper()
		resp, err := http.Get(d.node + path)
		if err != nil {
			return 0, err.Error() // it opens the home again
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	if status, _ := submit(); status != http.StatusCreated {
		t.Fatalf("before: %d", status)
	}
	expired.Store(true)
	if status, after := submit(); status != http.StatusServiceUnavailable || after == "" {
		t.Errorf("a change with expired credentials: %d, Retry-After %q", status, after)
	}
	if status, text := get("readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "denies access") {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := get("state/jobs"); status != http.StatusOK {
		t.Errorf("reading: %d", status)
	}
	if _, text := get("metrics"); !strings.Contains(text, "\ncutie_store_failing 1\n") || !strings.Contains(text, "\ncutie_storage_failed 0\n") {
		t.Error("the metrics do not tell")
	}
	expired.Store(false)
	for end := time.Now().Add(startLimit); ; time.Sleep(askEvery) {
		if status, _ := get("readyz"); status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not go on")
		}
	}
	if status, _ := submit(); status != http.StatusCreated {
		t.Errorf("after: %d", status)
	}
	if _, text := get("state/jobs?t=json&limit=0"); !strings.Contains(text, `"numPendingJobs":2`) {
		t.Errorf("got %s, want the two acknowledged", text)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
