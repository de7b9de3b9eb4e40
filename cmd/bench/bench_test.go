package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bench is a task and the daemon that it measures.
type bench struct {
	target target
	task
}

func (b bench) run(ctx context.Context) (report, error) { return runDaemon(ctx, b.task, b.target) }

var allPhases = []string{submit, consume, mixed}

func TestBenchMovesEveryJob(t *testing.T) {
	cases := []struct {
		name        string
		size, batch int
		clients     int
		daemon      *daemon
	}{
		{name: "single", size: 1000, batch: 1, clients: 8},
		{name: "one client", size: 1000, batch: 1, clients: 1},
		{name: "empty jobs", size: 0, batch: 1, clients: 4},
		{name: "empty jobs in batches", size: 0, batch: 7, clients: 4},
		{name: "large", size: 300_000, batch: 1, clients: 4},
		{name: "chunked", size: 10_000, batch: 1, clients: 4, daemon: &daemon{chunked: true}},
		{name: "batches", size: 1000, batch: 30, clients: 3},
		{name: "large batches", size: 40_000, batch: 30, clients: 3},
		{name: "one batch for all", size: 10, batch: 10000, clients: 2},
		{name: "no persistent connections", size: 1000, batch: 1, clients: 4, daemon: &daemon{closeAll: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := c.daemon
			if d == nil {
				d = new(daemon)
			}
			b := bench{serve(t, d), task{phases: allPhases, clients: c.clients, jobs: 200, size: c.size, batch: c.batch}}
			got, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []result{
				{Phase: submit, Jobs: 200},
				{Phase: consume, Jobs: 200},
				{Phase: mixed, Jobs: 400},
			} {
				r := got.Runs[i]
				if r.Phase != want.Phase || r.Jobs != want.Jobs || r.Errors != 0 || r.Size != c.size || r.Batch != c.batch || r.Clients != c.clients {
					t.Errorf("got %+v, want %s of %d jobs", r, want.Phase, want.Jobs)
				}
				if r.OpsPerSecond <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.P999 < r.P99 || r.Seconds <= 0 {
					t.Errorf("figures do not fit together: %+v", r)
				}
			}
			if d.next != 400 || len(d.pending) != 0 {
				t.Errorf("daemon got %d jobs and has %d, want 400 and none", d.next, len(d.pending))
			}
		})
	}
}

func TestBenchOverASocket(t *testing.T) {
	d := new(daemon)
	b := bench{serveUnix(t, d), task{phases: allPhases, clients: 2, jobs: 20, size: 100, batch: 1}}
	got, err := b.run(t.Context())
	if err != nil || len(got.Runs) != 3 || d.next != 40 || len(d.pending) != 0 {
		t.Errorf("got %+v, %v; daemon got %d jobs and has %d", got, err, d.next, len(d.pending))
	}
}

func TestBenchShowsItsToken(t *testing.T) {
	d := &daemon{wants: "Bearer abc.123"}
	to := serve(t, d)
	url := "http://" + to.address + "/base/"
	for token, failed := range map[string]bool{"abc.123": false, "abc.124": true} {
		asked, err := parseTarget(url, "my jobs", token)
		if err != nil {
			t.Fatal(err)
		}
		b := bench{asked, task{phases: []string{submit, consume}, clients: 1, jobs: 3, size: 100, batch: 1}}
		if _, err := b.run(t.Context()); (err != nil) != failed {
			t.Errorf("token %s: got error %v", token, err)
		}
	}
	for _, token := range []string{"a b", "a\r\nb", "ä"} {
		if _, err := parseTarget(url, "my jobs", token); err == nil {
			t.Errorf("token %q: got no error", token)
		}
	}
}

