package main_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
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

	"cutie/queuefs/job"
	"cutie/queuefs/rest/client"
	"cutie/testdata/processes"
)

// Each example works on good and bad jobs, and survives the death of the daemon.
func TestExamplesOfWorkersWork(t *testing.T) {
	for file, command := range map[string][]string{
		"worker.sh": {"sh"}, "worker.py": {"python3"}, "worker.pl": {"perl"}, "worker.js": {"node"}, "worker.go": {"go", "build", "-o", "worker"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(command[0])
			if err == nil && file == "worker.sh" {
				_, err = exec.LookPath("curl")
			}
			if err != nil {
				t.Skipf("skipped: %v", err)
			}
			dir := t.TempDir()
			text := run(t, "help", file)
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			args := append(command[1:len(command):len(command)], file)
			if file == "worker.go" {
				build := exec.Command(program, args...)
				build.Dir = dir
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				program, args = "./worker", nil
			}
			tryWorker(t, dir, program, args)
		})
	}
}

// Each of the short workers in the topic does, too, with the URL of its text replaced.
func TestShortWorkersWork(t *testing.T) {
	text := run(t, "help", "workers")
	_, text, _ = strings.Cut(text, "\nIn sh\n")
	parts := strings.Split("\nIn sh\n"+text, "\nIn ")[1:]
	programs := map[string][]string{"sh": {"sh"}, "Python": {"python3"}, "Perl": {"perl"}, "JavaScript": {"node"}, "Go": {"go", "build", "-o"}}
	if len(parts) != len(programs) {
		t.Fatalf("got %d languages in %s", len(parts), text)
	}
	for _, part := range parts {
		language, code, _ := strings.Cut(part, "\n\n")
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			var lines []string
			for line := range strings.SplitSeq(strings.Trim(code, "\n"), "\n") {
				lines = append(lines, strings.TrimPrefix(line, "    "))
			}
			if language != "Go" && len(lines) > 10 { // Go has imports
				t.Errorf("%d lines", len(lines))
			}
			command := programs[language]
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("skipped: %v", err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "worker")
			tryStarted(t, dir, false, func(url string) *exec.Cmd {
				code := strings.Replace(strings.Join(lines, "\n")+"\n", "http://127.0.0.1:8080/", url, 1)
				if language == "Go" {
					must(t, os.WriteFile(file+".go", []byte(code), 0o600))
					if out, err := exec.Command(command[0], append(command[1:len(command):len(command)], file, file+".go")...).CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
					return exec.Command(file)
				}
				must(t, os.WriteFile(file, []byte(code), 0o600))
				return exec.Command(command[0], file)
			})
		})
	}
}

func tryWorker(t *testing.T, dir, program string, args []string) {
	tryStarted(t, dir, true, func(url string) *exec.Cmd { return exec.Command(program, append(args, url, "jobs")...) })
}

// tryStarted tries the worker that start makes for the URL of a daemon.
func tryStarted(t *testing.T, dir string, results bool, start func(url string) *exec.Cmd) {
	home, listen := filepath.Join(dir, "home"), ownAddress(rand.New(rand.NewPCG(rand.Uint64(), 0)))
	d := processes.Serve(t, home, "--listen", listen, "--dump-period", "0")
	worker := start(d.URL)
	worker.Dir = dir
	var said processes.Output
	worker.Stderr = &said
	must(t, processes.Start(worker))
	t.Cleanup(func() { worker.Process.Kill(); worker.Wait() })
	c := client.New(d.URL, nil)
	put := func(payload string) string {
		t.Helper()
		ids, err := c.Submit(t.Context(), "jobs", client.Upload{Size: int64(len(payload)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(payload)), nil }})
		must(t, err)
		return ids[0]
	}
	ended := func(id string) (j job.Job) {
		t.Helper()
		eventually(t, "the job "+id+" has an outcome", func() (over bool) {
			var err error
			if j, err = c.Job(t.Context(), "jobs", id); err != nil {
				t.Fatal(err)
			}
			return j.Outcome != 0
		})
		return j
	}
	good := func(text string) {
		t.Helper()
		id := put(zipped(text))
		if j := ended(id); j.Outcome != job.Completed {
			t.Fatalf("got %v %q: %s", j.Outcome, j.Message, said.String())
		}
		if !results {
			return
		}
		r, err := c.Result(t.Context(), "jobs", id, "text")
		must(t, err)
		defer r.Body.Close()
		if got, err := io.ReadAll(r.Body); string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	good("one")
	if j := ended(put("no gzip")); j.Outcome != job.Failed || j.Message == "" {
		t.Errorf("got %v %q", j.Outcome, j.Message)
	}
	d.Kill()
	eventually(t, "the worker says that the daemon is away", func() bool { return said.String() != "" })
	processes.Serve(t, home, "--listen", listen)
	good(strings.Repeat("two ", 10_000))
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// A worker that is killed takes its command along, and the children of the command:
// the job goes to another worker.
func TestAKilledWorkerLeavesNoCommandBehind(t *testing.T) {
	t.Parallel()
	d := serve(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o666))
	run(t, "put", "jobs", filepath.Join(dir, "f"), "-u", d.URL, "-q")
	pids := filepath.Join(dir, "pids")
	worker := exec.Command("cutie", "work", "jobs", "-u", d.URL, "--", "sh", "-c", `sleep 1000 & a=$!; sh -c 'trap "" TERM HUP; sleep 1001' & echo $$ $a $! >"$0.new"; mv "$0.new" "$0"; wait`, pids)
	worker.Dir = dir
	must(t, processes.Start(worker))
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	var running []int
	eventually(t, "the command", func() bool {
		text, err := os.ReadFile(pids)
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			must(t, err)
			running = append(running, pid)
		}
		return err == nil
	})
	worker.Process.Kill()
	for _, pid := range running {
		eventually(t, "the end of "+strconv.Itoa(pid), func() bool { return processEnded(pid) })
	}
}

// A worker whose result is not taken, as by a daemon with a full disk, gives the job back when
// it is ended, and ends.
func TestAWorkerEndsWhoseResultIsNotTaken(t *testing.T) {
	t.Parallel()
	d := serve(t)
	to, err := url.Parse(d.URL)
	must(t, err)
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
	d.Send(t, "POST", "content/jobs", "x")
	said := &processes.Output{}
	worker := exec.Command("cutie", "work", "jobs", "-u", full.URL+"/", "-v", "--", "echo", "done")
	worker.Dir, worker.Stdout, worker.Stderr = t.TempDir(), said, said
	must(t, processes.Start(worker))
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	eventually(t, "a refused result", func() bool { return strings.Contains(said.String(), "sends it again") })
	worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil || !strings.Contains(said.String(), job+": given back, for no result was taken") {
		t.Errorf("got %v, output %q", err, said.String())
	}
	says(t, d.Send(t, "GET", "state/jobs/"+job+"?t=json", ""), `"pending"`, "before its result was taken")
}
