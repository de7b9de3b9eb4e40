package main_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs/objects/objectstest"
)

// lookedAt is all that a daemon shows of the queue jobs: states with results, documents,
// and the dumps it has published.
func lookedAt(t *testing.T, d *daemon) map[string]string {
	t.Helper()
	all := map[string]string{}
	link := regexp.MustCompile(`<loc>([^<]*)</loc>`)
	for paths := documents; len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		if _, known := all[path]; known {
			continue
		}
		resp, err := http.Get(d.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[path] = resp.Status + "\n" + string(body) // a closed list names jobs that are gone
		for _, m := range link.FindAllStringSubmatch(all[path], -1) {
			if to, ok := strings.CutPrefix(m[1], d.url); ok && strings.HasPrefix(path, published) {
				paths = append(paths, to)
			}
		}
	}
	return all
}

// A home in a directory is moved into a store and served there, and moved back; each time
// it has the same jobs and results, and has published the same, and goes on.
func TestAHomeIsMovedIntoAStoreAndBackByCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("large ", 50<<10)), 0o666); err != nil {
		t.Fatal(err)
	}
	store := storeOptions(t, new(objectstest.Memory))
	endpoint := store[len(store)-2:]
	run := func(args ...string) string {
		t.Helper()
		out, err := cutie(t, args...)
		if err != nil {
			t.Fatal(args, err)
		}
		return out
	}
	move := func(args ...string) string {
		t.Helper()
		return run(append(append([]string{"store"}, args...), "--store-endpoint", store[3])...)
	}
	home, back := filepath.Join(dir, "home"), filepath.Join(dir, "back")
	var want map[string]string
	var again []string // the address of the first daemon
	// round serves the home, compares it with the round before, and works. Lists closed in the
	// store after the last image are open again on a fresh machine, so none is closed there.
	round := func(what, home string, options ...string) {
		t.Helper()
		d := serveHome(t, home, slices.Concat(options, again)...)
		again = []string{"--listen", strings.Trim(strings.TrimPrefix(d.url, "http:"), "/")}
		if want != nil {
			got := lookedAt(t, d)
			for path := range want {
				if got[path] != want[path] {
					t.Errorf("%s: %s: %s", what, path, difference([]byte(got[path]), []byte(want[path])))
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d documents, want %d", what, len(got), len(want))
			}
		}
		run("submit", "jobs", "/etc/hostname", large, "--url", d.url)
		run("work", "jobs", "--drain", "--url", d.url, "--", "sh", "-c", "echo the result of "+what)
		if len(options) == 0 {
			run("publish", "--now", "--url", d.url)
		}
		run("submit", "jobs", "/etc/hostname", "--url", d.url)
		want = lookedAt(t, d)
		if out, err := cutie(t, "store", "push", home, "s3://bucket/second", endpoint[0], endpoint[1]); err == nil {
			t.Errorf("%s: a home in use was pushed: %s", what, out)
		}
		if err := d.stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	round("in the directory", home)
	if out := move("push", home, "s3://bucket/home"); !strings.Contains(out, "which has closed it") {
		t.Errorf("push printed %s", out)
	}
	round("in the store", home, store...)
	round("in the store, by a fresh machine", filepath.Join(dir, "cache"), store...)
	if out := move("check", "s3://bucket/home"); !strings.Contains(out, " 0 faults") {
		t.Errorf("check printed %s", out)
	}
	if out := move("pull", "s3://bucket/home", back); !strings.Contains(out, "where the home has moved") {
		t.Errorf("pull printed %s", out)
	}
	_, err := start(t.TempDir(), filepath.Join(dir, "cache"), store...)
	if err == nil || !strings.Contains(err.Error(), "has moved from the object store to the directory "+back) {
		t.Errorf("a daemon on the store that the home has left: got %v", err)
	}
	round("in the directory again", back)
	if out, err := cutie(t, "check", back); err != nil {
		t.Errorf("check of the directory: %s, %v", out, err)
	}
	move("push", back, "s3://bucket/home")
	round("in the store again", back, store...)
}
