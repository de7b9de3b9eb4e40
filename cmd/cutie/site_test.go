package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/rest"
)

// startSite serves a site whose protocol is h.
func startSite(t *testing.T, s *site, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s.protocol = h
	s.published = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "published "+r.URL.Path) })
	s.index = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "index") })
	if s.healthy == nil {
		s.healthy = func() error { return nil }
	}
	if s.leaving == nil {
		s.leaving = context.Background()
	}
	if s.pace == (pace{}) {
		s.pace = defaultPace
	}
	if s.crowd == nil {
		s.crowd = &access.Crowd{Max: 10}
	}
	s.refuse = func(w http.ResponseWriter, _ *http.Request, err error) {
		var e *rest.Error
		if !errors.As(err, &e) {
			e = &rest.Error{Status: http.StatusInternalServerError}
		}
		http.Error(w, e.Message, e.Status)
	}
	var err error
	if s.gate == nil {
		if s.gate, err = access.New(access.Options{Anonymous: access.Everything}); err != nil {
			t.Fatal(err)
		}
	}
	s.browser = &access.Browser{}
	if s.record == nil {
		if s.record, err = access.OpenLog(filepath.Join(t.TempDir(), "log"), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnContext = rememberConn
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestSiteDispatches(t *testing.T) {
	srv := startSite(t, &site{prefix: "/base"}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "protocol "+r.URL.EscapedPath())
	})
	for path, want := range map[string]string{
		"/":                                "index",
		"/livez":                           "ok\n",
		"/readyz":                          "ok\n",
		"/.well-known/resourcesync":        "published /.well-known/resourcesync",
		"/.well-known/resourcesync/q/x":    "published /.well-known/resourcesync/q/x",
		"/.well-known/resourcesyncs":       "protocol /.well-known/resourcesyncs",
		"/state/q":                         "protocol /state/q",
		"/content/a%2fb//..":               "protocol /content/a%2fb//..",
		"/base/":                           "index",
		"/base/state/a%2fb":                "protocol /state/a%2fb",
		"/base/.well-known/resourcesync/q": "published /.well-known/resourcesync/q",
		"/basement":                        "protocol /basement",
	} {
		if _, got := get(t, srv.URL+path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestSiteIsNotReadyWhenStorageFailedOrStopping(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	var failed atomic.Bool
	healthy := func() error {
		if failed.Load() {
			return errors.New("sync failed")
		}
		return nil
	}
	srv := startSite(t, &site{leaving: leaving, healthy: healthy}, http.NotFound)
	if got, _ := get(t, srv.URL+"/readyz"); got != http.StatusOK {
		t.Errorf("got %d, want 200", got)
	}
	failed.Store(true)
	if got, text := get(t, srv.URL+"/readyz"); got != http.StatusServiceUnavailable || text != "not ready: storage failed, see the log\n" {
		t.Errorf("got %d %q, want 503 and no more than that", got, text)
	}
	failed.Store(false)
	leave()
	if got, _ := get(t, srv.URL+"/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", got)
	}
	if got, _ := get(t, srv.URL+"/livez"); got != http.StatusOK {
		t.Errorf("livez: got %d, want 200", got)
	}
}

func TestPanicIsLoggedAndAnswered(t *testing.T) {
	var log bytes.Buffer
	srv := startSite(t, &site{log: zerolog.New(zerolog.SyncWriter(&log))}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "begun")
		}
		panic("a bug")
	})
	if got, text := get(t, srv.URL+"/early"); got != http.StatusInternalServerError || text != "internal error\n" {
		t.Errorf("got %d %q, want 500", got, text)
	}
	resp, err := http.Get(srv.URL + "/late")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("an answer that was cut passes for whole")
	}
	srv.Close() // no handler writes to the log any more
	for _, want := range []string{`"panic":"a bug"`, `"path":"/early"`, `"path":"/late"`, "site_test.go", "handler panicked"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s has no %s", log.String(), want)
		}
	}
}

