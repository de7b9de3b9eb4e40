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
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
	"cutie/testdata/tmpfs"
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
		d.failed(r, fmt.Errorf("jobs: %w", ledger.ErrNoSpace))
	}
	d.failed(r, errors.New("another"))
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("got %d lines:\n%s", n, &log)
	}
	d.full.Store(time.Now().Add(-fullEvery).UnixNano())
	d.failed(r, ledger.ErrNoSpace)
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("later: got %d lines", n)
	}
}

func TestMetricsTellHowManyJobsHaveNoFilesYet(t *testing.T) {
	ctx := context.Background()
	svc := openHome(t, queuefs.Options{Segment: 1 << 20})
	q, err := svc.CreateQueue(ctx, home.QueueInfo{ID: "jobs", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := q.Begin()
	defer s.Discard()
	for range 3 {
		if _, err := s.Add(job.Meta{}); err != nil {
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

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}

// Many queues have their figures together, in as many samples as one.
func TestFiguresOfManyQueuesAreOne(t *testing.T) {
	for _, tt := range []struct {
		queues int
		want   string
	}{
		{2, `jobs{queue=q0,status=a}=0 last{queue=q0}=0 first{queue=q0}=0 jobs{queue=q1,status=a}=1 last{queue=q1}=1 first{queue=q1}=1`},
		{maxFigures + 1, fmt.Sprintf("jobs{queue=,status=a}=%d last{queue=}=%d first{queue=}=0", maxFigures*(maxFigures+1)/2, maxFigures)},
	} {
		to := make(chan prometheus.Metric, 10*maxFigures)
		of := samples(to).ofQueues(tt.queues)
		jobs, last, first := of.counter("jobs", "", "status"), of.gauge("last", "", greatest), of.gauge("first", "", least)
		for n := range tt.queues {
			queue := fmt.Sprint("q", n)
			jobs.add(float64(n), queue, "a")
			last.add(float64(n), queue)
			first.add(float64(n), queue)
		}
		of.end()
		close(to)
		var got []string
		for m := range to {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				t.Fatal(err)
			}
			var labels []string
			for _, l := range d.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			_, name, _ := strings.Cut(m.Desc().String(), `fqName: "`)
			name, _, _ = strings.Cut(name, `"`)
			got = append(got, fmt.Sprintf("%s{%s}=%v", name, strings.Join(labels, ","), d.GetCounter().GetValue()+d.GetGauge().GetValue()))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%d queues: got %s, want %s", tt.queues, s, tt.want)
		}
	}
}

// openAmong opens a home in a store, as a standby if it has an owner.
func openAmong(t *testing.T, m *objectstest.Memory, name string) *queuefs.Service {
	t.Helper()
	svc := openHome(t, queuefs.Options{Stored: &stored.Options{Objects: m, Name: name, URL: "http://" + name + "/", Standby: true, Patience: 10 * time.Millisecond}})
	return svc
}

// A store goes away after the claim of a takeover. Signs of life of the daemon that made it
// keep the others from taking over, so it has to go on itself.
func TestATakeoverCutOffAfterItsClaimGoesOn(t *testing.T) {
	var away atomic.Bool
	m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
		if away.Load() && strings.HasPrefix(r.Name, "snapshot/") {
			return objectstest.Before
		}
		return objectstest.None
	}}
	openAmong(t, m, "a")
	b := openAmong(t, m, "b")
	n := newNode(b, NodeOptions{URL: "http://b/", TakeoverAfter: time.Second}, zerolog.Nop(), func() time.Duration { return 0 }, make(chan error, 1))
	claim, _ := b.Standing()
	step := func() {
		_ = n.follow(t.Context()) // the store may be away
		if err := n.pulse.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	away.Store(true)
	for end := time.Now().Add(20 * time.Second); ; step() {
		if now, _ := b.Standing(); now.Batch > claim.Batch {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not try to take over")
		}
	}
	if !n.standby() {
		t.Fatal("it took over without the store")
	}
	away.Store(false)
	for end := time.Now().Add(5 * time.Second); n.standby(); step() {
		if time.Now().After(end) {
			t.Fatal("the home stays without an owner")
		}
	}
	if _, err := b.CreateQueue(t.Context(), home.QueueInfo{Identifier: "q", Name: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Error(err)
	}
}
