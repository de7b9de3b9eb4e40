package rest_test

import (
	"context"
	"errors"
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
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
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

func (s *site) postBatch(manifest string, header ...string) answer {
	s.t.Helper()
	return s.do("POST", "/content/jobs?type=batch&t=json", manifest, header...)
}

// batch returns the state of a batch.
func (s *site) batch(ref string) state.Batch {
	s.t.Helper()
	a := s.do("GET", strings.TrimPrefix(ref, s.url)+"?t=json", "").want(s.t, 200)
	a.header(s.t, "Cache-Control", "no-store")
	d := a.decoded(s.t, state.BatchClass)
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
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: rest.BatchLimits{Parallel: 1, Running: 2, PerUser: 2, Kept: 2},
		Now: func() time.Time { return now.Add(time.Duration(clock.Load())) }})
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
	if on, other := s.h.Batches("jobs"), s.h.Batches("other"); len(on) != 2 || on[0].Fetched != 1 || len(other) != 0 {
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
	if got := s.h.Batches("jobs"); fmt.Sprint(got) != fmt.Sprint([]state.Batch{want}) {
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
	s.h.Close()
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
	s := newSite(t, rest.Options{Fetch: src.client(t)})
	manifest := src.url + "/a\n" + src.url + "/wait\n"
	ref := s.postBatch(manifest, "Prefer", "respond-async").want(t, 202).Header.Get("Location")
	var (
		wg     sync.WaitGroup
		waited answer
	)
	wg.Go(func() { waited = s.postBatch(manifest) })
	<-arrived
	<-arrived
	s.h.Close()
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
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: rest.BatchLimits{Running: 1}})
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
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: rest.BatchLimits{Wait: 50 * time.Millisecond, Time: time.Millisecond}})
	if got := s.postBatch(src.url+"/wait\n").want(t, 400).exception(t); got != "0 of 1 files were fetched in 50ms" {
		t.Errorf("got %q", got)
	}
	want(t, "while manifests are read", s.postBatch("@"+src.url+"/m\n").want(t, 400).exception(t),
		"the time for the batch was over before all manifests were read")
	b := s.ended(s.postBatch(src.url+"/wait\n", "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
	if fmt.Sprint(b.Errors) != "[0 of 1 files were fetched in 1ms]" {
		t.Errorf("got %+v", b)
	}
	s.wantCounts(0, 0, 0)
}

func TestBatchOfManyLines(t *testing.T) {
	most := long.N(500, 10_000)
	src := newSource(t, map[string]string{"/a": "hello\n"})
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{Fetch: src.client(t)})
	a := s.postBatch(strings.Repeat(src.url+"/a md5 "+md5OfHello+"\n", most)).want(t, 201)
	d := a.decoded(t, state.QueueClass)
	if q, err := d.Queue(); err != nil || len(q.Submitted) != most || q.Pending != int64(most) || src.asked.Load() != int64(most) {
		t.Errorf("got %d jobs, %v, %d were fetched", len(q.Submitted), err, src.asked.Load())
	}
	if j, err := s.q.Job(job.ID(most)); err != nil || j.Batch != fmt.Sprintf("b000000000001-%d", most) {
		t.Errorf("got %+v, %v", j, err)
	}
	s.postBatch(strings.Repeat(src.url+"/a\n", 10_001)).want(t, 413)
	s.wantCounts(int64(most), 0, 0)
}

