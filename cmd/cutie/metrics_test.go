package main_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"cutie/testdata/processes"
)

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z_:]+) (\S.*)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z_:]+) (counter|gauge|histogram|summary)$`)
	sampleLine = regexp.MustCompile(`^([a-z_:]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)$`)
)

// scrape reads what a daemon exposes as strictly as the format is defined, and
// returns the samples by their names with labels.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	resp, body := send(t, http.DefaultClient, "GET", url+"metrics", "")
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4; charset=utf-8") {
		t.Fatalf("got %s, %s", resp.Status, got)
	}
	samples := map[string]float64{}
	seen := map[string]bool{}
	family, kind := "", ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if seen[m[1]] {
				t.Errorf("%s comes twice", m[1])
			}
			family, kind, seen[m[1]] = m[1], "", true
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if m[1] != family || kind != "" || (m[2] == "counter") != strings.HasSuffix(m[1], "_total") {
				t.Errorf("%q behind the family %s", line, family)
			}
			kind = m[2]
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || kind == "" || m[1] != family && !(strings.HasPrefix(m[1], family+"_") && (kind == "histogram" || kind == "summary")) {
			t.Fatalf("%q in the family %s", line, family)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if _, twice := samples[m[1]+m[2]]; err != nil || twice {
			t.Errorf("%q: %v", line, err)
		}
		samples[m[1]+m[2]] = value
	}
	return samples
}

// A held receiver of callbacks tells that it was called, and answers when it is
// let go.
func newHeldReceiver(t *testing.T) (url string, called <-chan struct{}) {
	calls, let := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case calls <- struct{}{}:
		default:
		}
		<-let
	}))
	t.Cleanup(func() {
		close(let)
		s.Close()
	})
	return s.URL, calls
}

func TestMetricsTellWhatHappened(t *testing.T) {
	t.Parallel()
	receiver, called := newHeldReceiver(t)
	d := serve(t, "--allow-fetch", loopback)
	for range 3 {
		send(t, http.DefaultClient, "POST", d.URL+"content/jobs?filename=empty", "")
	}
	send(t, http.DefaultClient, "POST", d.URL+"consume/jobs", "")
	send(t, http.DefaultClient, "POST", d.URL+"consume/jobs?lease=60", "")
	d.Send(t, "POST", "state/jobs?S=pause&callback="+url.QueryEscape(receiver), "")
	send(t, http.DefaultClient, "POST", d.URL+"hold/jobs/j000000000003", "")
	send(t, http.DefaultClient, "PROPFIND", d.URL+"state", "")
	<-called
	got := scrape(t, d.URL)
	if n := got[`cutie_callback_waiting{queue="jobs"}`]; n < 1 {
		t.Errorf("got %v changes that the callback waits for", n)
	}
	for name, want := range map[string]float64{
		`cutie_jobs{queue="jobs",status="pending"}`:                                1,
		`cutie_jobs{queue="jobs",status="consumed"}`:                               2,
		`cutie_jobs{queue="jobs",status="deleted"}`:                                0,
		`cutie_jobs_held{queue="jobs"}`:                                            1,
		`cutie_jobs_leased{queue="jobs"}`:                                          1,
		`cutie_jobs_failed{queue="jobs"}`:                                          0,
		`cutie_queue_paused{queue="jobs"}`:                                         1,
		`cutie_callback_stopped{queue="jobs"}`:                                     0,
		`cutie_callback_failures{queue="jobs"}`:                                    0,
		`cutie_callback_delivered_total{queue="jobs"}`:                             0,
		`cutie_storage_failed`:                                                     0,
		`cutie_storage_full`:                                                       0,
		`cutie_publisher_failed`:                                                   0,
		`cutie_http_requests_total{method="POST",status="201"}`:                    3,
		`cutie_http_requests_total{method="POST",status="200"}`:                    4,
		`cutie_http_requests_total{method="other",status="405"}`:                   1,
		`cutie_http_request_seconds_count{method="POST",route="/content/{queue}"}`: 3,
		`cutie_job_queue_seconds_count`:                                            2,
		`cutie_job_work_seconds_count`:                                             0,
		`cutie_published_failing{queue="jobs",set="replica"}`:                      0,
		`cutie_published_lists_waiting{queue="jobs",set="pending"}`:                0,
		`cutie_published_left_out{queue="jobs",set="pending"}`:                     0,
		`cutie_published_lost{queue="jobs",set="replica"}`:                         0,
		`cutie_published_given_up_total`:                                           0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: got %v, %v, want %v", name, v, ok, want)
		}
	}
	// Every change of a job is an event, and settings may be one.
	if n := got[`cutie_events_total{queue="jobs"}`]; n < 6 {
		t.Errorf("got %v events", n)
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds",
		"go_memstats_heap_alloc_bytes", "cutie_index_bytes", "cutie_journal_syncs_total", "cutie_journal_sync_seconds_count", `cutie_journal_sync_seconds_bucket{le="3"}`, "cutie_journal_sync_seconds_total", `cutie_last_event_timestamp_seconds{queue="jobs"}`} {
		if got[name] <= 0 {
			t.Errorf("%s: got %v", name, got[name])
		}
	}
	// The held job is not the oldest pending one.
	if v, ok := got[`cutie_oldest_pending_timestamp_seconds{queue="jobs"}`]; ok {
		t.Errorf("got %v", v)
	}
	const gets = `cutie_http_requests_total{method="GET",status="200"}`
	if again := scrape(t, d.URL); again[gets] != got[gets]+1 {
		t.Errorf("%v requests, then %v", got[gets], again[gets])
	}
	if resp, _ := send(t, http.DefaultClient, "POST", d.URL+"metrics", ""); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("got %s", resp.Status)
	}
	if resp, body := send(t, http.DefaultClient, "GET", d.URL+"favicon.ico", ""); resp.StatusCode != 204 || body != "" {
		t.Errorf("got %s", resp.Status)
	}
}

func TestMetricsWantTheRightToReadAll(t *testing.T) {
	t.Parallel()
	for anonymous, want := range map[string]int{"read": 200, "read:jobs": 403, "submit": 403} {
		d := serve(t, "--anonymous", anonymous)
		if resp, body := send(t, http.DefaultClient, "GET", d.URL+"metrics", ""); resp.StatusCode != want {
			t.Errorf("%s: got %s\n%s", anonymous, resp.Status, body)
		}
	}
}

// The alert rules and the dashboard ask for metrics that the daemon has.
func TestRulesKnowTheMetrics(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\bcutie_[a-z_]+`)
	read := func(file string) string {
		text, err := os.ReadFile(file)
		must(t, err)
		return string(text)
	}
	has := map[string]bool{}
	sources, err := filepath.Glob("daemon/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, source := range sources {
		for _, n := range name.FindAllString(read(source), -1) {
			has[n], has[n+"_bucket"] = true, true
		}
	}
	for _, file := range []string{"packaging/alerts.yml", "packaging/grafana.json"} {
		asked := name.FindAllString(read(file), -1)
		if len(asked) < 10 {
			t.Errorf("%s asks for %q alone", file, asked)
		}
		for _, n := range asked {
			if !has[n] {
				t.Errorf("%s asks for %s", file, n)
			}
		}
	}
	if !json.Valid([]byte(read("packaging/grafana.json"))) {
		t.Error("the dashboard is no JSON")
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed, so the syntax of the rules is not checked")
	}
	if out, err := exec.Command(promtool, "check", "rules", "packaging/alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

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
	d := processes.Serve(t, home, "--traces", sink.URL)
	sh(t, dir, `echo hello >file
TRACEPARENT=00-`+trace+`-b7ad6b7169203331-01 cutie put jobs file --home home
cutie work jobs --drain --home home -- sh -c 'echo $TRACEPARENT >>`+dir+`/seen'
`)
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if line := string(seen); err != nil || !strings.HasPrefix(line, "00-"+trace+"-") || strings.Contains(line, "b7ad6b7169203331") {
		t.Errorf("got %q, %v, want another span of the trace", seen, err)
	}
	d.End(t)
	if octets.Load() == 0 {
		t.Error("no spans came")
	}
	for _, wrong := range [][]string{{"--traces", "127.0.0.1:4318"}, {"--trace-ratio", "2"}, {"--trace-ratio", "NaN"}} {
		if out, err := cutie(t, append([]string{"serve", "--home", filepath.Join(dir, "other")}, wrong...)...); err == nil || !strings.Contains(err.Error(), wrong[0]) {
			t.Errorf("%v: got %q, %v", wrong, out, err)
		}
	}
}

