package main_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cutie/testdata/processes"
)

// A worker that is killed takes its command along, and the children of the command:
// the job goes to another worker.
func TestAKilledWorkerLeavesNoCommandBehind(t *testing.T) {
	t.Parallel()
	d := serve(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := cutie(t, "put", "jobs", filepath.Join(dir, "f"), "-u", d.url, "-q"); err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(dir, "pids")
	worker := exec.Command("cutie", "work", "jobs", "-u", d.url, "--", "sh", "-c", `sleep 1000 & a=$!; sh -c 'trap "" TERM HUP; sleep 1001' & echo $$ $a $! >"$0.new"; mv "$0.new" "$0"; wait`, pids)
	worker.Dir = dir
	if err := processes.Start(worker); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	var running []int
	until(t, "the command", func() bool {
		text, err := os.ReadFile(pids)
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, pid)
		}
		return err == nil
	})
	worker.Process.Kill()
	for _, pid := range running {
		until(t, "the end of "+strconv.Itoa(pid), func() bool { return gone(pid) })
	}
}

// A worker whose result is not taken, as by a daemon with a full disk, gives the job back when
// it is ended, and ends.
func TestAWorkerEndsWhoseResultIsNotTaken(t *testing.T) {
	t.Parallel()
	d := serve(t)
	to, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			http.Error(w, "the disk is full", http.StatusInsufficientStorage)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(full.Close)
	const job = "j000000000001"
	d.send(t, "POST", "content/jobs", "x")
	said := &lockedBuffer{}
	worker := exec.Command("cutie", "work", "jobs", "-u", full.URL+"/", "-v", "--", "echo", "done")
	worker.Dir, worker.Stdout, worker.Stderr = t.TempDir(), said, said
	if err := processes.Start(worker); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	until(t, "a refused result", func() bool { return strings.Contains(said.String(), "sends it again") })
	worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil || !strings.Contains(said.String(), job+": given back, for no result was taken") {
		t.Errorf("got %v, output %q", err, said.String())
	}
	if got := d.send(t, "GET", "state/jobs/"+job+"?t=json", ""); !strings.Contains(got, `"pending"`) || !strings.Contains(got, "before its result was taken") {
		t.Errorf("the job is not given back: %s", got)
	}
}

// gone reports whether a process has ended. The init of a container may not collect it.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}