// One answer tells of all that could not be fetched, and nothing is submitted.
func TestFetchesThatFail(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an address that is not allowed was asked") }))
	defer inner.Close()
	large := strings.Repeat("x", 300<<10)
	src := newSource(t, map[string]string{"/ok": "hello\n", "/large": large})
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, inner.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/coded":
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "x")
		case "/chunks":
			w.(http.Flusher).Flush()
			io.WriteString(w, "hello\n")
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, large); err != nil {
					return
				}
			}
		case "/cut":
			w.Header().Set("Content-Length", "200000")
			io.WriteString(w, large[:150000])
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}
	s := newSite(t, rest.Options{MaxBody: 4 << 20, Fetch: src.client(t)})
	lines := []struct{ url, more, want string }{
		{"/ok", "md5 " + md5OfHello, ""},
		{"/gone", "", "answer is 404 not found"},
		{"/ok", "crc32 00000000", "digest verification failed: expected crc-32:00000000, got crc-32:363a3020"},
		{"/large", "md5 " + md5OfHello, "digest verification failed"},
		{"/ok", "- - 7", "length is 6 instead of 7"},
		{"/chunks", "- - 7", "length is 6 instead of 7"},
		{"/chunks", "- - 5", "body is too big: it has more than 5 octets"},
		{"/redirect", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{"/loop", "", "more than 5 redirects"},
		{"/coded", "", `content coding "gzip" is not supported`},
		{"/cut", "", "unexpected EOF"},
		{"/endless", "- - 400000", "body is too big: it has more than 400000 octets"},
		{"http://127.0.0.1:1/", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{inner.URL + "/", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{"http://[::ffff:169.254.169.254]/", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{"http://localhost:1/", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{"http://cutie.invalid/", "", "refused: the host is not known, or its address is not public and not allowed here"},
		{"/large", "", ""},
	}
	var (
		manifest strings.Builder
		want     []string
	)
	for i, l := range lines {
		if l.url[0] == '/' {
			l.url = src.url + l.url
		}
		fmt.Fprintf(&manifest, "%s %s\n", l.url, l.more)
		if l.want != "" {
			want = append(want, fmt.Sprintf("line %d: %s: %s", i+1, l.url, l.want))
		}
	}
	got := strings.Split(s.postBatch(manifest.String()).want(t, 400).exception(t), "; ")
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	s.wantCounts(0, 0, 0)
	s.wantNoTemps()
	// The operator is told once what the submitter is not.
	if errs := s.logged.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "; the pattern ") {
		t.Errorf("logged: got %v", errs)
	}

	// All files together are limited as well.
	if got := s.postBatch(src.url+"/large\n"+src.url+"/endless\n").want(t, 413).exception(t); got != "files of the batch have more than 4194304 octets" &&
		!strings.Contains(got, "body is too big") {
		t.Errorf("got %q", got)
	}
	if got := s.postBatch(strings.Repeat(src.url+"/large\n", 15)).want(t, 413).exception(t); got != "files of the batch have more than 4194304 octets" {
		t.Errorf("got %q", got)
	}
	s.wantCounts(0, 0, 0)
	s.wantNoTemps()
	s.postBatch(src.url+"/ok").want(t, 201)
	s.wantCounts(1, 0, 0)
}

func TestFetchThatMakesNoProgress(t *testing.T) {
	src := newSource(t, nil)
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 150_000)) // beyond what is kept in memory
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := newSite(t, rest.Options{Fetch: src.clientWith(t, outbound.Options{Wait: 50 * time.Millisecond})})
	want := "line 1: " + src.url + "/slow: no progress for 50ms"
	if got := s.postBatch(src.url+"/slow\n").want(t, 400).exception(t); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.wantCounts(0, 0, 0)
	s.wantNoTemps()
}

// Hosts take turns, and none is asked for more than some files at a time.
func TestFetchesAreParallel(t *testing.T) {
	var (
		mu   sync.Mutex
		now  = map[string]int{}
		most = map[string]int{}
		all  int
		full = make(chan struct{})
	)
	src := newSource(t, nil)
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		mu.Lock()
		now[host]++
		most[host] = max(most[host], now[host])
		now["all"]++
		most["all"] = max(most["all"], now["all"])
		if all++; all == 3 { // as many as there may be at a time
			close(full)
		}
		mu.Unlock()
		select {
		case <-full:
		case <-r.Context().Done():
			t.Error("no three files were fetched at a time")
		}
		mu.Lock()
		now[host]--
		now["all"]--
		mu.Unlock()
		io.WriteString(w, r.URL.Path)
	}
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: rest.BatchLimits{Parallel: 3, PerHost: 2}})
	var manifest strings.Builder
	for i := range 20 {
		fmt.Fprintf(&manifest, "%s/%d\n", src.url, i)
	}
	for i := range 20 {
		fmt.Fprintf(&manifest, "%s/%d\n", src.other, 20+i)
	}
	s.postBatch(manifest.String()).want(t, 201)
	if most["127.0.0.1"] > 2 || most["localhost"] > 2 || most["all"] != 3 {
		t.Errorf("at a time: got %v", most)
	}
	for i := range 40 {
		if got, want := s.payload(job.ID(i+1)), fmt.Sprintf("/%d", i); got != want {
			t.Errorf("job %d: got %q, want %q", i+1, got, want)
		}
	}
}

