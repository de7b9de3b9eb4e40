package main_test

import (
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFollowersOfTheOriginalFollowThePromotedHome has copies of an original that are where
// its backup is, behind it, and ahead of it. The backup takes over under the same URL. The
// first goes on with the changes; the others begin anew, and all end as true copies.
func TestFollowersOfTheOriginalFollowThePromotedHome(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("cutie", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	put := func(url, text string) string {
		t.Helper()
		name := filepath.Join(dir, text)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(run("put", "jobs", name, "-u", url))
	}
	home := filepath.Join(dir, "home")
	run("init", home)
	run("createQueue", "jobs", "--home", home)
	// The URL is that of a proxy, so that nobody takes it in between.
	var at atomic.Pointer[neturl.URL]
	proxy := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at.Load()); r.Out.Host = r.In.Host }})
	t.Cleanup(proxy.Close)
	url := proxy.URL + "/"
	serve := func(home string) *daemon {
		t.Helper()
		for try := 0; ; try++ {
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := free.Addr().String()
			free.Close()
			d, err := start(dir, home, "--base-uri", url, "--listen", address)
			if err == nil {
				t.Cleanup(d.kill)
				at.Store(&neturl.URL{Scheme: "http", Host: address})
				return d
			}
			if try == 5 { // each time somebody else took the port
				t.Fatal(err)
			}
		}
	}
	original := serve(home)
	put(url, "seen by all")
	run("sync", url, "behind")
	put(url, "not seen by one")
	run("get", "jobs", "-u", url)
	for _, to := range []string{"backup", "level"} {
		run("sync", url, to)
	}
	lost := put(url, "seen by one alone")
	run("sync", url, "ahead")
	original.kill()

	if out := run("promote", "backup"); !strings.Contains(out, "the last event seen is 3 of ") {
		t.Errorf("promote says %s", out)
	}
	serve(filepath.Join(dir, "backup"))
	if got := put(url, "new"); got != lost {
		t.Errorf("the first new job is %s, want %s", got, lost)
	}
	for copy, anew := range map[string]bool{"level": false, "behind": true, "ahead": true} {
		out := run("sync", "--delete", "all", copy)
		if strings.Contains(out, "replica: baseline") != anew {
			t.Errorf("%s: want a new baseline: %v, got %s", copy, anew, out)
		}
		if out := run("audit", copy, "--checksum"); !strings.Contains(out, "missing 0, different 0, extra 0") {
			t.Errorf("%s: %s", copy, out)
		}
		data, err := os.ReadFile(filepath.Join(dir, copy, "queues/jobs/payload", lost))
		if err != nil || string(data) != "new" {
			t.Errorf("%s has %q, %v in %s", copy, data, err, lost)
		}
	}
}
