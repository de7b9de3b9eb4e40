package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/batch"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/testdata/long"
)

// A sourceServer has the files that manifests name.
type sourceServer struct {
	url, other string // the same server under two names
	asked      atomic.Int64
	handle     http.HandlerFunc // for what is no file; may be nil
}

func newSource(t testing.TB, files map[string]string) *sourceServer {
	t.Helper()
	s := &sourceServer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		body, ok := files[r.URL.EscapedPath()]
		switch {
		case ok:
			w.Header().Set("Content-Type", "text/x-source")
			io.WriteString(w, body)
		case s.handle != nil:
			s.handle(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	s.other = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	return s
}

// client reaches the source and nothing else that is private.
func (s *sourceServer) client(t testing.TB) *outbound.Client {
	return s.clientWith(t, outbound.Options{})
}

func (s *sourceServer) clientWith(t testing.TB, o outbound.Options) *outbound.Client {
	t.Helper()
	o.Allow = []string{strings.TrimPrefix(s.url, "http://")}
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// wantNoTemps fails the test if payloads that are no jobs were left behind.
func (s *site) wantNoTemps() {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.svc.Dir(), "cutie-tmp", "cutie-tmp*"))
	if err == nil && len(names) > 0 {
		// Those of jobs go away when their files follow.
		if err = s.svc.Checkpoint(ctx); err == nil {
			names, err = filepath.Glob(filepath.Join(s.svc.Dir(), "cutie-tmp", "cutie-tmp*"))
		}
	}
	if err != nil || len(names) > 0 {
		s.t.Errorf("left behind: %q, %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(s.svc.Dir(), "cutie-tmp")); err != nil {
		s.t.Error(err)
	}
}

// newBatchSite returns a site with its handler, which is closed in the end.
func newBatchSite(t *testing.T, o rest.Options) (*site, *rest.Handler) {
	t.Helper()
	return newService(t).serveBatches(o)
}

// serveBatches puts a server before the service and returns its handler, too.
func (s *site) serveBatches(o rest.Options) (*site, *rest.Handler) {
	t := s.t
	t.Helper()
	o.Log = s.logged.add
	h := rest.New(s.svc, o)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	s.url = srv.URL
	s.svc.SetBaseURI(srv.URL + "/")
	return s, h
}

func (s *site) postBatch(manifest string, header ...string) answer {
	s.t.Helper()
	return s.do("POST", "/content/jobs?type=batch&t=json", manifest, header...)
}

// batch returns the state of a batch.
func (s *site) batch(ref string) state.Batch {
	s.t.Helper()
	a := s.do("GET", strings.TrimPrefix(ref, s.url)+"?t=json", "").want(s.t, 200)
	a.header(s.t, "Cache-Control", "no-store")
	d, err := state.JSON.Decode(state.BatchClass, []byte(a.body))
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := d.Batch()
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// ended asks for the state of a batch until it has ended.
func (s *site) ended(ref string) state.Batch {
	s.t.Helper()
	for {
		if b := s.batch(ref); b.Status != state.BatchFetching {
			return b
		}
	}
}

func TestBatchThatNobodyWaitsFor(t *testing.T) {
	next := make(chan string)
	src := newSource(t, map[string]string{"/a": "hello\n"})
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		select {
		case body := <-next:
			if body == "" {
				http.NotFound(w, r)
			}
			io.WriteString(w, body)
		case <-r.Context().Done():
		}
	}
	now := time.Date(2010, 4, 20, 16, 0, 0, 0, time.UTC)
	var clock atomic.Int64
	s, h := newBatchSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Parallel: 1, Running: 2, PerUser: 2, Kept: 2,
		Now: func() time.Time { return now.Add(time.Duration(clock.Load())) }}})
	start := func() string {
		t.Helper()
		a := s.postBatch(src.url+"/a\n"+src.url+"/wait\n", "Prefer", `foo="bar", respond-async; x=1, wait=5`).want(t, 202)
		a.header(t, "Preference-Applied", "respond-async")
		return a.Header.Get("Location")
	}
	one := start()
	s.do("GET", strings.TrimPrefix(one, s.url), "").want(t, 200)
	s.do("DELETE", strings.TrimPrefix(one, s.url), "").want(t, 405).header(t, "Allow", "GET, HEAD")
	for s.batch(one).Fetched == 0 { // the second file waits for us
	}
	id := one[strings.LastIndexByte(one, '/')+1:]
	want := state.Batch{ID: id, Queue: "jobs", Status: state.BatchFetching, Created: now, Lines: 2, Fetched: 1, Octets: 6}
	if got := s.batch(one); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.wantCounts(0, 0, 0)
	// No more than two at a time, whether somebody waits or not.
	two := start()
	for s.batch(two).Fetched == 0 {
	}
	for _, prefer := range []string{"", "respond-async"} {
		s.postBatch(src.url+"/a\n", "Prefer", prefer).want(t, 503).header(t, "Retry-After", "10")
	}
	if on, other := h.Batches("jobs"), h.Batches("other"); len(on) != 2 || on[0].Fetched != 1 || len(other) != 0 {
		t.Errorf("on their way are %+v, of another queue %+v", on, other)
	}
	clock.Store(int64(time.Minute))
	next <- "second\n"
	next <- ""
	first, second := s.ended(one), s.ended(two)
	if first.Status != state.BatchDone {
		first, second = second, first
	}
	want = state.Batch{ID: first.ID, Queue: "jobs", Status: state.BatchDone, Created: now, Finished: now.Add(time.Minute), Lines: 2, Fetched: 2,
		Octets: 13, Name: "b000000000001-2", Submitted: first.Submitted}
	if fmt.Sprint(first) != fmt.Sprint(want) || fmt.Sprint(first.Submitted) != "[j000000000001 j000000000002]" {
		t.Errorf("got %+v, want %+v", first, want)
	}
	want = state.Batch{ID: second.ID, Queue: "jobs", Status: state.BatchFailed, Created: now, Finished: now.Add(time.Minute), Lines: 2, Fetched: 1,
		Octets: 6, Detail: "manifest could not be submitted", Errors: []string{"line 2: " + src.url + "/wait: answer is 404 not found"}}
	if fmt.Sprint(second) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", second, want)
	}
	s.wantCounts(2, 0, 0)
	if got := h.Batches("jobs"); fmt.Sprint(got) != fmt.Sprint([]state.Batch{want}) {
		t.Errorf("without jobs are %+v, want %+v", got, want)
	}

	// Only the newest are kept, and only for a time.
	three := s.postBatch(src.url+"/a\n", "Prefer", "respond-async").want(t, 202).Header.Get("Location")
	s.ended(three)
	gone := 0
	for _, ref := range []string{one, two} {
		if s.do("GET", strings.TrimPrefix(ref, s.url), "").StatusCode == 404 {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d batches are gone, want 1", gone)
	}
	clock.Add(int64(time.Hour))
	s.do("GET", strings.TrimPrefix(three, s.url), "").want(t, 404)
	s.do("GET", "/batch/other/"+id, "").want(t, 404)
	s.wantCounts(3, 0, 0)
	h.Close()
	s.wantNoTemps()
}