// Manifests that hang take a quarter of the places from one caller, whether it
// waits or not; others have theirs.
func TestOneCallerDoesNotTakeAllPlacesForBatches(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n"})
	hang := make(chan struct{})
	src.handle = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Fetch: src.client(t), Log: s.logged.add, Batch: rest.BatchLimits{Running: 8}})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := rest.WithUser(r.Context(), r.Header.Get("X-User"))
		if address := r.Header.Get("X-Address"); address != "" {
			ctx = rest.WithAddress(ctx, address)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	s.url = srv.URL
	s.svc.SetBaseURI(srv.URL + "/")

	const async, wait = "respond-async", "/wait\n"
	var begun []string
	for _, who := range [][]string{{"X-User", "ann"}, {"X-User", "bob"}, {"X-Address", "192.0.2.1"}} {
		for range 2 {
			begun = append(begun, s.postBatch(src.url+wait, "Prefer", async, who[0], who[1]).want(t, 202).Header.Get("Location"))
		}
		for _, prefer := range []string{async, ""} {
			a := s.postBatch(src.url+wait, "Prefer", prefer, who[0], who[1]).want(t, 503)
			a.header(t, "Retry-After", "10")
			if got := a.exception(t); !strings.Contains(got, "2 batches") {
				t.Errorf("got %q", got)
			}
		}
	}
	// A user is the same from any address, and an address without a user is one.
	s.postBatch(src.url+wait, "Prefer", async, "X-User", "ann", "X-Address", "192.0.2.9").want(t, 503)
	s.postBatch(src.url+"/a\n", "X-Address", "192.0.2.9").want(t, 201)
	s.postBatch(src.url+"/a\n").want(t, 201)
	close(hang)
	for _, ref := range begun {
		if b := s.ended(ref); b.Status != state.BatchDone {
			t.Errorf("got %+v", b)
		}
	}
	for s.postBatch(src.url+"/a\n", "X-User", "ann").StatusCode == 503 { // until both are over
	}
	s.wantCounts(int64(len(begun)+3), 0, 0)
}

func TestClientSubmitsManifests(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n"})
	s := newSite(t, rest.Options{Fetch: src.client(t)})
	c := client.New(s.url, nil)
	manifest := src.url + "/a\n" + src.url + "/a md5 " + md5OfHello + " - - b\n"
	said := job.Meta{Filename: "m", Submitter: "me", Expect: []digest.Value{digest.Sum(digest.CRC32, []byte(manifest))}}
	ids, err := c.SubmitManifest(ctx, "jobs", upload(manifest, said))
	if err != nil || fmt.Sprint(ids) != "[j000000000001 j000000000002]" {
		t.Fatalf("got %q, %v", ids, err)
	}
	if j, err := s.q.Job(2); err != nil || j.Submitter != "me" || j.Filename != "b" || j.Batch != "b000000000001-2" {
		t.Errorf("got %+v, %v", j, err)
	}
	id, err := c.StartManifest(ctx, "jobs", upload(manifest, said))
	if err != nil {
		t.Fatal(err)
	}
	b := state.Batch{Status: state.BatchFetching}
	for b.Status == state.BatchFetching {
		if b, err = c.Batch(ctx, "jobs", id); err != nil {
			t.Fatal(err)
		}
	}
	if b.ID != id || b.Status != state.BatchDone || fmt.Sprint(b.Submitted) != "[j000000000003 j000000000004]" {
		t.Errorf("got %+v", b)
	}
	var e *web.Error
	if ids, err := c.SubmitManifest(ctx, "jobs", upload("ftp://a/b\n", job.Meta{})); !errors.As(err, &e) || e.Status != 400 || e.Message != `line 1: "ftp://a/b": refused: scheme is not http or https` {
		t.Errorf("got %q, %v", ids, err)
	}
	if _, err := c.Batch(ctx, "jobs", "other"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v", err)
	}
	if _, err := c.StartManifest(ctx, "jobs", upload(manifest, job.Meta{Sidecar: "x"})); err == nil {
		t.Error("a sidecar was accepted")
	}
	s.wantCounts(4, 0, 0)
}

