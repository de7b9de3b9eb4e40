package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
)

func TestTheLogSaysWhatIsOddAboutTheClock(t *testing.T) {
	var log bytes.Buffer
	at := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	c := &clock{log: zerolog.New(&log), begun: at, latest: at.Add(time.Hour)}
	var passed time.Duration
	for _, tt := range []struct {
		clock, passed time.Duration
		want          string
	}{
		{0, 0, "the clock is behind"}, // an event is dated an hour later
		{30 * time.Minute, 30 * time.Minute, ""},
		{29 * time.Minute, 29 * time.Minute, ""},
		{2 * time.Minute, 2 * time.Minute, "the clock has caught up"},
		{time.Second, time.Second, ""},
		{-30 * time.Second, time.Second, ""},
		{-10 * time.Minute, time.Second, "the clock is behind"},
		{time.Second, time.Second, ""},
		{time.Hour, time.Hour, "the clock has caught up"},
		{time.Hour, time.Second, "the clock was set ahead"},
		{time.Second, time.Second, ""},
	} {
		log.Reset()
		at, passed = at.Add(tt.clock), passed+tt.passed
		c.look(at, passed)
		if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("after %v: got %q, want %q", tt.clock, got, tt.want)
		}
	}
}

// A disk that is full and not in turn is told once, and its end once.
func TestAFullDiskIsLoggedAtItsBeginningAndItsEnd(t *testing.T) {
	var log bytes.Buffer
	f := fullness{log: zerolog.New(&log)}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, full := range []bool{false, true, true, false, true, false, false, false, false, true} {
		f.look(full, now)
		now = now.Add(settled / 2)
	}
	const begins = `{"level":"error","cure":"make space, such as with cutie cull: cutie help operating","message":"the disk is full: submissions and results are refused"}` + "\n"
	if got, want := log.String(), begins+`{"level":"info","ms":15000,"message":"the disk has free space again"}`+"\n"+begins; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Refusals for want of room are not what fills the disk.
func TestAFullDiskIsLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	d := &daemon{Options: Options{Log: zerolog.New(&log)}}
	r := httptest.NewRequest("POST", "/content/jobs", nil)
	for range 100 {
		d.failed(r, fmt.Errorf("jobs: %w", queuefs.ErrNoSpace))
	}
	d.failed(r, errors.New("another"))
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("got %d lines:\n%s", n, &log)
	}
	d.full.Store(time.Now().Add(-fullEvery).UnixNano())
	d.failed(r, queuefs.ErrNoSpace)
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("later: got %d lines", n)
	}
}

func TestMetricsTellHowManyJobsHaveNoFilesYet(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := q.Begin()
	defer s.Discard()
	for range 3 {
		if _, err := s.Add(queuefs.Meta{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	told := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		if err := newMeter(storageMetrics(svc)).serve(w, httptest.NewRequest("GET", "/metrics", nil)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.Body.String(), "\ncutie_jobs_unfiled "+want+"\n") {
			t.Errorf("want %s, got %s", want, w.Body)
		}
	}
	told("3")
	if err := svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	told("0")
}

// While a home is opened requests are answered with 503, and the daemon goes on with the
// same listener after it, as often as need be.
func TestAnOpeningAnswersInPlaceOfTheDaemon(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	url := "http://" + ln.Addr().String()
	get := func(path string) (status int, after, text string) {
		t.Helper()
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
	}
	o := &Opening{Node: &NodeOptions{}}
	for range 2 {
		o.Answer(ln)
		if status, after, _ := get("/state"); status != http.StatusServiceUnavailable || after == "" {
			t.Errorf("while it opens: %d, Retry-After %q", status, after)
		}
		if status, _, text := get("/livez"); status != http.StatusOK || text != "ok\n" {
			t.Errorf("its life: %d %q", status, text)
		}
		if err := o.Stop(); err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "daemon") })}
		done := make(chan error, 1)
		go func() { done <- server.Serve(door{ln}) }()
		if status, _, text := get("/state"); status != http.StatusOK || text != "daemon" {
			t.Errorf("then: %d %q", status, text)
		}
		server.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
		if err := (door{ln}).open(); err != nil {
			t.Fatal(err)
		}
	}
	o.Answer(ln) // the home is open at once
	if err := o.Stop(); err != nil {
		t.Error(err)
	}
	var none *Opening
	none.Answer(ln)
	none.End()
	if err := none.Stop(); err != nil {
		t.Error(err)
	}
}
