package main_test

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/objects/objectstest"
)

// A fresh machine hands out jobs while published documents are on their way from the store.
// Until they are there it publishes nothing; then everything, with what was done meanwhile.
func TestJobsAreHandedOutBeforePublishedDocumentsHaveCome(t *testing.T) {
	t.Parallel()
	var fresh, waited atomic.Bool
	come := make(chan struct{})
	var m *objectstest.Memory
	m = &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
		// Published documents are at the end of the only object of the image.
		if fresh.Load() && r.Op == "Get" && r.To > 0 && strings.Contains(r.Name, "image/") && r.To == int64(len(m.Objects()[r.Name])) {
			waited.Store(true)
			<-come
		}
		return objectstest.None
	}}
	options := append(storeOptions(t, m), "--store-image", "1000")
	d := serve(t, options...)
	for m.Objects()["home/snapshot/00000000000000000001"] == nil {
		if out, err := cutie(t, "submit", "jobs", "/etc/hostname", "--url", d.url); err != nil {
			t.Fatal(out, err)
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	address := strings.Trim(strings.TrimPrefix(d.url, "http:"), "/")
	fresh.Store(true)
	started := make(chan *daemon, 1)
	go func() {
		d, err := start(t.TempDir(), filepath.Join(t.TempDir(), "cache"), append(options, "--listen", address)...)
		if err != nil {
			t.Error(err)
		}
		started <- d
	}()
	get := func(method, path string) (*http.Response, string) {
		req, err := http.NewRequest(method, d.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp, string(body)
	}
	for { // until it listens
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(askEvery)
	}
	taken, job := get("POST", "consume/jobs")
	if taken == nil || taken.StatusCode != http.StatusOK || !strings.HasSuffix(taken.Header.Get("Content-Location"), "/content/jobs/j000000000001") {
		t.Errorf("take: got %v, %s", taken, job)
	}
	for _, path := range []string{published, published + "pending/changelist.xml", "metrics"} {
		if resp, body := get("GET", path); resp == nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %v, %s", path, resp, body)
		}
	}
	if resp, body := get("DELETE", "state/jobs"); resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a queue goes: got %v, %s", resp, body)
	}
	for !waited.Load() {
		time.Sleep(askEvery)
	}
	close(come)
	if d = <-started; d == nil {
		return
	}
	t.Cleanup(d.kill)
	all := lookedAt(t, d)
	if list := all[published+"pending/changelist.xml"]; !strings.Contains(list, "payload/j000000000001") || !strings.Contains(list, `change="deleted"`) {
		t.Errorf("the job taken meanwhile is not in the Change List: %s", list)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
