package fetch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination/fetch"
)

// A raw server answers requests over TCP as do says: answers may come cut, late, or not at
// all. It counts.
type raw struct {
	net.Listener
	do func(w *reply, path string, times int) (more bool)

	mu          sync.Mutex
	asked       map[string]int
	heads       map[string]http.Header
	connections int
	ahead       int // requests that came before the answer to one of before, at most
}

func serveRaw(t testing.TB, do func(w *reply, path string, times int) (more bool)) *raw {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{Listener: l, do: do, asked: map[string]int{}, heads: map[string]http.Header{}}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				s.serve(conn, ctx.Done())
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		wg.Wait()
	})
	return s
}

func (s *raw) url() string { return "http://" + s.Addr().String() }

// serve answers the requests of a connection. At its end it takes what was sent, so that no
// answer is lost.
func (s *raw) serve(conn net.Conn, end <-chan struct{}) {
	defer conn.Close()
	s.mu.Lock()
	s.connections++
	s.mu.Unlock()
	in, out := bufio.NewReader(conn), &reply{bufio.NewWriter(conn), end}
	for more := true; more; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		ahead := 1
		if rest, _ := in.Peek(in.Buffered()); len(rest) > 0 {
			ahead += strings.Count(string(rest), "GET ")
		}
		s.mu.Lock()
		path := req.URL.RequestURI()
		s.asked[path]++
		s.heads[path] = req.Header
		times := s.asked[path]
		s.ahead = max(s.ahead, ahead)
		s.mu.Unlock()
		more = s.do(out, path, times)
		out.Flush()
	}
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, in)
}

// A reply is where answers go.
type reply struct {
	*bufio.Writer
	end <-chan struct{} // of the server
}

// contents returns the 512 octets of a path.
func contents(path string) string { return strings.Repeat(path+" ", 512)[:512] }

func answer(w *reply, path, head string) bool {
	fmt.Fprintf(w, "HTTP/1.1 200 OK\r\n%sContent-Length: 512\r\n\r\n%s", head, contents(path))
	return true
}

// getMany gets n resources of a server by a pipeline, and returns their texts and errors.
func getMany(ctx context.Context, t *testing.T, c *fetch.Client, url string, n int) ([]string, []error) {
	t.Helper()
	p := c.Pipeline()
	defer p.Close()
	all := make([]fetch.Request, n)
	for i := range all {
		all[i] = fetch.Request{URI: fmt.Sprintf("%s/%d", url, i), Plain: true, Length: 512}
		if !p.Takes(&all[i]) {
			t.Fatalf("%s is not taken", all[i].URI)
		}
	}
	texts := make([]string, n)
	errs := p.Get(ctx, all, func(i int, a *fetch.Answer) error {
		b, err := io.ReadAll(a.Body)
		texts[i] = string(b)
		return err
	})
	return texts, errs
}

