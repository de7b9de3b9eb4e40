package rest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/events"
	"cutie/queuefs/rest"
)

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
		if _, err := s.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprint("q", n), CullingSize: -1, CullingAge: -1}); err != nil {
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
		s.submit("x", queuefs.Meta{})
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
		if _, err := sub.Add(queuefs.Meta{MediaType: strings.Repeat("x", 500)}); err != nil {
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
		if _, err := s.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprint("q", n), CullingSize: -1, CullingAge: -1}); err != nil {
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
		s.submit("x", queuefs.Meta{})
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
