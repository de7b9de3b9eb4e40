package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cutie/testdata/processes"
)

func TestSocketIsPrivate(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	processes.Serve(t, home)
	info, err := os.Stat(filepath.Join(home, "cutie-socket"))
	must(t, err)
	if got, want := info.Mode(), fs.ModeSocket|0o600; got != want {
		t.Errorf("got mode %v, want %v", got, want)
	}
}

// Profiles show payloads and tokens.
func TestProfilesAreForTheSocket(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home)
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, "cutie-socket"))
	}}}
	for _, of := range []struct {
		client *http.Client
		url    string
		want   int
	}{
		{socket, "http://home/debug/pprof/goroutine?debug=1", http.StatusOK},
		{socket, "http://home/debug/pprof/profile?seconds=1", http.StatusOK},
		{socket, "http://home/debug/pprof/none", http.StatusNotFound},
		{http.DefaultClient, d.URL + "debug/pprof/", http.StatusNotFound},
		{http.DefaultClient, d.URL + "debug/pprof/goroutine?debug=1", http.StatusNotFound},
		{http.DefaultClient, d.URL + "debug/pprof/profile?seconds=1", http.StatusNotFound},
	} {
		resp, err := of.client.Get(of.url)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != of.want || len(body) == 0 {
			t.Errorf("%s: got %s, %d octets, %v, want %d", of.url, resp.Status, len(body), err, of.want)
		}
	}
}

func TestSocketOfALongPath(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "home")
	must(t, os.MkdirAll(filepath.Dir(home), 0o777))
	d := processes.Serve(t, home)
	if _, err := cutie(t, "createQueue", "second", "--home", home); err != nil {
		t.Error(err)
	}
	// The home is locked, so the daemon did it.
	if out, err := cutie(t, "status", "--url", d.URL); err != nil || !strings.Contains(out, "second\t0") {
		t.Errorf("got %q, %v, want the second queue", out, err)
	}
	d.End(t)
	if _, err := os.Lstat(filepath.Join(home, "cutie-socket")); !os.IsNotExist(err) {
		t.Errorf("got %v, want no socket", err)
	}
}

func TestCommandsOnOneHomeTakeTurns(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "--home", home}} {
		run(t, args...)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o666))
	const n = 8
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = cutie(t, "put", "jobs", file, "--home", home); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	for i, id := range ids {
		if want := fmt.Sprintf("j%012d\n", i+1); id != want {
			t.Errorf("got %q, want %q", id, want)
		}
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for _, path := range []string{"livez", "readyz"} {
		resp, err := http.Get(d.URL + path)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s, want 200", path, resp.Status)
		}
		resp, err = http.Post(d.URL+path, "text/plain", nil)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got %s, Allow %q, want 405 and GET, HEAD", path, resp.Status, resp.Header.Get("Allow"))
		}
	}
}

func TestLogIsJSON(t *testing.T) {
	t.Parallel()
	d := serve(t, "--log-format", "json", "--log-level", "debug")
	resp, err := http.Get(d.URL + "state")
	must(t, err)
	resp.Body.Close()
	d.End(t)
	var got []string
	for line := range strings.Lines(d.Stderr.String()) {
		var event struct {
			Message, Level, Path string
			Status               int
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got = append(got, fmt.Sprint(event.Level, " ", event.Message, " ", event.Path, " ", event.Status))
	}
	// The request is logged after its answer, perhaps while the daemon stops.
	stopping := slices.Index(got, "info stopping  0")
	if stopping < 2 || stopping > slices.Index(got, "info requests ended  0") {
		t.Fatalf("got %q, want info stopping between serving and requests ended", got)
	}
	got = slices.Delete(got, stopping, stopping+1)
	want := []string{"info home created  0", "info serving  0", "debug request /state 200", "info requests ended  0", "info stopped  0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// stamps are the size, the inode and the times of each file below a directory: whoever
// writes to a file, or in a directory, changes its stamp.
func stamps(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		all[path] = fmt.Sprint(st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		return nil
	})
	must(t, err)
	return all
}

// TestReadingAClosedHomeChangesNothing reads a home that no daemon serves: no file and no
// directory of it changes. Jobs moved by hand are taken in all the same.
func TestReadingAClosedHomeChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("cutie", append(args, "--home", home)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("text\n"), 0o600))
	run("init")
	run("create", "jobs")
	for range 3 {
		run("put", "jobs", "text")
	}
	run("get", "jobs", "--lease", "1h", "--lease-out", "lease")
	run("putResult", "jobs", "j000000000001", "text", "--lease", "@lease")
	before := stamps(t, home)
	for verb, want := range map[string]string{
		"status":                    "jobs\t2\t1\t0\t",
		"status -t json":            `"name":"home"`,
		"ls jobs":                   "j000000000001\tconsumed",
		"show jobs j000000000001":   "status: consumed",
		"peek jobs":                 "text\n",
		"peek jobs j000000000001":   "text\n",
		"result jobs j000000000001": "text",
		"check":                     " 0 problems",
	} {
		if got := run(strings.Fields(verb)...); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", verb, got, want)
		}
		after := stamps(t, home)
		for path, stamp := range before {
			if after[path] != stamp {
				t.Errorf("%s: changed %s", verb, path)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: got %d files, want %d", verb, len(after), len(before))
		}
	}
	must(t, os.Rename(filepath.Join(home, "queues/jobs/pending/j000000000002"), filepath.Join(home, "queues/jobs/consumed/j000000000002")))
	says(t, run("status"), "jobs\t1\t2\t0\t")
}