// Whoever closes the handler waits for nothing but for it to be over.
func TestCloseEndsBatches(t *testing.T) {
	arrived := make(chan struct{}, 2)
	src := newSource(t, map[string]string{"/a": strings.Repeat("x", 200<<10)})
	src.handle = func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	s, h := newBatchSite(t, rest.Options{Fetch: src.client(t)})
	manifest := src.url + "/a\n" + src.url + "/wait\n"
	ref := s.postBatch(manifest, "Prefer", "respond-async").want(t, 202).Header.Get("Location")
	var (
		wg     sync.WaitGroup
		waited answer
	)
	wg.Go(func() { waited = s.postBatch(manifest) })
	<-arrived
	<-arrived
	h.Close()
	wg.Wait()
	if got := waited.want(t, 503).exception(t); got != "service closed" {
		t.Errorf("got %q", got)
	}
	if b := s.batch(ref); b.Status != state.BatchFailed || b.Detail != "service closed" || b.Finished.IsZero() {
		t.Errorf("got %+v", b)
	}
	s.postBatch(manifest).want(t, 503)
	s.do("POST", "/content/jobs", "x").want(t, 201)
	s.wantCounts(1, 0, 0)
	s.wantNoTemps()
}

func TestBatchOfAClientThatLeaves(t *testing.T) {
	arrived := make(chan struct{})
	src := newSource(t, map[string]string{"/a": "hello\n"})
	src.handle = func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}
	s, _ := newBatchSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Running: 1}})
	leaving, leave := context.WithCancel(ctx)
	go func() {
		<-arrived
		leave()
	}()
	req := s.request("POST", "/content/jobs?type=batch", strings.NewReader(src.url+"/wait\n")).WithContext(leaving)
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("got an answer")
	}
	for s.postBatch(src.url+"/a\n").StatusCode == 503 { // until the batch is over
	}
	s.wantCounts(1, 0, 0)
	s.wantNoTemps()
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

func TestBatchHasATime(t *testing.T) {
	src := newSource(t, nil)
	src.handle = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s, _ := newBatchSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Wait: 50 * time.Millisecond, Time: time.Millisecond}})
	if got := s.postBatch(src.url+"/wait\n").want(t, 400).exception(t); got != "0 of 1 files were fetched in 50ms" {
		t.Errorf("got %q", got)
	}
	b := s.ended(s.postBatch(src.url+"/wait\n", "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
	if fmt.Sprint(b.Errors) != "[0 of 1 files were fetched in 1ms]" {
		t.Errorf("got %+v", b)
	}
	s.wantCounts(0, 0, 0)
}

func TestBatchOfManyLines(t *testing.T) {
	most := long.N(500, 10_000)
	src := newSource(t, map[string]string{"/a": "hello\n"})
	s, _ := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serveBatches(rest.Options{Fetch: src.client(t)})
	a := s.postBatch(strings.Repeat(src.url+"/a md5 "+md5OfHello+"\n", most)).want(t, 201)
	d, err := state.JSON.Decode(state.QueueClass, []byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if q, err := d.Queue(); err != nil || len(q.Submitted) != most || q.Pending != int64(most) || src.asked.Load() != int64(most) {
		t.Errorf("got %d jobs, %v, %d were fetched", len(q.Submitted), err, src.asked.Load())
	}
	if j, err := s.q.Job(queuefs.JobID(most)); err != nil || j.Batch != fmt.Sprintf("b000000000001-%d", most) {
		t.Errorf("got %+v, %v", j, err)
	}
	s.postBatch(strings.Repeat(src.url+"/a\n", 10_001)).want(t, 413)
	s.wantCounts(int64(most), 0, 0)
}