// The doctor sees where the references of a running daemon lead, and reads figures that
// the daemon has.
func TestDoctorOfADaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := processes.Serve(t, filepath.Join(dir, "home"))
	out, err := cutie(t, "doctor", "--home", filepath.Join(dir, "home"))
	if err != nil || !strings.Contains(out, "served by process") || !strings.Contains(out, "lead to "+d.URL) || !strings.Contains(out, "ready\n") {
		t.Errorf("got %v\n%s", err, out)
	}
	// Wrong settings are a fault beside others.
	bad := filepath.Join(dir, "bad.toml")
	must(t, os.WriteFile(bad, []byte("max-conns = 'many'\n"), 0o600))
	if out, err = cutie(t, "doctor", "--home", filepath.Join(dir, "home"), "--config", bad); err == nil ||
		!strings.Contains(out, "fault: settings: "+bad+":1: --max-conns") || !strings.Contains(out, "served by process") {
		t.Errorf("got %v\n%s", err, out)
	}
	_, text := send(t, http.DefaultClient, "GET", d.URL+"metrics", "")
	source, err := os.ReadFile("doctordaemon.go")
	must(t, err)
	for _, figure := range regexp.MustCompile(`"(cutie_\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if name := figure[1]; !strings.Contains(text, "# TYPE "+name+" ") && !strings.Contains(name, "callback") && !strings.Contains(name, "mirror") && !strings.Contains(name, "image") && !strings.Contains(name, "_store_") {
			t.Errorf("the daemon has no %s", name)
		}
	}

	// A job whose payload is lost is put on hold when it is asked for; others may be, too.
	for range 2 {
		send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "hello")
	}
	send(t, http.DefaultClient, "POST", d.URL+"hold/jobs/j000000000002", "")
	payload := filepath.Join(dir, "home", "queues", "jobs", "payload", "j000000000001")
	eventually(t, "the payload has its file", func() bool { return os.Remove(payload) == nil })
	send(t, http.DefaultClient, "POST", d.URL+"consume/jobs", "")
	if out, err = cutie(t, "doctor", "--home", filepath.Join(dir, "home")); err == nil ||
		!strings.Contains(out, "jobs: 1 jobs are on hold without a good payload, first j000000000001: payload of j000000000001: no such file") ||
		!strings.Contains(out, "cutie release jobs JOB") {
		t.Errorf("got %v\n%s", err, out)
	}

	// Another service answers at the base URI, or nobody.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln.Close()
	for base, want := range map[string]string{d.URL: "another service", "http://" + ln.Addr().String() + "/": "refused"} {
		home := filepath.Join(t.TempDir(), "home")
		processes.Serve(t, home, "--base-uri", base)
		var stdout strings.Builder
		cmd := exec.Command("cutie", "doctor", "--home", home)
		cmd.Stdout = &stdout
		if err := cmd.Run(); err == nil || !strings.Contains(stdout.String(), want) || !strings.Contains(stdout.String(), "cure: --base-uri") {
			t.Errorf("got %v and, without %q,\n%s", err, want, stdout.String())
		}
	}
}
