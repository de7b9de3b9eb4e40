package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

func TestClientWorks(t *testing.T) {
	s, clock := newDialled(t)
	now := clock.now()
	c := client.New(s.url, nil)
	must := func(j job.Job, err error) job.Job {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	for range 4 {
		s.submit("x", job.Meta{})
	}
	want(t, "held", must(c.Hold(ctx, "jobs", "j000000000001", "a b&c")).HeldFor, "a b&c")
	want(t, "released", must(c.Release(ctx, "jobs", "j000000000001")).Held.IsZero(), true)
	var got []*client.Delivery
	for d, err := range c.Take(ctx, "jobs", queuefs.Take{By: "worker/1", Max: 3, Lease: time.Minute}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d)
	}
	for i, del := range got {
		want(t, "delivery", [4]any{del.Job, del.Attempt, del.Expires.Equal(now.Add(time.Minute)), len(del.Lease) > 20}, [4]any{job.ID(i + 1).String(), 1, true, true})
	}
	j := must(c.Extend(ctx, "jobs", got[0].Job, got[0].Lease, 2*time.Minute))
	want(t, "extended", [2]any{j.Lease.Ends.Equal(now.Add(2 * time.Minute)), j.Consumer}, [2]any{true, "worker/1"})
	if err := c.PutResult(ctx, "jobs", got[0].Job, got[0].Lease, upload("out", job.Meta{Filename: "r.txt", MediaType: "text/plain",
		Expect: []digest.Value{digest.Sum(digest.CRC32, []byte("out")), digest.Sum(digest.SHA256, []byte("out"))}})); err != nil {
		t.Fatal(err)
	}
	r, err := c.Result(ctx, "jobs", got[0].Job, "r.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || string(text) != "out" || r.MediaType != "text/plain" || r.Size != 3 || r.Body.Close() != nil {
		t.Errorf("got %q, %v, %+v", text, err, r)
	}
	s.do("POST", "/state/jobs?maxAttempts=1", "").want(t, 200)
	j = must(c.Conclude(ctx, "jobs", got[0].Job, got[0].Lease, job.Conclusion{Outcome: job.Failed, Message: "m", Transient: true}))
	s.do("POST", "/state/jobs?maxAttempts=", "").want(t, 200)
	want(t, "concluded", [3]any{j.Outcome, j.Message, j.Transient}, [3]any{job.Failed, "m", true})
	j = must(c.Return(ctx, "jobs", got[1].Job, got[1].Lease, "not mine"))
	want(t, "returned", [2]any{j.Status, j.Message}, [2]any{job.Pending, "not mine"})
	want(t, "aborted", must(c.Abort(ctx, "jobs", got[2].Job, "")).Outcome, job.Aborted)
	want(t, "at the end", must(c.RequeueEnd(ctx, "jobs", got[0].Job)).ID, job.ID(5))

	put := func(jobID, token, name string) error {
		return c.PutResult(ctx, "jobs", jobID, token, upload("x", job.Meta{Filename: name}))
	}
	get := func(name string) error { _, err := c.Result(ctx, "jobs", got[0].Job, name); return err }
	one := func(_ job.Job, err error) error { return err }
	for what, e := range map[string][2]error{
		"extend":      {one(c.Extend(ctx, "jobs", got[0].Job, got[0].Lease, 0)), queuefs.ErrLease},
		"conclude":    {one(c.Conclude(ctx, "jobs", got[0].Job, got[0].Lease, job.Conclusion{Outcome: job.Completed})), queuefs.ErrLease},
		"return":      {one(c.Return(ctx, "jobs", got[0].Job, "", "")), nil},
		"put":         {put(got[0].Job, got[0].Lease, "a"), queuefs.ErrLease},
		"get":         {get("other"), content.ErrNoResult},
		"abort":       {one(c.Abort(ctx, "jobs", got[0].Job, "")), job.ErrConflict},
		"requeue end": {one(c.RequeueEnd(ctx, "jobs", got[0].Job)), job.ErrConflict},
		"hold":        {one(c.Hold(ctx, "jobs", got[0].Job, "")), job.ErrNotPending},
		"release":     {one(c.Release(ctx, "jobs", "j000000000099")), ledger.ErrNoJob},
	} {
		var re *web.Error
		if !errors.As(e[0], &re) || e[1] != nil && !errors.Is(e[0], e[1]) {
			t.Errorf("%s: got %v, want %v", what, e[0], e[1])
		}
	}
	for d, err := range c.Take(ctx, "jobs", queuefs.Take{Lease: time.Minute}, 0) {
		if err != nil || put(d.Job, d.Lease, "a") != nil || !errors.Is(put(d.Job, d.Lease, "a"), queuefs.ErrResultExists) ||
			!errors.Is(put(d.Job, d.Lease, ".a"), job.ErrBadName) {
			t.Errorf("got %+v, %v", d, err)
		}
	}
}

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
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	s.do("POST", "/state/jobs?maxAttempts=1", "").want(t, 200)
	for _, payload := range []string{"good", "bad", "later", "last"} {
		s.submit(payload, job.Meta{Filename: payload})
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
		outcome   job.Outcome
		transient bool
		attempts  int
	}{{job.Completed, false, 1}, {job.Failed, false, 1}, {job.Failed, true, 1}, {job.Completed, false, 1}} {
		j, err := s.q.Job(job.ID(i + 1))
		if err != nil || j.Outcome != w.outcome || j.Transient != w.transient || j.Attempts != w.attempts {
			t.Errorf("%s: got %v, transient %v, %d attempts, %v, want %+v", j.Filename, j.Outcome, j.Transient, j.Attempts, err, w)
		}
	}
}