// session is what one person types, one command after the other; every verb
// that works on queues is in it, with what goes well and what does not. Jobs are culled
// after the packages that need them are made, wherever that happens.
const session = `
cutie createQueue second --name Second --size 10 -t anvl
cutie createQueue second
cutie submitJob jobs a b c d e f
cutie submitJob Second - <a
cutie submitJob jobs a -t json
cutie submitJob jobs a --digest md5:00000000000000000000000000000000
cutie submitJob jobs bad.checkm -T batch-manifest
cutie getBatchState jobs none
cutie getNextJob jobs
cutie getNextJob jobs --lease 1h -o job
cutie getNextJob nosuch
cutie peekAtJob jobs
cutie peekAtJob jobs j000000000001 -o copy; cat copy
cutie holdJob jobs j000000000003 --reason why
cutie holdJob jobs j000000000001
cutie holdJob jobs --older 1d
cutie releaseJob jobs --held
cutie extendLease jobs j000000000002 --lease @job.lease --for 2h
cutie extendLease jobs j000000000002 --lease wrong
cutie putResult jobs j000000000002 a --lease @job.lease
cutie reportOutcome jobs j000000000002 --lease @job.lease --outcome error
cutie reportOutcome jobs j000000000002 --lease @job.lease --outcome error
cutie getResult jobs j000000000002
cutie getResult jobs j000000000002 a
cutie getResult jobs j000000000002 b
cutie deleteJob jobs j000000000004 j000000000001 j000000000005
cutie abortJob jobs j000000000003
cutie requeueJob jobs --outcome error --end
cutie requeueJob jobs --status deleted -n
cutie requeueJob jobs j000000000001
cutie getServiceState -t turtle
cutie status
cutie getQueueState jobs --status deleted -t xml
cutie ls jobs
cutie ls jobs -q --limit 2
cutie ls nosuch
cutie getJobState jobs j000000000001 j000000000002 j000000000099
cutie setQueue jobs --size 100 --age 0 -S pause -t anvl
cutie setQueue jobs --callback nowhere
cutie getNextJob jobs
cutie publish --now >published
cutie cull jobs -n --size 0
cutie cull jobs --size 0
cutie cull
cutie removeQueue jobs
cutie getNextJob second; cutie publish --now >published; cutie cull second --size 0
cutie removeQueue second
cutie status -q
`