// All answers arrive, however a server treats one of the requests, and what was answered
// is not asked for again.
func TestPipelines(t *testing.T) {
	const n, odd = 64, "/37"
	for name, tt := range map[string]struct {
		do    func(w *reply, path string, times int) bool
		asked int // for odd; 0: once
		err   int // its status; 0: none
		lost  int // requests without an answer that are made again, at most
	}{
		"well": {do: func(w *reply, path string, _ int) bool { return answer(w, path, "") }},
		"chunked": {do: func(w *reply, path string, _ int) bool {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200\r\n%s\r\n0\r\n\r\n", contents(path))
			return true
		}},
		"hints": {do: func(w *reply, path string, _ int) bool {
			io.WriteString(w, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
			return answer(w, path, "")
		}},
		"closes in order": {lost: fetch.MaxAhead, do: func(w *reply, path string, _ int) bool {
			var i int
			if fmt.Sscanf(path, "/%d", &i); i%10 != 9 {
				return answer(w, path, "")
			}
			answer(w, path, "Connection: close\r\n")
			return false
		}},
		"closes each": {do: func(w *reply, path string, _ int) bool {
			answer(w, path, "Connection: close\r\n")
			return false
		}},
		"old": {do: func(w *reply, path string, _ int) bool {
			fmt.Fprintf(w, "HTTP/1.0 200 OK\r\n\r\n%s", contents(path))
			return false
		}},
		"closes without a word": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			return (path != odd || times > 1) && answer(w, path, "")
		}},
		"cuts the head": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-")
				return false
			}
			return answer(w, path, "")
		}},
		"cuts the body": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 512\r\n\r\nhalf")
				return false
			}
			return answer(w, path, "")
		}},
		"no HTTP": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "220 mail.example.org\r\n")
				return false
			}
			return answer(w, path, "")
		}},
		"endless head": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "HTTP/1.1 200 OK\r\n")
				for err := error(nil); err == nil; {
					_, err = io.WriteString(w, "X: "+contents("x")+"\r\n")
				}
				return false
			}
			return answer(w, path, "")
		}},
		"endless body": {asked: 2, lost: fetch.MaxAhead, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for err := error(nil); err == nil; {
					_, err = fmt.Fprintf(w, "200\r\n%s\r\n", contents("x"))
				}
				return false
			}
			return answer(w, path, "")
		}},
		"not found": {err: 404, do: func(w *reply, path string, _ int) bool {
			if path == odd {
				io.WriteString(w, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
				return true
			}
			return answer(w, path, "")
		}},
		"busy": {asked: 2, do: func(w *reply, path string, times int) bool {
			if path == odd && times == 1 {
				io.WriteString(w, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			return answer(w, path, "")
		}},
		"always busy": {asked: 3, err: 429, do: func(w *reply, path string, times int) bool {
			if path == odd {
				io.WriteString(w, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			return answer(w, path, "")
		}},
		"elsewhere": {asked: 2, lost: 1, do: func(w *reply, path string, times int) bool {
			if path == odd {
				io.WriteString(w, "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			return answer(w, strings.Replace(path, "/other", odd, 1), "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, tt.do)
			c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1, Tries: 3, Pause: time.Millisecond})
			c.Trust()
			texts, errs := getMany(t.Context(), t, c, s.url(), n)
			s.mu.Lock()
			defer s.mu.Unlock()
			for i, err := range errs {
				path, want, status, asked := fmt.Sprintf("/%d", i), contents(fmt.Sprintf("/%d", i)), 0, 1
				if path == odd {
					status, asked = tt.err, max(tt.asked, 1)
				}
				if status != 0 {
					want = ""
				}
				if fetch.Status(err) != status || status == 0 && err != nil || texts[i] != want {
					t.Errorf("%s: got %q, %v", path, texts[i], err)
				}
				if s.asked[path] != asked {
					t.Errorf("%s was answered %d times, want %d", path, s.asked[path], asked)
				}
			}
			requests, _ := c.Counts()
			if most := int64(n + max(tt.asked, 1) - 1 + tt.lost); requests > most {
				t.Errorf("%d requests, want %d at most", requests, most)
			}
			if name != "closes each" && name != "old" && s.ahead < fetch.MaxAhead/2 {
				t.Errorf("%d requests at once", s.ahead)
			}
		})
	}
}

// A server that says nothing for once, before or within an answer, keeps nobody from the
// other answers.
func TestPipelinesOfSilentServers(t *testing.T) {
	for _, begin := range []string{"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 512\r\n\r\nhalf"} {
		s := serveRaw(t, func(w *reply, path string, times int) bool {
			if path == "/37" && times == 1 {
				io.WriteString(w, begin)
				w.Flush()
				<-w.end
				return false
			}
			return answer(w, path, "")
		})
		c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1, Tries: 20, Timeout: 100 * time.Millisecond, Pause: time.Millisecond})
		c.Trust()
		texts, errs := getMany(t.Context(), t, c, s.url(), 64)
		for i, err := range errs {
			if want := contents(fmt.Sprintf("/%d", i)); err != nil || texts[i] != want {
				t.Errorf("%q: /%d: got %q, %v", begin, i, texts[i], err)
			}
		}
	}
}