// A job in work goes back when the loop is ended, unless it is done all the same.
func TestWorkGivesBackAtItsEnd(t *testing.T) {
	for _, done := range []bool{false, true} {
		s := newSite(t, rest.Options{})
		s.submit("x", job.Meta{})
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
			want(t, "done", [3]any{j.Status, j.Outcome, err}, [3]any{job.Consumed, job.Completed, nil})
		} else {
			want(t, "given back", [3]any{j.Status, j.Message, err}, [3]any{job.Pending, "the worker was ended", nil})
		}
	}
}

// Work ends when its lease is lost, and reports nothing.
func TestWorkEndsWithItsLease(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", job.Meta{})
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
	s.do("POST", "/abort/jobs/j000000000001", "").want(t, 200)
	if err := <-cause; !errors.Is(err, queuefs.ErrLease) {
		t.Errorf("the cause of the context is %v, want %v", err, queuefs.ErrLease)
	}
	if err := <-failed; !errors.Is(err, queuefs.ErrLease) {
		t.Errorf("Failed got %v, want %v", err, queuefs.ErrLease)
	}
	stop()
	if j, err := s.q.Job(1); err != nil || j.Outcome == job.Completed {
		t.Errorf("got %v, %v", j.Outcome, err)
	}
}

// A service that refuses ends the loop; one that is out of reach does not, and a report
// is sent until it is heard.
func TestWorkGoesOnAfterFaults(t *testing.T) {
	s := newSite(t, rest.Options{})
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
	if err := c.Work(ctx, client.Work{Queue: "none"}, nil); !errors.Is(err, ledger.ErrNoQueue) {
		t.Errorf("got %v, want %v", err, ledger.ErrNoQueue)
	}
	s.submit("x", job.Meta{})
	began := make(chan struct{})
	stop := works(t, c, client.Work{Queue: "jobs", Failed: func(_ *client.Delivery, err error) { t.Error(err) }},
		func(context.Context, *client.Delivery) error { close(began); return nil })
	<-began
	stop()
	j, err := s.q.Job(1)
	want(t, "job", [3]any{j.Outcome, err, lost.Load()}, [3]any{job.Completed, nil, int32(2)})
}

func TestTemporary(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("connection refused"), true},
		{fmt.Errorf("take: %w", context.Canceled), false},
		{ledger.ErrNoQueue, false},
		{&web.Error{Status: 404}, false},
		{&web.Error{Status: 409}, false},
		{&web.Error{Status: 409, After: time.Second}, true},
		{fmt.Errorf("take: %w", &web.Error{Status: 429}), true},
		{&web.Error{Status: 503}, true},
		{&web.Error{Status: 507}, true},
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
		var e *web.Error
		if !errors.As(err, &e) || e.After > most || e.After < most/2 {
			t.Errorf("Retry-After %q: got %v, %+v, want %v", text, err, e, most)
		}
	}
}

