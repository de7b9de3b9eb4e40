package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/batch"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
)

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
	s, _ := newBatchSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Parallel: 3, PerHost: 2}})
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
		if got, want := s.payload(queuefs.JobID(i+1)), fmt.Sprintf("/%d", i); got != want {
			t.Errorf("job %d: got %q, want %q", i+1, got, want)
		}
	}
}
