package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/mirror"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// table is the route table of a daemon with everything.
func table() []web.Route {
	d := &daemon{Options: Options{Robots: true}}
	p := &push{own: "/hub", Notifier: &publisher.Notifier{}}
	return d.routes(&site{meter: newMeter()}, append(p.rooms(nil), new(rest.Handler), new(uws.Handler), d.messages(nil), &dashboard.Board{Hub: &dashboard.Hub{}, Published: http.NotFoundHandler()},
		mirror.New(nil, mirror.Options{}), &node{})...)
}

// startSite serves the routes of a daemon, and any other path, by h.
func startSite(t *testing.T, s *site, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	rows := table()
	for _, method := range []string{"GET", "POST", "PUT"} {
		rows = append(rows, web.Route{Method: method, Path: "/{any:.*}"})
	}
	for i := range rows {
		rows[i].Fail = nil
		rows[i].Serve = func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Route", rows[i].Path)
			h(w, r)
			return nil
		}
	}
	s.open(web.NewRouter(web.Plain, rows...))
	if s.leaving == nil {
		s.leaving = context.Background()
	}
	if s.pace == (pace{}) {
		s.pace = defaultPace
	}
	if s.crowd == nil {
		s.crowd = access.NewCrowd(10)
	}
	if s.streams == nil {
		s.streams = &access.Places{Max: 1000}
	}
	s.refuse = web.Plain
	var err error
	if s.gate == nil {
		if s.gate, err = access.New(access.Options{Anonymous: access.Everything}); err != nil {
			t.Fatal(err)
		}
	}
	s.browser = &access.Browser{}
	if s.record == nil {
		s.record = func(*access.Entry) {}
	}
	srv := httptest.NewUnstartedServer(s)
	l := listen.Limit(srv.Listener, 1000)
	srv.Listener, srv.Config.ConnState, srv.Config.ConnContext = l, l.Ended, rememberConn
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
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
	srv := startSite(t, &site{names: &naming{base: &url.URL{Path: "/base/"}}}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, w.Header().Get("Route")+" "+r.URL.EscapedPath())
	})
	for path, want := range map[string]string{
		"/":                                 "/ /",
		"/livez":                            "/livez /livez",
		"/.well-known/resourcesync":         "/.well-known/resourcesync /.well-known/resourcesync",
		"/.well-known/resourcesync/q/s/x":   "/.well-known/resourcesync/{queue}/{set}/{document} /.well-known/resourcesync/q/s/x",
		"/.well-known/resourcesyncs":        "/{any:.*} /.well-known/resourcesyncs",
		"/state/q":                          "/state/{queue} /state/q",
		"/content/a%2fb//..":                "/{any:.*} /content/a%2fb//..",
		"/content/a%2fb/..":                 "/content/{queue}/{job} /content/a%2fb/..",
		"/%73tate/q":                        "/state/{queue} /%73tate/q",
		"/base/":                            "/ /",
		"/base/state/a%2fb":                 "/state/{queue} /state/a%2fb",
		"/base/.well-known/resourcesync/q/": "/.well-known/resourcesync/{queue}/{rest:.*} /.well-known/resourcesync/q/",
		"/basement":                         "/{any:.*} /basement",
	} {
		if _, got := get(t, srv.URL+path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

type storage struct {
	err         error
	full, short bool
	tight       bool // for anything more
}

func (s *storage) Full() bool { return s.full }

func (s *storage) HasSpace(bytes int64) bool { return !s.short && (bytes == 0 || !s.tight) }

func (s *storage) Err() error { return s.err }

func (s *storage) Failure() error { return s.err }

func TestSiteIsNotReadyWhenStorageFailedOrStopping(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	disk, source, unwritten := &storage{}, &storage{}, false
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		if err := probe(w, ready(leaving, disk, source, unwritten)); err != nil {
			web.Plain(w, nil, err)
		}
		return w.Code, w.Body.String()
	}
	if got, text := ask(); got != http.StatusOK || text != "ok\n" {
		t.Errorf("got %d %q, want 200", got, text)
	}
	disk.err = errors.New("sync failed")
	if got, text := ask(); got != http.StatusServiceUnavailable || text != "not ready: storage failed, see the log\n" {
		t.Errorf("got %d %q, want 503 and no more than that", got, text)
	}
	disk.err = nil
	source.err = errors.New("sync failed")
	if got, text := ask(); got != http.StatusServiceUnavailable || !strings.Contains(text, "publishing has stopped") {
		t.Errorf("got %d %q, want 503", got, text)
	}
	source.err = nil
	for _, tt := range []struct {
		is   *bool
		text string
	}{{&disk.full, "no space left"}, {&disk.short, "no space left"}, {&unwritten, "cannot be written"}} {
		*tt.is = true
		if got, text := ask(); got != http.StatusServiceUnavailable || !strings.Contains(text, tt.text) {
			t.Errorf("got %d %q, want 503 and %q", got, text, tt.text)
		}
		*tt.is = false
	}
	leave()
	if got, _ := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", got)
	}
}