func TestClientSubmitsEverythingThereIsToSay(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url+"/", nil)
	c.UserAgent = "client/1"
	metas := []job.Meta{
		{},
		{Filename: "a b \"c\" é", MediaType: "text/plain; charset=utf-8", Submitter: "me", Sidecar: " x\n%41é "},
		{Sidecar: strings.Repeat("long ", 2000), MediaType: "text/checkm"},
		{MediaType: "multipart/form-data; boundary=x"},
		{Expect: []digest.Value{digest.Sum(digest.SHA512, []byte("payload")), digest.Sum(digest.Adler32, []byte("payload")), digest.Sum(digest.CRC32, []byte("payload"))}},
		{Expect: []digest.Value{digest.Sum(digest.SHA384, []byte("payload"))}, Sidecar: strings.Repeat("long ", 2000)},
	}
	for i, m := range metas {
		ids, err := c.Submit(ctx, "jobs", upload("payload", m))
		if err != nil || len(ids) != 1 {
			t.Fatalf("%d: got %v, %v", i, ids, err)
		}
		got, err := c.Job(ctx, "jobs", ids[0])
		if err != nil {
			t.Fatal(err)
		}
		by := m.Submitter
		if by == "" {
			by = "client/1"
		}
		if got.Filename != m.Filename || got.MediaType != m.MediaType || got.Sidecar != m.Sidecar || got.Submitter != by ||
			len(got.Digests) != 1+len(m.Expect) || !reflect.DeepEqual(append([]digest.Value{}, got.Digests[1:]...), append([]digest.Value{}, m.Expect...)) {
			t.Errorf("%d: got %+v, want %+v", i, got, m)
		}
		d, err := c.Next(ctx, "jobs", 0)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(d.Body)
		if err != nil || string(body) != "payload" || d.Body.Close() != nil {
			t.Errorf("%d: got %q, %v", i, body, err)
		}
		if d.Queue != "jobs" || d.Job != ids[0] || d.Filename != m.Filename || d.Sidecar != m.Sidecar || d.Size != 7 {
			t.Errorf("%d: got %+v", i, d)
		}
	}
	if _, err := c.Next(ctx, "jobs", time.Millisecond); err != ledger.ErrEmpty {
		t.Errorf("got %v, want %v", err, ledger.ErrEmpty)
	}
	for _, err := range c.NextN(ctx, "jobs", 9, 0) {
		if err != ledger.ErrEmpty {
			t.Errorf("got %v, want %v", err, ledger.ErrEmpty)
		}
	}
}

func TestClientMovesSeveralJobsAtOnce(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	const odd = "a \"b\" c;d=e naïve, 中文 100%"
	var uploads []client.Upload
	for i := range 100 {
		text := strings.Repeat(fmt.Sprint(i, " "), i*200)
		u := upload(text, job.Meta{Filename: fmt.Sprint(odd, i), Sidecar: fmt.Sprint("s ", i), Expect: []digest.Value{digest.Sum(digest.SHA1, []byte(text))}})
		if i%3 == 0 {
			u.Size = -1
		}
		uploads = append(uploads, u)
	}
	ids, err := c.Submit(ctx, "jobs", uploads...)
	if err != nil || len(ids) != 100 {
		t.Fatalf("got %d jobs, %v", len(ids), err)
	}
	n := 0
	for n < 100 {
		for d, err := range c.NextN(ctx, "jobs", 30, time.Minute) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Job != ids[n] || d.Filename != fmt.Sprint(odd, n) || d.Sidecar != fmt.Sprint("s ", n) {
				t.Errorf("%d: got %+v", n, d)
			}
			if n%2 == 0 { // what is not read does no harm
				body, err := io.ReadAll(d.Body)
				if want := strings.Repeat(fmt.Sprint(n, " "), n*200); string(body) != want || err != nil {
					t.Errorf("%d: got %d octets, %v, want %d", n, len(body), err, len(want))
				}
			}
			n++
		}
	}
	s.wantCounts(0, 100, 0)
}