func TestBenchConsumesWhatOthersSubmitted(t *testing.T) {
	d := &daemon{pending: []job{{"/content/jobs/a", []byte("short")}, {"/content/jobs/b", bytes.Repeat([]byte("long"), 1000)}}}
	b := bench{serve(t, d), task{phases: []string{consume}, clients: 3, jobs: 100, size: 50, batch: 1}}
	got, err := b.run(t.Context())
	if err != nil || got.Runs[0].Jobs != 2 || got.Runs[0].Errors != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBenchReportsWhatTheDaemonDoesWrong(t *testing.T) {
	cases := []struct {
		name   string
		batch  int
		daemon *daemon
		errors int64
		text   string
	}{
		{"job twice", 1, &daemon{alter: func(n int, j *job) {
			if n == 5 || n == 9 {
				j.location = "/content/jobs/same"
			}
		}}, 1, "handed out twice"},
		{"job twice in batches", 10, &daemon{alter: func(n int, j *job) {
			if n == 3 {
				j.location = "/content/jobs/same"
			}
		}}, 9, "handed out twice"},
		{"changed payload", 1, &daemon{alter: func(n int, j *job) {
			if n == 5 {
				j.payload[70] ^= 1
			}
		}}, 1, "j000000000005: payload is not what was sent"},
		{"short payload", 10, &daemon{alter: func(n int, j *job) {
			if n == 5 {
				j.payload = j.payload[:999]
			}
		}}, 10, "999 of 1000 bytes"},
		{"no name", 1, &daemon{alter: func(n int, j *job) {
			if n == 5 {
				j.location = ""
			}
		}}, 1, "without Content-Location"},
		{"lost job", 1, &daemon{hangUp: func(n int) bool { return n == 5 }}, 1, "unexpected EOF"},
		{"busy", 1, &daemon{refuse: func(n int) int {
			if n == 5 || n == 6 {
				return http.StatusInsufficientStorage
			}
			return 0
		}}, 2, "POST /base/content/my%20jobs: 507 Insufficient Storage: not now"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := bench{serve(t, c.daemon), task{phases: []string{submit, consume}, clients: 1, jobs: 100, size: 1000, batch: c.batch}}
			got, err := b.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var errors int64
			var text []string
			for _, r := range got.Runs {
				errors += r.Errors
				for _, f := range r.Failures {
					text = append(text, f.Text)
				}
			}
			if errors != c.errors || !strings.Contains(strings.Join(text, "\n"), c.text) {
				t.Errorf("%d errors %q, want %d like %q", errors, text, c.errors, c.text)
			}
		})
	}
}

func TestBenchMissesSubmittedJobs(t *testing.T) {
	d := new(daemon)
	d.refuse = func(n int) int {
		if n == 50 {
			d.pending = d.pending[3:]
		}
		return 0
	}
	b := bench{serve(t, d), task{phases: []string{submit, consume}, clients: 1, jobs: 50, size: 10, batch: 1}}
	got, err := b.run(t.Context())
	if err != nil || got.Runs[1].Jobs != 47 || got.Runs[1].Errors != 3 || got.Runs[1].Failures[0].Count != 3 {
		t.Errorf("got %+v, %v; want 47 jobs and 3 errors", got, err)
	}
}

func TestBenchStopsAtARefusalForGood(t *testing.T) {
	d := &daemon{early: func(w http.ResponseWriter) bool {
		http.Error(w, "job is larger than 1 MiB", http.StatusRequestEntityTooLarge)
		return true
	}}
	for _, size := range []int{10, 4 << 20} {
		b := bench{serve(t, d), task{phases: []string{submit}, clients: 4, jobs: 1000, size: size, batch: 1}}
		_, err := b.run(t.Context())
		var status *statusError
		if !errors.As(err, &status) {
			t.Errorf("size %d: %v, want a statusError", size, err)
			continue
		}
		if got, want := err.Error(), "POST /base/content/my%20jobs: 413 Request Entity Too Large: job is larger than 1 MiB"; got != want {
			t.Errorf("size %d: got %q, want %q", size, got, want)
		}
	}
}

func TestBenchNamesAnUnknownQueueAndARefusedConnection(t *testing.T) {
	s := httptest.NewServer(new(daemon))
	defer s.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()

	b := bench{task: task{phases: []string{consume}, clients: 2, jobs: 10, batch: 1}}
	b.target = targetOf(t, s.URL+"/elsewhere")
	var status *statusError
	_, err = b.run(t.Context())
	if !errors.As(err, &status) || status.code != http.StatusNotFound || status.detail != "queue not found" {
		t.Errorf("unknown queue: %v", err)
	}
	b.target = targetOf(t, "http://"+nobody)
	_, err = b.run(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), nobody) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestBenchEndsAfterItsDuration(t *testing.T) {
	d := new(daemon)
	b := bench{serve(t, d), task{phases: []string{submit, mixed}, clients: 2, duration: 30 * time.Millisecond, size: 10, batch: 1}}
	got, err := b.run(t.Context())
	if err != nil || got.Runs[0].Jobs == 0 || got.Runs[1].Jobs == 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if s := got.Runs[0].Seconds; s < 0.03 || s > 5 {
		t.Errorf("took %v s, want 0.03", s)
	}
}

func TestBenchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &daemon{refuse: func(n int) int {
		if n == 10 {
			cancel()
		}
		return 0
	}}
	b := bench{serve(t, d), task{phases: []string{submit}, clients: 2, jobs: 1 << 40, size: 10, batch: 1}}
	if _, err := b.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestBenchMeasuresAProcess(t *testing.T) {
	b := bench{serve(t, new(daemon)), task{phases: []string{submit}, clients: 1, jobs: 10, size: 10, batch: 1, pid: os.Getpid()}}
	got, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u := got.Runs[0].Usage; u == nil || u.RSS < 1<<20 || u.CPUSeconds < 0 {
		t.Errorf("got %+v", u)
	}
}