// A server whose connections end after a number of answers is asked for so many.
func TestPipelinesOfServersThatCount(t *testing.T) {
	s := serveRaw(t, nil)
	served := map[int]int{}
	s.do = func(w *reply, path string, _ int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if served[s.connections]++; served[s.connections] < 20 {
			return answer(w, path, "")
		}
		answer(w, path, "Connection: close\r\n")
		return false
	}
	c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1})
	c.Trust()
	const n = 400
	_, errs := getMany(t.Context(), t, c, s.url(), n)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if requests, _ := c.Counts(); s.connections != n/20 || requests > n+fetch.MaxAhead {
		t.Errorf("%d requests over %d connections", requests, s.connections)
	}
}

// The pipelines of a Client grow with its answers, and end with its surprises.
func TestTrustInPipelines(t *testing.T) {
	var dead atomic.Bool
	s := serveRaw(t, func(w *reply, path string, _ int) bool { return !dead.Load() && answer(w, path, "") })
	ahead := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		most := s.ahead
		s.ahead = 0
		return most
	}
	c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1, Tries: 1})
	r := fetch.Request{URI: s.url() + "/1", Plain: true}
	for range 128 {
		if c.Pipeline().Takes(&r) {
			t.Fatal("a pipeline begins at once")
		}
		if err := c.Get(t.Context(), r, func(a *fetch.Answer) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{2, 3, 4} { // from 128, 256, 384 answers on
		if _, errs := getMany(t.Context(), t, c, s.url(), 128); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		if got := ahead(); got > want {
			t.Errorf("%d requests at once, want %d", got, want)
		}
	}
	dead.Store(true)
	for i := 0; c.Trusts(); i++ {
		if _, errs := getMany(t.Context(), t, c, s.url(), 1); errs[0] == nil || i > 20 {
			t.Fatalf("%d: got %v", i, errs[0])
		}
	}
	if c.Pipeline().Takes(&r) {
		t.Error("a pipeline goes on")
	}
}

// Requests a pipeline would make in another way than others are not for it.
func TestRequestsOfPipelines(t *testing.T) {
	origin := "http://h.example:8080"
	good := fetch.Request{URI: origin + "/a/b?c=d", Plain: true, Length: 10}
	for name, tt := range map[string]struct {
		o    fetch.Options
		r    func(*fetch.Request)
		want bool
	}{
		"good":           {want: true},
		"empty":          {r: func(r *fetch.Request) { r.Length = 0 }, want: true},
		"any length":     {r: func(r *fetch.Request) { r.Length = -1 }},
		"large":          {r: func(r *fetch.Request) { r.Length = fetch.MaxBodies + 1 }},
		"coded":          {r: func(r *fetch.Request) { r.Plain = false }},
		"header":         {r: func(r *fetch.Request) { r.Header = http.Header{"If-Modified-Since": {"x"}} }},
		"other status":   {r: func(r *fetch.Request) { r.Accept = []int{304} }},
		"waits":          {r: func(r *fetch.Request) { r.Wait = time.Second }},
		"other origin":   {r: func(r *fetch.Request) { r.URI = "http://h.example:80801/a" }},
		"other scheme":   {r: func(r *fetch.Request) { r.URI = "https://h.example:8080/a" }},
		"user":           {r: func(r *fetch.Request) { r.URI = "http://u@h.example:8080/a" }},
		"no path":        {r: func(r *fetch.Request) { r.URI = origin }},
		"query alone":    {r: func(r *fetch.Request) { r.URI = origin + "?a" }},
		"space":          {r: func(r *fetch.Request) { r.URI = origin + "/a b" }},
		"second request": {r: func(r *fetch.Request) { r.URI = origin + "/a HTTP/1.1\r\nHost: x\r\n\r\nGET /b" }},
		"escape":         {r: func(r *fetch.Request) { r.URI = origin + "/%zz" }},
		"fragment":       {r: func(r *fetch.Request) { r.URI = origin + "/a#b" }},
		"letters":        {r: func(r *fetch.Request) { r.URI = origin + "/ä" }},
		"long":           {r: func(r *fetch.Request) { r.URI = origin + "/" + strings.Repeat("a", 1<<14) }},
		"rate":           {o: fetch.Options{Requests: 1000}},
		"bandwidth":      {o: fetch.Options{Octets: 1 << 20}},
		"transport":      {o: fetch.Options{Transport: http.DefaultTransport}},
		"credentials":    {o: fetch.Options{Header: http.Header{"Authorization": {"Bearer x"}}}, want: true},
	} {
		tt.o.Origin = origin
		r := good
		if tt.r != nil {
			tt.r(&r)
		}
		c := fetch.New(tt.o)
		c.Trust()
		if got := c.Pipeline().Takes(&r); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	for _, origin := range []string{"", "https://h.example", "ftp://h.example", "http://", "http://%zz"} {
		r := good
		r.URI = origin + "/a"
		c := fetch.New(fetch.Options{Origin: origin})
		c.Trust()
		if c.Pipeline().Takes(&r) {
			t.Errorf("%q: taken", origin)
		}
	}
}

// A request of a pipeline is the one of Client.Get.
func TestHeadersOfPipelines(t *testing.T) {
	s := serveRaw(t, func(w *reply, path string, _ int) bool { return answer(w, path, "") })
	c := fetch.New(fetch.Options{Origin: s.url(), UserAgent: "cutie", Header: http.Header{"Authorization": {"Bearer x"}}})
	c.Trust()
	if _, errs := getMany(t.Context(), t, c, s.url(), 1); errs[0] != nil {
		t.Fatal(errs[0])
	}
	err := c.Get(t.Context(), fetch.Request{URI: s.url() + "/alone", Plain: true}, func(*fetch.Answer) error { return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, want := fmt.Sprint(s.heads["/0"]), fmt.Sprint(s.heads["/alone"]); err != nil || got != want || !strings.Contains(got, "Bearer x") {
		t.Errorf("got %v, want %v, %v", got, want, err)
	}
}

// A pipeline ends with its context, and leaves what it has.
func TestPipelinesThatAreCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serveRaw(t, func(w *reply, path string, _ int) bool {
		if path == "/20" {
			cancel()
			<-w.end
		}
		return answer(w, path, "")
	})
	c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1})
	c.Trust()
	texts, errs := getMany(ctx, t, c, s.url(), 40)
	for i, err := range errs {
		if done := texts[i] != ""; done != (err == nil) || !done && !errors.Is(err, context.Canceled) || done && i >= 20 {
			t.Errorf("%d: got %q, %v", i, texts[i], err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked["/21"] > 0 || s.asked["/20"] != 1 {
		t.Errorf("asked %v", s.asked)
	}
}

// Small resources over one connection: alone, and by a pipeline. The server is the same
// process, so that half of the time is its own.
func BenchmarkSmallResources(b *testing.B) {
	s := serveRaw(b, func(w *reply, path string, _ int) bool { return answer(w, path, "") })
	c := fetch.New(fetch.Options{Origin: s.url(), Connections: 1})
	read := func(a *fetch.Answer) error {
		_, err := io.Copy(io.Discard, a.Body)
		return err
	}
	b.Run("alone", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if err := c.Get(b.Context(), fetch.Request{URI: fmt.Sprintf("%s/%d", s.url(), i), Plain: true}, read); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pipeline", func(b *testing.B) {
		c.Trust()
		p := c.Pipeline()
		defer p.Close()
		all := make([]fetch.Request, fetch.MaxAhead)
		for i := 0; b.Loop(); i++ {
			n := i % len(all)
			all[n] = fetch.Request{URI: fmt.Sprintf("%s/%d", s.url(), i), Plain: true, Length: 512}
			if n < len(all)-1 {
				continue
			}
			if err := errors.Join(p.Get(b.Context(), all, func(_ int, a *fetch.Answer) error { return read(a) })...); err != nil {
				b.Fatal(err)
			}
		}
	})
}