// Pages tell of a disk before it is full: large submissions are refused first.
func TestPagesTellOfANearlyFullDisk(t *testing.T) {
	for _, tt := range []struct {
		disk storage
		want string
	}{{storage{}, ""}, {storage{tight: true}, "The disk is nearly full"}, {storage{tight: true, short: true}, "The disk is full"}, {storage{full: true}, "The disk is full"},
		{storage{err: errors.New("secret"), tight: true}, errStorage.Error()}} {
		got := troubleOf(ready(t.Context(), &tt.disk, &storage{}, false), &tt.disk).Text
		if text, _, _ := strings.Cut(got, ":"); text != tt.want && got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.disk, got, tt.want)
		}
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
	if got, text := get(t, srv.URL+"/early"); got != http.StatusInternalServerError || text != "500 internal server error\n" {
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
		if strings.HasPrefix(r.URL.Path, "/consume/") {
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

func TestRequestEndsWhenItsClientGoesAway(t *testing.T) {
	begun, ended := make(chan bool), make(chan error)
	srv := startSite(t, &site{}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		begun <- true
		<-r.Context().Done()
		ended <- r.Context().Err()
	})
	for _, ask := range []string{"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, ask)
		<-begun
		c.Close()
		if err := <-ended; err != context.Canceled {
			t.Errorf("%.4s: got %v, want %v", ask, err, context.Canceled)
		}
	}
}

func TestWaitersOfOneClientAreLimited(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	srv := startSite(t, &site{crowd: access.NewCrowd(1)}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/state" {
			begun <- true
			<-end
		}
	})
	ask := func(path string) (*http.Response, error) {
		if strings.HasPrefix(path, "/consume/") {
			return http.Post(srv.URL+path, "", nil)
		}
		return http.Get(srv.URL + path)
	}
	for _, path := range []string{"/consume/q?wait=60", "/events", "/events/q"} {
		done := make(chan int)
		go func() {
			resp, err := ask(path)
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			resp.Body.Close()
			done <- resp.StatusCode
		}()
		<-begun
		resp, err := ask(path)
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

// UWS 1.1, 2.2.1.1: a service may answer before the wait is over.
func TestWaitForAJobAnswersEarlyWhereTooManyWait(t *testing.T) {
	began := time.Now()
	begun := make(chan bool)
	srv := startSite(t, &site{crowd: access.NewCrowd(1)}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			begun <- true
		}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	go http.DefaultClient.Do(first)
	<-begun
	for _, path := range []string{"/uws/q/async/j?WAIT=600", "/uws/q/async/j/?wait=-1"} {
		if got, _ := get(t, srv.URL+path); got != http.StatusOK {
			t.Errorf("%s: got %d, want 200", path, got)
		}
	}
	if took := time.Since(began); took < 2*earlyWait || took > time.Minute {
		t.Errorf("two answers took %v, want a second each", took)
	}
	if got, _ := get(t, srv.URL+"/uws/q/sync/j"); got != http.StatusServiceUnavailable {
		t.Errorf("sync: got %d, want 503", got)
	}
}

func TestRecurringFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := changeLog{log: zerolog.New(&log), task: "maintain"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, err := range []error{nil, io.EOF, io.EOF, io.EOF, io.ErrUnexpectedEOF} {
		now = now.Add(30 * time.Second)
		c.note(err, now)
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, nil, nil, nil} { // it works in between
		now = now.Add(settled / 2)
		c.note(err, now)
	}
	want := `{"level":"error","error":"EOF","task":"maintain","failures":1,"message":"failed"}
{"level":"error","error":"EOF","task":"maintain","failures":3,"message":"failed"}
{"level":"error","error":"unexpected EOF","task":"maintain","failures":4,"message":"failed"}
{"level":"info","task":"maintain","failures":5,"message":"works again"}
`
	if got := log.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A handler that breaks its answer off does so in this process as it does over
// a network: whoever reads notices.
func TestAnswersOfThisProcessMayBreakOff(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"before it has begun": func(http.ResponseWriter) {},
		"in the midst":        func(w http.ResponseWriter) { io.WriteString(w, "half") },
	} {
		inside := &InProcess{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begin(w)
			panic(http.ErrAbortHandler)
		})}
		resp, err := (&http.Client{Transport: inside}).Get("http://localhost/")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
		resp.Body.Close()
		inside.Close()
	}
}