func TestBenchRefusesOptionsThatMakeNoSense(t *testing.T) {
	good := task{phases: allPhases, clients: 1, jobs: 1, batch: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(b *task){
		"no clients":        func(b *task) { b.clients = 0 },
		"too many clients":  func(b *task) { b.clients = maxClients + 1 },
		"no batch":          func(b *task) { b.batch = 0 },
		"too large a batch": func(b *task) { b.batch = maxBatch + 1 },
		"negative size":     func(b *task) { b.size = -1 },
		"negative jobs":     func(b *task) { b.jobs = -1 },
		"negative duration": func(b *task) { b.duration = -1 },
		"no end":            func(b *task) { b.jobs = 0 },
	} {
		b := good
		spoil(&b)
		if b.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, phase := range []string{"", "submit consume", "Submit"} {
		b := good
		b.phases = append(b.phases, phase)
		if b.check() == nil {
			t.Errorf("phase %q: accepted", phase)
		}
	}
	for _, url := range []string{"", "https://a", "http://", "127.0.0.1:8080", "unix:", "http://a?b", "http://u:p@a", "http://a:x"} {
		if _, err := parseTarget(url, "jobs", ""); err == nil {
			t.Errorf("url %q: accepted", url)
		}
	}
	if _, err := parseTarget("http://a", "", ""); err == nil {
		t.Error("empty queue name: accepted")
	}
}

func TestReportIsPrintedAsTableAndJSON(t *testing.T) {
	r := report{Runs: []result{{
		Phase: "submit", Clients: 64, Size: 1024, Batch: 1, Jobs: 20000, Seconds: 2, OpsPerSecond: 10000,
		P50: 1.5, P99: 9.25, P999: 12, Errors: 0,
	}}}
	var table, out bytes.Buffer
	if err := r.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	const want = "   phase  clients  octets  batch  moved  seconds  moved/s  p50 ms  p99 ms  p99.9 ms  errors\n" +
		"  submit       64    1024      1  20000     2.00    10000   1.500   9.250    12.000       0\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if err := r.writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct{ Runs []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"phase": "submit", "clients": 64., "ops_per_second": 10000., "p50_ms": 1.5,
		"p99_ms": 9.25, "p999_ms": 12., "errors": 0., "size": 1024., "batch": 1.} {
		if got.Runs[0][name] != want {
			t.Errorf("%s: got %v, want %v", name, got.Runs[0][name], want)
		}
	}
	out.Reset()
	if err := (report{}).writeJSON(&out); err != nil || !strings.Contains(out.String(), `"runs": []`) {
		t.Errorf("an empty report is %s, %v", out.String(), err)
	}
}

func TestStatusErrorSaysWhatTheExceptionStateSays(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"status: BAD\nhTTPResponse: 400\ndescription: request is bad\ndetail: queue not found: nope\n", "queue not found: nope"},
		{"status: BAD\ndescription: request is bad\n", "request is bad"},
		{"<!DOCTYPE html>\n<p>no queue</p>", ""},
		{"\n  plain text \nand more", "plain text"},
		{"", ""},
	} {
		d := &daemon{early: func(w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, c.body)
			return true
		}}
		b := bench{serve(t, d), task{phases: []string{submit}, clients: 1, jobs: 1, batch: 1}}
		_, err := b.run(t.Context())
		var status *statusError
		if !errors.As(err, &status) || status.detail != c.want {
			t.Errorf("%q: got %v, want detail %q", c.body, err, c.want)
		}
	}
}

func TestQuantilesOfTimes(t *testing.T) {
	var times []time.Duration
	if got := quantile(times, 0.5); got != 0 {
		t.Errorf("of nothing: got %v, want 0", got)
	}
	for i := range 1000 {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	for f, want := range map[float64]float64{0: 0, 0.5: 500, 0.99: 990, 0.999: 999, 1: 999} {
		if got := quantile(times, f); got != want {
			t.Errorf("%v: got %v, want %v", f, got, want)
		}
	}
}

// Options that mean nothing are told from failures.
func TestExitCodeOfUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"nothing"}, {"cutie", "word"}, {"cutie", "-t", "xml"}, {"cutie", "--phase", "x"},
		{"cutie", "-u", "ftp://a"}, {"peers"}, {"cutie", "--unknown"}} {
		var wrong *usageError
		if err := command(t.Context(), args, io.Discard, io.Discard); !errors.As(err, &wrong) {
			t.Errorf("%q: got %v, want a usageError", args, err)
		}
	}
}