// filenames are those of all jobs in the order of the queue.
func (s *site) filenames() string {
	s.t.Helper()
	jobs, err := s.q.List(index.Filter{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, j := range jobs {
		names = append(names, j.Filename)
	}
	return strings.Join(names, " ")
}

// The lines of a manifest that is included stand in the place of the line that
// names it, whichever way the batch is submitted; relative URLs begin where it
// was found, which is where redirects led.
func TestManifestsIncludeOthers(t *testing.T) {
	inner := "#%checkm_0.7\nc.bin md5 " + md5OfHello + "\n../d?x=1#y - - 6 - named\n#%eof\n"
	files := map[string]string{"/a": "hello\n", "/z": "hello\n", "/deep/c.bin": "hello\n", "/d": "hello\n", "/e": "hello\n",
		"/m": "/e\n@/moved\n", "/deep/inner": inner, "/empty": "# nothing\n"}
	src := newSource(t, files)
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/deep/inner", http.StatusFound)
		case "/d":
			if r.URL.RawQuery != "x=1" {
				t.Errorf("asked for %s", r.URL)
			}
			io.WriteString(w, "hello\n")
		default:
			http.NotFound(w, r)
		}
	}
	outer := fmt.Sprintf("%[1]s/a\n@%[1]s/m sha-256 %[2]s %[3]d\n@%[1]s/empty\n%[1]s/z\n", src.url,
		digest.Sum(digest.SHA256, []byte(files["/m"])).Hex, len(files["/m"]))
	for name, submit := range map[string]func(s *site){
		"waiting": func(s *site) {
			q := s.postBatch(outer).want(t, 201).queue(t)
			want(t, "submitted", q.Submitted, []job.ID{1, 2, 3, 4, 5})
		},
		"not waiting": func(s *site) {
			b := s.ended(s.postBatch(outer, "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
			if b.Status != state.BatchDone || b.Lines != 5 || b.Fetched != 5 || len(b.Submitted) != 5 {
				t.Errorf("got %+v", b)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, rest.Options{Fetch: src.client(t)})
			submit(s)
			if got := s.filenames(); got != "a e c.bin named z" {
				t.Errorf("got %s", got)
			}
			s.wantNoTemps()
		})
	}
}

// Manifests that are redirected in a circle, and ones that are too long together, end.
func TestIncludedManifestsEnd(t *testing.T) {
	src := newSource(t, map[string]string{"/circle": "@round\n", "/long": "#" + strings.Repeat("x", 70_000), "/big": strings.Repeat("#\n", 1500)})
	src.handle = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) }
	u := src.url
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: rest.BatchLimits{Lines: 6, Octets: 100_000}})
	for _, tt := range []struct {
		manifest string
		status   int
		want     string
	}{
		{"@" + u + "/circle\n", 400, u + "/circle line 1: " + u + "/round: this manifest includes itself"},
		{"@" + u + "/long\n", 413, u + "/long: manifests have more than 6 lines together, or one of more than 65536 octets"},
		{"# " + strings.Repeat(strings.Repeat("x", 1000)+"\n#", 98) + "\n@" + u + "/big\n", 400, "line 100: " + u + "/big: body is too big: it has "},
	} {
		if got := s.postBatch(tt.manifest).want(t, tt.status).exception(t); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.80q: got %q, want %q", tt.manifest, got, tt.want)
		}
	}
	s.wantNoTemps()
}

