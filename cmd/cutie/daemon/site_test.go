package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

func TestRecurringFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := changeLog{log: zerolog.New(&log), what: "maintain"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, err := range []error{nil, io.EOF, io.EOF, io.EOF, io.ErrUnexpectedEOF, nil, nil} {
		now = now.Add(30 * time.Second)
		c.note(err, now)
	}
	want := `{"level":"error","error":"EOF","task":"maintain","failures":1,"message":"failed"}
{"level":"error","error":"EOF","task":"maintain","failures":3,"message":"failed"}
{"level":"error","error":"unexpected EOF","task":"maintain","failures":4,"message":"failed"}
{"level":"info","task":"maintain","failures":4,"message":"works again"}
`
	if got := log.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