func TestStoppingReleasesThoseWhoWaitAndNoOthers(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	begun := make(chan bool)
	srv := startSite(t, &site{leaving: leaving}, func(w http.ResponseWriter, r *http.Request) {
		if waits(r) {
			begun <- true
			<-r.Context().Done()
			w.WriteHeader(http.StatusNoContent)
			return
		}
		leave()
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	answers := make(chan int)
	wait := func(query, prefer, form string) {
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/consume/q"+query, strings.NewReader(form))
		if err != nil {
			t.Error(err)
		}
		req.Header.Set("Prefer", prefer)
		if form != "" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			answers <- 0
			return
		}
		resp.Body.Close()
		answers <- resp.StatusCode
	}
	ways := [][3]string{{"?wait=60"}, {"?%77ait=60"}, {"", "respond-async, wait=60"}, {"", "Wait = 60"}, {"", "", "wait=60"}}
	for _, way := range ways {
		go wait(way[0], way[1], way[2])
		<-begun
	}
	if got, _ := get(t, srv.URL+"/state"); got != http.StatusOK {
		t.Errorf("other request: got %d, want 200", got)
	}
	for range ways {
		if got := <-answers; got != http.StatusNoContent {
			t.Errorf("got %d, want 204", got)
		}
	}
}

func TestWaitersOfOneClientAreLimited(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	srv := startSite(t, &site{crowd: &access.Crowd{Max: 1}}, func(w http.ResponseWriter, r *http.Request) {
		if waits(r) {
			begun <- true
			<-end
		}
	})
	for _, path := range []string{"/consume/q?wait=60", "/events", "/events/q"} {
		done := make(chan int)
		go func() {
			resp, err := http.Get(srv.URL + path)
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			resp.Body.Close()
			done <- resp.StatusCode
		}()
		<-begun
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: second that waits: got %s, Retry-After %q, want 503", path, resp.Status, resp.Header.Get("Retry-After"))
		}
		if got, _ := get(t, srv.URL+"/state"); got != http.StatusOK {
			t.Errorf("%s: one that does not wait: got %d, want 200", path, got)
		}
		end <- true
		if got := <-done; got != http.StatusOK {
			t.Errorf("%s: first that waits: got %d, want 200", path, got)
		}
	}
}

func TestAnswerThatIsNotTakenIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	srv := startSite(t, &site{pace: pace{take: 50 * time.Millisecond, slowest: 1 << 40}}, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
}

func TestLongAnswerFromAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 2*takePart + 5
	if _, err := f.WriteAt([]byte("end"), size-3); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(r io.Reader) io.Reader{
		"limited": func(r io.Reader) io.Reader { return io.LimitReader(r, size-1) },
		"whole":   func(r io.Reader) io.Reader { return r },
	} {
		t.Run(name, func(t *testing.T) {
			srv := startSite(t, &site{}, func(w http.ResponseWriter, r *http.Request) {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					t.Error(err)
				}
				if _, err := io.Copy(w, read(f)); err != nil {
					t.Error(err)
				}
			})
			resp, err := http.Get(srv.URL + "/x")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			tail := make([]byte, 0, 8)
			buf := make([]byte, 1<<20)
			var n int64
			for err == nil {
				var k int
				k, err = resp.Body.Read(buf)
				n += int64(k)
				tail = append(tail, buf[max(0, k-8):k]...)
				tail = tail[max(0, len(tail)-3):]
			}
			wantSize, wantTail := int64(size), "end"
			if name == "limited" {
				wantSize, wantTail = size-1, "\x00en"
			}
			if err != io.EOF || n != wantSize || string(tail) != wantTail {
				t.Errorf("got %d octets, end %q, %v, want %d, %q", n, tail, err, wantSize, wantTail)
			}
		})
	}
}

func TestLimiterWaitsForAPlace(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(ln, 1)
	srv := &http.Server{ConnState: l.ended, Handler: http.NotFoundHandler()}
	done := make(chan error)
	go func() { done <- srv.Serve(l) }()
	first, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c net.Conn) error {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := c.Read(make([]byte, 1))
		return err
	}
	if err := ask(first); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if err := ask(second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("second connection while the first is open: got %v, want no answer", err)
	}
	first.Close()
	second.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := second.Read(make([]byte, 1)); err != nil {
		t.Errorf("second connection after the first: %v", err)
	}
	srv.Close()
	if err := <-done; err != http.ErrServerClosed {
		t.Error(err)
	}
}

func TestRecurringFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := changeLog{log: zerolog.New(&log), what: "maintain"}
	for _, err := range []error{nil, io.EOF, io.EOF, io.ErrUnexpectedEOF, nil, nil} {
		c.note(err)
	}
	want := `{"level":"error","error":"EOF","task":"maintain","message":"failed"}
{"level":"error","error":"unexpected EOF","task":"maintain","message":"failed"}
{"level":"info","task":"maintain","message":"works again"}
`
	if got := log.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBatches(t *testing.T) {
	files := func(sizes ...int64) (list []payload) {
		for _, s := range sizes {
			list = append(list, payload{size: s})
		}
		return list
	}
	small := make([]int64, batchFiles+1)
	for _, tt := range []struct {
		name  string
		sizes []int64
		want  []int // files in each batch
	}{
		{"one", []int64{1}, []int{1}},
		{"too many", small, []int{batchFiles, 1}},
		{"too much", []int64{batchOctets - 1, 1, 1}, []int{2, 1}},
		{"large alone", []int64{1, batchOctets + 1, 1}, []int{1, 1, 1}},
		{"pipes alone", []int64{-1, -1, 0, 0}, []int{1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for rest := files(tt.sizes...); len(rest) > 0; {
				var batch []payload
				batch, rest = nextBatch(rest)
				got = append(got, len(batch))
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("got %v, want %v", got, tt.want)
				}
			}
		})
	}
}