// A file of every kind that a line of a manifest may describe, in the order of
// the lines; whichever way the manifest comes.
func TestManifestIsSubmitted(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20<<10) // beyond what the journal takes
	src := newSource(t, map[string]string{"/a": "hello\n", "/b%20c.bin": large, "/d": "", "/e": "hello\n"})
	blank := fmt.Sprintf("#%%checkm_0.7\n%s/a md5 %s - - ../x/a%%20b.txt\n%s/b%%20c.bin?q=1 - - %d\n%s/d - - d.name\n%[1]s/a\n#%%eof\n",
		src.url, md5OfHello, src.url, len(large), src.url)
	bars := fmt.Sprintf("#%%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | mrt:mimeType | mrt:creator | mrt:title\r\n"+
		"%s/a | MD5 | %s | 6 | 2010-04-20 | ../x/a b.txt | image/jpeg | Seneca; T. | T\r\n%s/b%%20c.bin | SHA256 | %s\r\n%s/d | CRC-32 | 0 | 0 | | d.name\r\n%[1]s/a",
		src.url, strings.ToUpper(md5OfHello), src.url, digest.Sum(digest.SHA256, []byte(large)).Hex, src.url)
	for _, tt := range []struct {
		name string
		post func(s *site) answer
	}{
		{"bare", func(s *site) answer {
			return s.do("POST", "/content/jobs?t=anvl&type=Batch-Manifest", blank, "User-Agent", "someone/1")
		}},
		{"bare with a digest", func(s *site) answer {
			return s.do("POST", "/content/jobs?t=anvl&type=batch&digest-type=md5&digest-value="+digest.Sum(digest.MD5, []byte(bars)).Hex, bars, "User-Agent", "someone/1")
		}},
		{"form, type first", func(s *site) answer {
			return s.postForm(newForm().field("type", "batch-manifest").file("m", bars).end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
		{"form, type last", func(s *site) answer {
			return s.postForm(newForm().file("m", blank, "Content-Type: application/octet-stream").field("type", "batch").end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
		{"form, by media type", func(s *site) answer {
			return s.postForm(newForm().file("m", bars, "Content-Type: text/x-checkm; charset=utf-8").end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, rest.Options{Fetch: src.client(t)})
			a := tt.post(s).want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs")
			d, err := state.Decode(state.QueueClass, []byte(a.body))
			if err != nil {
				t.Fatal(err)
			}
			if q, err := d.Queue(); err != nil || fmt.Sprint(q.Submitted) != "[j000000000001 j000000000002 j000000000003 j000000000004]" || q.Pending != 4 {
				t.Errorf("answer: got %+v, %v", q, err)
			}
			jobs, err := s.q.List(index.Filter{})
			if err != nil || len(jobs) != 4 {
				t.Fatalf("got %d jobs, %v", len(jobs), err)
			}
			names, bodies := []string{"a b.txt", "b c.bin", "d.name", "a"}, []string{"hello\n", large, "", "hello\n"}
			for i, j := range jobs {
				sums := j.Digests
				if len(sums) == 0 || sums[0] != digest.Sum(digest.SHA256, []byte(bodies[i])) {
					t.Errorf("job %d: digests %v", i, sums)
				}
				want := job.Job{ID: job.ID(i + 1), Queue: "jobs", Status: job.Pending, Seq: job.Seq(i + 1),
					Filename: names[i], MediaType: "text/x-source", Submitter: "someone/1", Batch: "b000000000001-4",
					Size: int64(len(bodies[i])), Digests: sums, Submitted: j.Submitted}
				if i == 0 && strings.Contains(a.Request.URL.RawQuery+tt.name, "digest") || i == 0 && strings.Contains(tt.name, "first") || i == 0 && strings.Contains(tt.name, "media") {
					want.MediaType, want.Sidecar = "image/jpeg", `mrt:creator=Seneca\; T.; mrt:title=T`
				}
				if fmt.Sprint(j) != fmt.Sprint(want) {
					t.Errorf("job %d: got %+v, want %+v", i, j, want)
				}
				if got := s.payload(j.ID); got != bodies[i] {
					t.Errorf("payload %d: got %d octets, want %d", i, len(got), len(bodies[i]))
				}
			}
			s.wantNoTemps()
		})
	}
}
