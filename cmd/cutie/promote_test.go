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
	"syscall"
	"testing"
)

// TestFollowersOfTheOriginalFollowThePromotedHome has copies of an original that are where
// its backup is, behind it, and ahead of it. The backup takes over under the same URL. The
// first two go on with the changes, and fetch nothing else; the last one begins anew. All
// end as true copies.
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

	// A copy by a former program has no changes.
	if err := os.CopyFS(filepath.Join(dir, "former"), os.DirFS(filepath.Join(dir, "backup"))); err != nil {
		t.Fatal(err)
	}
	changes, err := filepath.Glob(filepath.Join(dir, "former/.cutie-sync/changes-*"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("the copy has the changes %q, %v", changes, err)
	}
	if err := os.Remove(changes[0]); err != nil {
		t.Fatal(err)
	}
	if out := run("promote", "former"); !strings.Contains(out, "changes up to then are not published") {
		t.Errorf("promote says %s", out)
	}

	out := run("promote", "backup")
	for _, want := range []string{"the last event seen is 3 of ", "its changes from event 1 on stay published"} {
		if !strings.Contains(out, want) {
			t.Errorf("promote says %s, and not %q", out, want)
		}
	}
	if err := serve(filepath.Join(dir, "backup")).stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	serve(filepath.Join(dir, "backup")) // the lists of before the promotion stay
	if got := put(url, "new"); got != lost {
		t.Errorf("the first new job is %s, want %s", got, lost)
	}
	for copy, want := range map[string][]string{
		"level":  {"replica: changes", "fetched 2, same 0, deleted 0,"},
		"behind": {"replica: changes", "fetched 5, same 0, deleted 1,"},
		"ahead":  {"replica: baseline"},
	} {
		out := run("sync", "--delete", "all", copy)
		for _, want := range want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: want %q, got %s", copy, want, out)
			}
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
