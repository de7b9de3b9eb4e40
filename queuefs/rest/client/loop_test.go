package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// works runs a loop until stop is called, and returns its error then.
func works(t *testing.T, c *client.Client, w client.Work, do func(context.Context, *client.Delivery) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() { end <- c.Work(ctx, w, do) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-end
	})
}

func TestWorkReportsEachOutcome(t *testing.T) {
	s := newSite(t, nil, 0)
	c := client.New(s.url, nil)
	s.post("/state/jobs?maxAttempts=1")
	for _, payload := range []string{"good", "bad", "later", "last"} {
		s.submit(payload, queuefs.Meta{Filename: payload})
	}
	long := strings.Repeat("\x01", 20_000)
	failures := map[string][]string{}
	var ended sync.WaitGroup // two failures, and the last job
	ended.Add(3)
	stop := works(t, c, client.Work{Queue: "jobs", Failed: func(d *client.Delivery, err error) {
		failures[d.Filename] = append(failures[d.Filename], err.Error())
		ended.Done()
	}}, func(_ context.Context, d *client.Delivery) error {
		switch d.Filename {
		case "bad":
			return errors.New(long)
		case "later":
			return client.Transient(fmt.Errorf("attempt %d", d.Attempt))
		case "last":
			ended.Done()
		}
		return nil
	})
	ended.Wait()
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for _, text := range failures["bad"] {
		if text != long {
			t.Errorf("bad: got %.100q", strings.ReplaceAll(text, "\x01", ""))
		}
	}
	want(t, "failures", failures, map[string][]string{"bad": {long}, "later": {"attempt 1"}})
	for i, w := range []struct {
		outcome   queuefs.Outcome
		transient bool
		attempts  int
	}{{queuefs.Completed, false, 1}, {queuefs.Failed, false, 1}, {queuefs.Failed, true, 1}, {queuefs.Completed, false, 1}} {
		j, err := s.q.Job(queuefs.JobID(i + 1))
		if err != nil || j.Outcome != w.outcome || j.Transient != w.transient || j.Attempts != w.attempts {
			t.Errorf("%s: got %v, transient %v, %d attempts, %v, want %+v", j.Filename, j.Outcome, j.Transient, j.Attempts, err, w)
		}
	}
}

// A job in work goes back when the loop is ended, unless it is done all the same.
func TestWorkGivesBackAtItsEnd(t *testing.T) {
	for _, done := range []bool{false, true} {
		s := newSite(t, nil, 0)
		s.submit("x", queuefs.Meta{})
		began := make(chan struct{})
		stop := works(t, client.New(s.url, nil), client.Work{Queue: "jobs"}, func(ctx context.Context, _ *client.Delivery) error {
			close(began)
			<-ctx.Done()
			if done {
				return nil
			}
			return ctx.Err()
		})
		<-began
		stop()
		j, err := s.q.Job(1)
		if done {
			want(t, "done", [3]any{j.Status, j.Outcome, err}, [3]any{queuefs.Consumed, queuefs.Completed, nil})
		} else {
			want(t, "given back", [3]any{j.Status, j.Message, err}, [3]any{queuefs.Pending, "the worker was ended", nil})
		}
	}
}

// Work ends when its lease is lost, and reports nothing.
func TestWorkEndsWithItsLease(t *testing.T) {
	s := newSite(t, nil, 0)
	s.submit("x", queuefs.Meta{})
	began, cause := make(chan struct{}), make(chan error, 1)
	failed := make(chan error, 1)
	stop := works(t, client.New(s.url, nil), client.Work{Queue: "jobs", Lease: time.Second, Failed: func(_ *client.Delivery, err error) { failed <- err }},
		func(ctx context.Context, _ *client.Delivery) error {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		})
	<-began
	s.post("/abort/jobs/j000000000001")
	if err := <-cause; !errors.Is(err, queuefs.ErrLease) {
		t.Errorf("the cause of the context is %v, want %v", err, queuefs.ErrLease)
	}
	if err := <-failed; !errors.Is(err, queuefs.ErrLease) {
		t.Errorf("Failed got %v, want %v", err, queuefs.ErrLease)
	}
	stop()
	if j, err := s.q.Job(1); err != nil || j.Outcome == queuefs.Completed {
		t.Errorf("got %v, %v", j.Outcome, err)
	}
}

// A service that refuses ends the loop; one that is out of reach does not, and a report
// is sent until it is heard.
func TestWorkGoesOnAfterFaults(t *testing.T) {
	s := newSite(t, nil, 0)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int32 // answers of reports; the service has them
	through := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/outcome/") && lost.Add(1) == 1 {
			through.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("Retry-After", "0")
			http.Error(w, "gone away", http.StatusBadGateway)
			return
		}
		through.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c := client.New(proxy.URL, nil)
	if err := c.Work(ctx, client.Work{Queue: "none"}, nil); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("got %v, want %v", err, queuefs.ErrNoQueue)
	}
	s.submit("x", queuefs.Meta{})
	began := make(chan struct{})
	stop := works(t, c, client.Work{Queue: "jobs", Failed: func(_ *client.Delivery, err error) { t.Error(err) }},
		func(context.Context, *client.Delivery) error { close(began); return nil })
	<-began
	stop()
	j, err := s.q.Job(1)
	want(t, "job", [3]any{j.Outcome, err, lost.Load()}, [3]any{queuefs.Completed, nil, int32(2)})
}

func TestTemporary(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("connection refused"), true},
		{fmt.Errorf("take: %w", context.Canceled), false},
		{queuefs.ErrNoQueue, false},
		{&client.Error{Status: 404}, false},
		{&client.Error{Status: 409}, false},
		{&client.Error{Status: 409, After: time.Second}, true},
		{fmt.Errorf("take: %w", &client.Error{Status: 429}), true},
		{&client.Error{Status: 503}, true},
		{&client.Error{Status: 507}, true},
	} {
		if got := client.Temporary(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestErrorsSayWhenToTryAgain(t *testing.T) {
	for text, most := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "soon": 0, "-1": 0,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour, "Sun, 06 Nov 1994 08:49:37 GMT": 0} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", text)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		_, err := client.New(srv.URL, nil).Job(ctx, "jobs", "j000000000001")
		srv.Close()
		var e *client.Error
		if !errors.As(err, &e) || e.After > most || e.After < most/2 {
			t.Errorf("Retry-After %q: got %v, %+v, want %v", text, err, e, most)
		}
	}
}