func TestClientMethods(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	info := home.QueueInfo{Identifier: "uc3:cutie/01", Name: "Queue 01", Description: "a b", CullingSize: 5, CullingAge: 0, VerifyOnRead: true}
	q, err := c.CreateQueue(ctx, info)
	got := q.Info
	want := info
	want.ID, want.Created = "uc3+cutie=01", got.Created
	if err != nil || got != want {
		t.Errorf("created %+v, %v, want %+v", got, err, want)
	}
	// A queue may be called by identifier, cleaned identifier and name.
	for _, name := range []string{"uc3:cutie/01", "uc3+cutie=01", "Queue 01"} {
		if _, err := c.Submit(ctx, name, upload("x", job.Meta{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	q, err = c.Queue(ctx, "Queue 01", bulk.Filter{Status: job.Pending, After: 1, Limit: 1})
	if err != nil || q.Pending != 3 || fmt.Sprint(q.Jobs.IDs) != "[j000000000002]" || !q.Jobs.More {
		t.Errorf("queue: got %+v, %v", q, err)
	}
	if j, err := c.Delete(ctx, "Queue 01", "j000000000001"); err != nil || j.Status != job.Deleted {
		t.Errorf("delete: got %+v, %v", j, err)
	}
	if j, err := c.Requeue(ctx, "Queue 01", "j000000000001"); err != nil || j.Status != job.Pending || j.Requeues != 1 {
		t.Errorf("requeue: got %+v, %v", j, err)
	}
	d, err := c.Peek(ctx, "Queue 01", "")
	if err != nil || d.Job != "j000000000001" || d.Queue != "uc3+cutie=01" {
		t.Errorf("peek: got %+v, %v", d, err)
	}
	d.Body.Close()
	svc, err := c.Service(ctx)
	if err != nil || svc.Name != "test" || fmt.Sprint(svc.Queues) != "[jobs uc3+cutie=01]" {
		t.Errorf("service: got %+v, %v", svc, err)
	}
	text, err := c.State(ctx, state.JSON, "jobs", "")
	if err != nil || !bytes.HasPrefix(text, []byte(`{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/queue/"},"@type":"queueState",`)) {
		t.Errorf("state: got %s, %v", text, err)
	}
}

func TestClientErrorsAreThoseOfTheEngine(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 1000})
	c := client.New(s.url, nil)
	s.submit("x", job.Meta{})
	s.do("POST", "/consume/jobs", "").want(t, 200)
	err := func(_ any, err error) error { return err }
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"queue", err(c.Queue(ctx, "none", bulk.Filter{})), ledger.ErrNoQueue},
		{"queue of a job", err(c.Job(ctx, "none", "j000000000001")), ledger.ErrNoQueue},
		{"job", err(c.Job(ctx, "jobs", "j000000000009")), ledger.ErrNoJob},
		{"job that cannot be", err(c.Peek(ctx, "jobs", "x")), ledger.ErrNoJob},
		{"delete", err(c.Delete(ctx, "jobs", "j000000000001")), job.ErrNotPending},
		{"name", err(c.CreateQueue(ctx, home.QueueInfo{ID: "cutie-x"})), job.ErrBadName},
		{"digest", err(c.Submit(ctx, "jobs", upload("x", job.Meta{Expect: []digest.Value{digest.Sum(digest.MD5, nil)}}))), digest.ErrMismatch},
		{"form", err(c.State(ctx, state.Form(0), "jobs", "")), state.ErrForm},
		{"empty", err(c.Peek(ctx, "jobs", "")), ledger.ErrEmpty},
	}
	all := []error{ledger.ErrNoQueue, ledger.ErrNoJob, job.ErrNotPending, job.ErrBadName, digest.ErrMismatch, job.ErrSidecar, ledger.ErrEmpty, job.ErrTooBig}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.err, tt.want)
		}
		for _, other := range all {
			if other != tt.want && errors.Is(tt.err, other) {
				t.Errorf("%s: %v is %v too", tt.name, tt.err, other)
			}
		}
	}
	var e *web.Error
	if _, err := c.Submit(ctx, "jobs", upload(strings.Repeat("x", 1001), job.Meta{})); !errors.As(err, &e) || e.Status != 413 {
		t.Errorf("got %v, want 413", err)
	}
	if _, err := c.Submit(ctx, "jobs"); err == nil {
		t.Error("nothing was submitted")
	}
	short := upload("x", job.Meta{})
	short.Size = 2
	if _, err := c.Submit(ctx, "jobs", short); err == nil {
		t.Error("a payload that is too short was submitted")
	}
	if _, err := c.Submit(ctx, "jobs", short, short); err == nil {
		t.Error("payloads that are too short were submitted")
	}
	failing := client.Upload{Size: -1, Open: func() (io.ReadCloser, error) { return nil, errors.New("cannot open") }}
	if _, err := c.Submit(ctx, "jobs", upload("x", job.Meta{}), failing); err == nil || !strings.Contains(err.Error(), "cannot open") {
		t.Errorf("got %v", err)
	}
	s.wantCounts(0, 1, 0)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Next(ended, "jobs", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestClientSaysWhatIsNoAnswerOfTheProtocol(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"502":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>proxy", http.StatusBadGateway) },
		"304":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) },
		"Location": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/content/q/j000000000001")
			w.(http.Flusher).Flush()
		},
		"EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/content/q/j000000000001")
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "short")
		},
	}
	for want, h := range answers {
		srv := httptest.NewServer(h)
		d, err := client.New(srv.URL, nil).Next(ctx, "q", 0)
		if err == nil {
			_, err = io.ReadAll(d.Body)
			d.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		srv.Close()
	}
}
