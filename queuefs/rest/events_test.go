package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/events"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
)

// A stream is a client that follows events.
type stream struct {
	t    testing.TB
	resp *http.Response
	in   *bufio.Reader
	id   string // last one, as a browser keeps it
}

// follow opens a stream and reads its opening.
func (s *site) follow(path string, header ...string) *stream {
	s.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(s.request("GET", path, nil, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("GET %s: %s\n%s", path, resp.Status, text)
	}
	f := &stream{t: s.t, resp: resp, in: bufio.NewReader(resp.Body)}
	if got := f.line(); got != "retry: 3000" {
		s.t.Fatalf("opening: got %q", got)
	}
	return f
}

func (f *stream) line() string {
	f.t.Helper()
	text, err := f.in.ReadString('\n')
	if err != nil {
		f.t.Fatalf("stream: %q, %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// block reads up to an empty line, comments left out.
func (f *stream) block() (event, data string) {
	f.t.Helper()
	for {
		line := f.line()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			return event, data
		case name == "id":
			f.id = value
		case name == "event":
			event = value
		case name == "data":
			data = value
		case !strings.HasPrefix(line, ":"):
			f.t.Fatalf("stream: line %q", line)
		}
	}
}

// next reads the next event as "queue seq kind job".
func (f *stream) next() string {
	f.t.Helper()
	for {
		event, data := f.block()
		if event == "" {
			continue
		}
		if event == "reset" {
			f.t.Fatalf("reset: %s", data)
		}
		var d struct {
			Queue, Kind, Job string
			Seq              int
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil || d.Kind != event {
			f.t.Fatalf("event %q: %s: %v", event, data, err)
		}
		return fmt.Sprint(d.Queue, " ", d.Seq, " ", d.Kind, " ", d.Job)
	}
}

func (f *stream) want(events ...string) {
	f.t.Helper()
	for _, want := range events {
		if got := f.next(); got != want {
			f.t.Fatalf("got event %q, want %q", got, want)
		}
	}
}

// wantReset reads an event reset and returns its data.
func (f *stream) wantReset(after, seq job.Seq, reason string) {
	f.t.Helper()
	event, data := f.block()
	for event == "" {
		event, data = f.block()
	}
	var d struct {
		After, Seq             job.Seq
		Reason, State, Changes string
	}
	if err := json.Unmarshal([]byte(data), &d); err != nil || event != "reset" {
		f.t.Fatalf("got event %q %s, want reset", event, data)
	}
	if d.After != after || d.Seq != seq || !strings.Contains(d.Reason, reason) || d.State == "" || d.Changes == "" {
		f.t.Errorf("reset: got %s, want after %d, seq %d, %s", data, after, seq, reason)
	}
}

const j1, j2, j3 = "j000000000001", "j000000000002", "j000000000003"

func TestEventsOfAQueueSayWhatHappened(t *testing.T) {
	s := newSite(t, rest.Options{})
	f := s.follow("/events/jobs")
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no",
		"Cache-Control": "no-store, no-transform", "X-Content-Type-Options": "nosniff"} {
		if got := f.resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if event, _ := f.block(); event != "" || f.id != "0" {
		t.Fatalf("opening: event %q, id %q", event, f.id)
	}
	j := s.submit("hello", job.Meta{MediaType: "text/plain; x=\"<\u00e9\n>\""})
	event, data := f.block()
	want := `{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/event/"},"@type":"event","queue":"jobs","seq":1,"time":"` + job.FormatTime(j.Submitted) + `","kind":"submit","job":"` + j1 +
		`","to":"pending","state":"` + s.url + `/state/jobs/` + j1 + `","size":5,"type":"text/plain; x=\"\u003cé` + "\ufffd" + `\u003e\""}`
	if event != "submit" || data != want || f.id != "1" {
		t.Errorf("got event %q, id %q\n%s\nwant\n%s", event, f.id, data, want)
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	if event, data = f.block(); event != "consume" || !strings.Contains(data, `"from":"pending","to":"consumed"`) || f.id != "2" {
		t.Errorf("got event %q, id %q\n%s", event, f.id, data)
	}
}

// A change of the properties is an event of the queue, and of no job.
func TestChangedPropertiesAreTold(t *testing.T) {
	s := newSite(t, rest.Options{})
	f := s.follow("/events/jobs?kind=update")
	f.block()
	s.do("PUT", "/state/jobs?S=pause", "").want(t, 200)
	_, facts := s.q.InfoFile()
	event, data := f.block()
	var e struct{ Time string }
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatal(err)
	}
	want := `{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/event/"},"@type":"event","queue":"jobs","seq":1,"time":"` + e.Time + `","kind":"update","state":"` + s.url + `/state/jobs","size":` + fmt.Sprint(facts.Length) + `,"type":"text/x-anvl"}`
	if event != "update" || data != want || f.id != "1" {
		t.Errorf("got event %q, id %q\n%s\nwant\n%s", event, f.id, data, want)
	}
}

// A job that waits for its submitter is submitted on hold, and released.
func TestJobsOnHoldForTheirSubmitterAreTold(t *testing.T) {
	s := newSite(t, rest.Options{})
	all := s.follow("/events?lastEventId=")
	all.block()
	s.submit("x", job.Meta{OnHold: true})
	s.do("POST", "/consume/jobs", "").want(t, 204)
	s.do("POST", "/release/jobs?held", "").want(t, 200) // a selection leaves it
	s.do("POST", "/release/jobs/"+j1, "").want(t, 200)
	s.do("POST", "/consume/jobs", "").want(t, 200)
	all.want("jobs 1 submit "+j1, "jobs 2 release "+j1, "jobs 3 consume "+j1)
}

func TestStreamsGoOnWhereTheyWere(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 3 {
		s.submit("x", job.Meta{})
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	all := []string{"jobs 1 submit " + j1, "jobs 2 submit " + j2, "jobs 3 submit " + j3, "jobs 4 consume " + j1}
	s.follow("/events/jobs", "Last-Event-ID", "0").want(all...)
	s.follow("/events/jobs", "Last-Event-ID", "2").want(all[2:]...)
	s.follow("/events/jobs?lastEventId=2").want(all[2:]...)
	s.follow("/events/jobs?lastEventId=1&from=4", "Last-Event-ID", "2").want(all[2:]...)
	s.follow("/events/jobs?from=0").want(all...)
	s.follow("/events/jobs?from=3").want(all[2:]...)
	s.follow("/events/jobs?from=1&kind=consume,delete").want(all[3])
	s.follow("/events/jobs?from=1&status=consumed").want(all[3])
	next := s.follow("/events/jobs?from=5")
	now := s.follow("/events/jobs")
	s.do("DELETE", "/content/jobs/"+j2, "").want(t, 202)
	next.want("jobs 5 delete " + j2)
	now.want("jobs 5 delete " + j2)
}

func TestStreamOfAllQueuesMissesNoneOfThem(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", job.Meta{})
	f := s.follow("/events")
	f.block()
	opened := f.id
	s.submit("x", job.Meta{})
	f.want("jobs 2 submit " + j2)
	// A queue that comes later, over HTTP.
	s.do("PUT", "/state/later", "").want(t, 201)
	s.do("POST", "/content/later", "y").want(t, 201)
	f.want("later 1 submit " + j1)
	last := f.id
	f.resp.Body.Close()

	s.submit("x", job.Meta{})
	s.do("POST", "/consume/later", "").want(t, 200)
	s.follow("/events", "Last-Event-ID", last).want("jobs 3 submit "+j3, "later 2 consume "+j1)
	s.follow("/events?lastEventId=" + opened + "&kind=consume").want("later 2 consume " + j1)
	s.follow("/events", "Last-Event-ID", opened).want("jobs 2 submit "+j2, "jobs 3 submit "+j3, "later 1 submit "+j1, "later 2 consume "+j1)
}

func TestStreamsSayWhenTheyCannotGoOn(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", job.Meta{})
	f := s.follow("/events/jobs", "Last-Event-ID", "7")
	f.wantReset(7, 1, "has not had that event")
	if f.id != "1" {
		t.Errorf("id: got %q, want 1", f.id)
	}
	s.submit("x", job.Meta{})
	f.want("jobs 2 submit " + j2)
	s.follow("/events/jobs?from=4").wantReset(3, 2, "has not had that event")

	// The ids of all events of another home.
	other := newSite(t, rest.Options{})
	for range 3 {
		other.submit("x", job.Meta{})
	}
	ahead := other.follow("/events")
	ahead.block()
	s.follow("/events", "Last-Event-ID", ahead.id).wantReset(0, 0, "has not had that event")
	other.do("PUT", "/state/more", "").want(t, 201)
	more := other.follow("/events")
	more.block()
	s.do("PUT", "/state/another", "").want(t, 201)
	s.follow("/events", "Last-Event-ID", more.id).wantReset(0, 0, "queues are not those")
	s.do("PUT", "/state/athird", "").want(t, 201)
	f = s.follow("/events", "Last-Event-ID", more.id)
	f.wantReset(0, 0, "queues are not those")
	s.do("POST", "/content/athird", "x").want(t, 201)
	f.want("athird 1 submit " + j1)
}

func TestStreamsOfARemovedQueueEnd(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.do("PUT", "/state/other", "").want(t, 201)
	one, all := s.follow("/events/jobs"), s.follow("/events")
	all.block()
	last := all.id
	if err := s.svc.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	one.block()
	if rest, err := io.ReadAll(one.in); err != nil || len(rest) > 0 {
		t.Errorf("end of the stream: %q, %v", rest, err)
	}
	s.do("GET", "/events/jobs", "").want(t, 404)
	s.do("PUT", "/state/jobs", "").want(t, 201)
	s.do("POST", "/content/jobs", "x").want(t, 201)
	s.do("POST", "/content/other", "x").want(t, 201)
	got := []string{all.next(), all.next()}
	slices.Sort(got)
	if want := []string{"jobs 1 submit " + j1, "other 1 submit " + j1}; !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
	s.follow("/events", "Last-Event-ID", last).wantReset(0, 0, "queues are not those")
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged %v", errs)
	}
}

// A forgetful follower has no use for the journal.
type forgetful struct{}

func (forgetful) Flush() error  { return nil }
func (forgetful) Synced() error { return nil }

func TestStreamsOutliveCheckpointsAndRestarts(t *testing.T) {
	dir := t.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	open := func() *site {
		svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		svc.Follow(forgetful{})
		q, err := svc.Queue("jobs")
		if errors.Is(err, ledger.ErrNoQueue) {
			q, err = svc.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
		}
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(rest.New(svc, rest.Options{}))
		t.Cleanup(srv.Close)
		t.Cleanup(func() { svc.Close() }) // ends the streams
		return &site{t: t, svc: svc, q: q, url: srv.URL}
	}
	s := open()
	f := s.follow("/events/jobs")
	for range 10 {
		s.submit(strings.Repeat("x", 1<<10), job.Meta{})
	}
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	// Of the segment in use the events are still there.
	s.follow("/events/jobs", "Last-Event-ID", "9").want("jobs 10 submit j000000000010")
	for range 300 {
		s.submit(strings.Repeat("x", 8<<10), job.Meta{})
	}
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	s.follow("/events/jobs", "Last-Event-ID", "9").wantReset(9, 310, "no longer in the journal")
	for n := 1; n <= 310; n++ { // one that reads all along
		f.want(fmt.Sprintf("jobs %d submit j%012d", n, n))
	}
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(f.in); err != nil || len(rest) > 0 {
		t.Errorf("end of the stream: %q, %v", rest, err)
	}

	s = open()
	s.submit("x", job.Meta{})
	s.follow("/events/jobs", "Last-Event-ID", f.id).want("jobs 311 submit j000000000311")
	s.follow("/events/jobs", "Last-Event-ID", "309").want("jobs 310 submit j000000000310")
	r := s.follow("/events/jobs", "Last-Event-ID", "9")
	r.wantReset(9, 311, "no longer in the journal")
	s.submit("x", job.Meta{})
	r.want("jobs 312 submit j000000000312")
}

func TestStreamsShowThatTheyLive(t *testing.T) {
	s := newSite(t, rest.Options{Streams: events.Limits{Heartbeat: time.Millisecond}})
	for _, path := range []string{"/events/jobs", "/events"} {
		f := s.follow(path + "?kind=consume")
		f.block()
		first := f.id
		if got := f.line(); got != ":" {
			t.Errorf("%s: got %q, want a comment", path, got)
		}
		// What a filter leaves out is passed over once, not at each return.
		s.submit("x", job.Meta{})
		for f.id == first {
			if event, data := f.block(); event != "" {
				t.Fatalf("%s: got event %q %s", path, event, data)
			}
		}
	}
}

func TestStreamsRefuseWhatTheyDoNotKnow(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, path := range []string{"/events", "/events/jobs"} {
		resp, err := http.DefaultTransport.RoundTrip(s.request("HEAD", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
			t.Errorf("HEAD %s: got %s, %q", path, resp.Status, got)
		}
	}
	for path, want := range map[string]int{
		"/events/none":                         404,
		"/events/jobs?kind=submit,none":        400,
		"/events/jobs?status=":                 400,
		"/events/jobs?from=x":                  400,
		"/events/jobs?from=01":                 400,
		"/events/jobs?from=-1":                 400,
		"/events/jobs?lastEventId=all-AAAAAA":  400,
		"/events/jobs?kind=submit&kind=delete": 400,
		"/events?from=1":                       400,
		"/events?lastEventId=12":               400,
		"/events?lastEventId=all-A":            400,
		"/events?lastEventId=all-AAAAAICA":     400,
		"/events?lastEventId=all-AAAAAIAA":     400, // 0 in two octets
		"/events/jobs/j000000000001":           404,
	} {
		s.do("GET", path, "").want(t, want)
	}
	a := s.do("POST", "/events", "").want(t, 405)
	a.header(t, "Allow", "GET, HEAD")
}

func TestStreamsHaveALimit(t *testing.T) {
	s := newSite(t, rest.Options{Streams: events.Limits{Streams: 2}})
	first := s.follow("/events")
	s.follow("/events/jobs")
	a := s.do("GET", "/events/jobs", "").want(t, 503)
	a.header(t, "Retry-After", "10")
	if !strings.Contains(a.exception(t), "too many event streams") {
		t.Error(a.body)
	}
	first.resp.Body.Close()
	for { // until the server has seen it
		resp, err := http.DefaultTransport.RoundTrip(s.request("GET", "/events/jobs", nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

func TestIDsOfAllQueuesStaySmall(t *testing.T) {
	s := newSite(t, rest.Options{})
	for n := range 40 {
		if _, err := s.svc.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprint("q", n), CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	f := s.follow("/events")
	f.block()
	if n := len(f.id); n > 400 {
		t.Errorf("id of 41 queues: %d octets", n)
	}
	// Its id comes with a heartbeat or after many events, not with each.
	for range 3 {
		s.submit("x", job.Meta{})
	}
	before := f.id
	f.want("jobs 1 submit " + j1)
	if f.id != before {
		t.Error("a long id came with a single event")
	}
	s.follow("/events", "Last-Event-ID", f.id).want("jobs 1 submit "+j1, "jobs 2 submit "+j2, "jobs 3 submit "+j3)
}

// A smallListener has connections that hold little.
type smallListener struct{ net.Listener }

func (l smallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

func TestSlowStreamsAreCutOff(t *testing.T) {
	s := newService(t)
	ended := make(chan struct{})
	h := rest.New(s.svc, rest.Options{Streams: events.Limits{Idle: 20 * time.Millisecond}})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	srv.Listener = smallListener{srv.Listener}
	srv.Start()
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /events/jobs?from=1 HTTP/1.1\r\nHost: h\r\n\r\n")
	sub := s.q.Begin()
	for range 600 {
		if _, err := sub.Add(job.Meta{MediaType: strings.Repeat("x", 500)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sub.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	<-ended // nothing was read
}

// A countWriter counts the events that are written to it.
type countWriter struct {
	header http.Header
	seen   func()
}

func (w *countWriter) Header() http.Header { return w.header }
func (w *countWriter) WriteHeader(int)     {}
func (w *countWriter) FlushError() error   { return nil }
func (w *countWriter) Write(p []byte) (int, error) {
	for range strings.Count(string(p), "event: submit\n") {
		w.seen()
	}
	if strings.HasPrefix(string(p), "retry:") {
		w.seen()
	}
	return len(p), nil
}

func TestManyStreamsLeaveNothingBehind(t *testing.T) {
	s := newService(t)
	for n := range 9 {
		if _, err := s.svc.CreateQueue(ctx, home.QueueInfo{Identifier: fmt.Sprint("q", n), CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	h := rest.New(s.svc, rest.Options{})
	before := runtime.NumGoroutine()
	const each = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var streams, opened, events sync.WaitGroup
	opened.Add(2 * each)
	events.Add(2 * each * 3)
	for range each {
		for _, path := range []string{"/events", "/events/jobs"} {
			r := httptest.NewRequest("GET", path, nil).WithContext(ctx)
			w := &countWriter{header: http.Header{}}
			w.seen = func() { opened.Done(); w.seen = events.Done }
			streams.Go(func() { h.ServeHTTP(w, r) })
		}
	}
	opened.Wait()
	for range 3 {
		s.submit("x", job.Meta{})
	}
	events.Wait()
	if n := runtime.NumGoroutine() - before; n > 2*each+10+5 {
		t.Errorf("%d goroutines for %d streams over 10 queues", n, 2*each)
	}
	cancel()
	streams.Wait()
	for runtime.NumGoroutine() > before { // those of the test itself are on their way out
		runtime.Gosched()
	}
}