// What differs from run to run.
var varies = []*regexp.Regexp{
	regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`),
	regexp.MustCompile(`127\.0\.0\.1:\d+`),
	regexp.MustCompile(`cutie:[A-Za-z0-9.-]+:[0-9a-f]{16}`),
	regexp.MustCompile(`lease [A-Za-z0-9_-]{22}`),
}

func TestTargetsAnswerTheSame(t *testing.T) {
	t.Parallel()
	ways := []string{"url", "socket", "directory"}
	answers := make([][]string, len(ways))
	var wg sync.WaitGroup
	for n, way := range ways {
		dir := t.TempDir()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "bad.checkm"} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666))
		}
		home := filepath.Join(dir, "home")
		env := append(os.Environ(), "CUTIE_HOME="+home, "CUTIE_URL=")
		if way == "directory" {
			sh(t, dir, "cutie init home; cutie createQueue jobs -H home")
		} else {
			d := processes.Serve(t, home)
			if way == "url" {
				env = append(env, "CUTIE_HOME=", "CUTIE_URL="+d.URL)
			}
		}
		wg.Go(func() {
			for line := range strings.Lines(strings.TrimSpace(session)) {
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir, cmd.Env = dir, env
				out, _ := cmd.CombinedOutput()
				text := string(out)
				for _, re := range varies {
					text = re.ReplaceAllString(text, "…")
				}
				answers[n] = append(answers[n], fmt.Sprintf("%s%s[%d]", line, text, cmd.ProcessState.ExitCode()))
			}
		})
	}
	wg.Wait()
	for n, all := range answers {
		for i, got := range all {
			if want := answers[len(ways)-1][i]; got != want {
				t.Errorf("%s: got %s\n\nwant %s", ways[n], got, want)
			}
		}
	}
}

// Whoever culls is told of what stays, with the exit code of success: also of several
// queues.
func TestCullTellsWhatIsKept(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/cull" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "text/x-anvl")
		io.WriteString(w, "name: x\nculledJob: jobs j000000000001 consumed 2026-01-02T03:04:05.000000Z 7\n"+
			"keptJob: jobs 12 spared\nkeptJob: other 1 spared\n")
	}))
	defer srv.Close()
	out, err := exec.Command("cutie", "cull", "--url", srv.URL).CombinedOutput()
	want := `jobs	j000000000001	consumed	7	2026-01-02T03:04:05.000000Z
cutie: cull: 1 job of 7 octets culled
cutie: cull: jobs: 12 jobs kept until the destruction that UWS has promised
cutie: cull: other: 1 job kept until the destruction that UWS has promised
`
	if got := string(out); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	if out, err := exec.Command("cutie", "cull", "-q", "--url", srv.URL).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("-q: got %v %s", err, out)
	}
}

// TestADamagedPayloadIsNoticed flips a bit of stored payloads of 2 MiB, which the daemon hands
// out unread. The answers have the digests of the submission, and clients verify them: get
// and peek fail.
func TestADamagedPayloadIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, payload := filepath.Join(dir, "home"), bytes.Repeat([]byte("payload\n"), 2<<20/8)
	must(t, os.WriteFile(filepath.Join(dir, "text"), payload, 0o600))
	d, err := processes.Begin(dir, home)
	must(t, err)
	run := func(args ...string) (string, error) {
		cmd := exec.Command("cutie", append(args, "-u", d.URL)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 5 {
		if out, err := run("put", "jobs", "text"); err != nil {
			t.Fatalf("put: %v: %s", err, out)
		}
	}
	if err := d.Stop(syscall.SIGTERM); err != nil { // with all files written
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(home, "queues/jobs/payload/*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("got payloads %q, %v", files, err)
	}
	payload[1<<20] ^= 1
	for _, file := range files[:4] {
		must(t, os.WriteFile(file, payload, 0o600))
	}
	if d, err = processes.Begin(dir, home); err != nil {
		t.Fatal(err)
	}
	defer d.Stop(syscall.SIGTERM)
	const want = "digest verification failed"
	for _, args := range [][]string{
		{"peek", "jobs", "-o", "got"},
		{"get", "jobs", "-o", "got"},
		{"get", "jobs", "--lease", "1h", "-o", "got"},
	} {
		out, err := run(args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: got %v, %s, want %q", args, err, out, want)
		}
	}
	resp, err := http.Get(d.URL + "content/jobs/j000000000005?t=application/octet-stream")
	must(t, err)
	resp.Body.Close()
	other, err := http.Get(d.URL + "queues/jobs/payload/j000000000005")
	must(t, err)
	other.Body.Close()
	if got, want := resp.Header.Get("Repr-Digest"), other.Header.Get("Repr-Digest"); got != want || !strings.HasPrefix(got, "sha-256=:") {
		t.Errorf("got Repr-Digest %q, want %q", got, want)
	}
}