// requestTo is a request to a Host.
func requestTo(method, host, target string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(""))
	r.Host = host
	return r
}

func TestAnswersLeadToTheNameThatWasAsked(t *testing.T) {
	const usual = "http://127.0.0.1:8080/"
	n, err := newNaming(usual, false, &net.TCPAddr{Port: 8080}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"127.0.0.1:8080":         "http://127.0.0.1:8080",
		"localhost:8080":         "http://localhost:8080",
		"queue.example":          "http://queue.example",
		"[::1]:8080":             "http://[::1]:8080",
		"":                       "http://127.0.0.1:8080",
		`a"b:8080`:               "http://127.0.0.1:8080",
		"a&b":                    "http://127.0.0.1:8080",
		"user@host":              "http://127.0.0.1:8080",
		"host:99999":             "http://127.0.0.1:8080",
		"[fe80::1%25eth0]:80":    "http://127.0.0.1:8080",
		"::1":                    "http://127.0.0.1:8080",
		"[::1":                   "http://127.0.0.1:8080",
		strings.Repeat("a", 300): "http://127.0.0.1:8080",
	} {
		if got := string(baseOf(n, requestTo("GET", host, "/state"), usual)); got != want {
			t.Errorf("%q: got %s, want %s", host, got, want)
		}
	}
	// A listed proxy speaks of itself.
	if n.proxies = (access.Proxies{netip.MustParsePrefix("192.0.2.0/24")}); baseOf(n, requestTo("GET", "localhost", "/"), usual) != "http://127.0.0.1:8080" {
		t.Error("the name of a proxy begins references")
	}
}

// baseOf is the beginning of references in the answer to a request.
func baseOf(n *naming, r *http.Request, usual string) state.Base {
	return web.BaseOf(r.WithContext(n.answered(r.Context(), r)), usual)
}

func TestRequestsToAnotherNameChangeNothing(t *testing.T) {
	rt := web.NewRouter(web.Plain, table()...)
	proxy := access.Proxies{netip.MustParsePrefix("192.0.2.1/32")} // of httptest
	check := func(base string, fixed bool, p access.Proxies, method, host, target string) string {
		n, err := newNaming(base, fixed, &net.TCPAddr{Port: 8080}, p)
		if err != nil {
			t.Fatal(err)
		}
		r := requestTo(method, host, target)
		m := rt.Match(r)
		err = n.check(r, &m)
		if e, ok := errors.AsType[*elsewhere](err); ok {
			return e.url
		}
		if err != nil {
			e, _ := web.ErrorOf(err)
			return http.StatusText(e.Status)
		}
		return ""
	}
	const here, behind = "http://127.0.0.1:8080/", "https://queue.example/jobs/"
	for _, c := range []struct {
		base         string
		fixed        bool
		proxies      access.Proxies
		request, url string
	}{
		{here, true, nil, "POST localhost:8080 /uws/q/async?a=b%20c", "http://127.0.0.1:8080/uws/q/async?a=b%20c"},
		{here, true, nil, "GET localhost:8080 /uws/q/sync?QUERY=x", "http://127.0.0.1:8080/uws/q/sync?QUERY=x"},
		{here, true, nil, "PUT 127.0.0.1:9 /state/a%2fb", "http://127.0.0.1:8080/state/a%2fb"},
		{here, true, nil, "GET localhost:8080 /state", ""},
		{here, true, nil, "POST localhost:8080 /nothing", ""},
		{here, true, nil, "POST 127.0.0.1:8080 /uws/q/async", ""},
		{here, true, nil, "POST 127.0.0.1 /uws/q/async", ""}, // a proxy without the port
		{here, true, proxy, "POST localhost:8080 /uws/q/async", ""},
		{here, false, nil, "POST localhost:8080 /uws/q/async", ""},
		{behind, true, nil, "POST localhost:8080 /uws/q/async", "Misdirected Request"},
		{behind, true, nil, "DELETE localhost:8080 /uws/q/async/j", "Misdirected Request"},
		{behind, true, nil, "POST Queue.example:443 /uws/q/async", ""},
		{behind, true, nil, "POST queue.example. /uws/q/async", ""},
		{behind, true, nil, "POST queue.example:8080 /uws/q/async", "Misdirected Request"},
		{behind, true, nil, "GET localhost:8080 /livez", ""},
	} {
		f := strings.Fields(c.request)
		if got := check(c.base, c.fixed, c.proxies, f[0], f[1], f[2]); got != c.url {
			t.Errorf("%s, %s, fixed %v: got %q, want %q", c.base, c.request, c.fixed, got, c.url)
		}
	}
}

func TestSiteSendsChangesToTheBaseURI(t *testing.T) {
	n, err := newNaming("http://127.0.0.1:8080/", true, &net.TCPAddr{Port: 8080}, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := startSite(t, &site{names: n, leaving: context.Background()}, func(http.ResponseWriter, *http.Request) { t.Error("handled") })
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Post(srv.URL+"/uws/q/async?x", "text/plain", strings.NewReader("PHASE=RUN"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusPermanentRedirect || got != "http://127.0.0.1:8080/uws/q/async?x" {
		t.Errorf("got %d %q", resp.StatusCode, got)
	}
}

// A queue may be made between two looks: who asked for a topic of it when there
// was none is asked about before anything is delivered.
func TestATopicThatIsNotThereIsAskedForBySomebody(t *testing.T) {
	svc := openHome(t, queuefs.Options{Segment: 1 << 20})
	svc.SetBaseURI("http://queue.test/")
	pub, err := publisher.New(svc, publisher.Options{BaseURI: "http://queue.test/"})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	fetch, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer fetch.Close()
	open, err := access.ParseRights("read:open")
	if err != nil {
		t.Fatal(err)
	}
	options := access.Options{Anonymous: open, Queue: func(name string) (string, bool) { return name, true }}
	gate, err := access.New(options)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPush(svc, pub, gate, fetch, zerolog.Nop(), PushOptions{
		Change: "changelist-notification", Framework: "framework-notification"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.hub.Close()
	create := func(id string) {
		t.Helper()
		if _, err := svc.CreateQueue(t.Context(), home.QueueInfo{ID: id, CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	create("open")
	const topic = "http://queue.test/.well-known/resourcesync/closed/pending/change-notification.xml"
	r := httptest.NewRequest(http.MethodPost, "/hub", nil)
	caller, err := gate.Admit(http.Header{}, r, web.Need{Right: web.Read, Of: web.Body}, "", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	by, err := p.permit(http.Header{}, r.WithContext(access.WithCaller(r.Context(), caller)), topic)
	if err != nil {
		t.Fatal(err)
	}
	create("closed")
	if by == "" || p.still(by, topic) {
		t.Errorf("%q may have a topic that only others may read", by)
	}
}
