package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
	"cutie/testdata/tmpfs"
)

var ctx = context.Background()

// A site is a service with the queue "jobs" behind a server.
type site struct {
	t      testing.TB
	svc    *queuefs.Service
	q      *queuefs.Queue
	h      *rest.Handler // before the service, if there is a server
	url    string
	logged errorLog
}

// An errorLog keeps what a Handler does not show.
type errorLog struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorLog) add(_ *http.Request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs
}

// take returns what was logged and forgets it.
func (l *errorLog) take() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := l.errs
	l.errs = nil
	return errs
}

func newSite(t testing.TB, o rest.Options) *site {
	t.Helper()
	return newService(t).serve(o)
}

// A dial is a clock that stands still until it is turned.
type dial struct{ turned atomic.Int64 }

func (d *dial) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(d.turned.Load()))
}
func (d *dial) turn(by time.Duration) { d.turned.Add(int64(by)) }

// newDialled returns a site whose clock stands still.
func newDialled(t testing.TB) (*site, *dial) {
	t.Helper()
	d := &dial{}
	s := newServiceWith(t, queuefs.Options{Now: d.now})
	return s.serve(rest.Options{Now: d.now}), d
}

// serve puts a server before the service.
func (s *site) serve(o rest.Options) *site {
	t := s.t
	t.Helper()
	o.Pages = dashboard.Pages{}
	o.Log = s.logged.add
	s.h = rest.New(s.svc, o)
	srv := httptest.NewServer(s.h)
	t.Cleanup(srv.Close)
	t.Cleanup(s.h.Close)
	s.url = srv.URL
	s.svc.SetBaseURI(srv.URL + "/")
	return s
}

// newService returns a site without a server.
func newService(t testing.TB) *site {
	t.Helper()
	return newServiceWith(t, queuefs.Options{})
}

// manyJobs is a segment of a journal for submissions of 10,000 jobs.
const manyJobs = 32 << 20

func newServiceWith(t testing.TB, o queuefs.Options) *site {
	t.Helper()
	dir := t.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "test", Identifier: "uc3:test"}); err != nil {
		t.Fatal(err)
	}
	if o.Segment == 0 {
		o.Segment = 4 << 20
	}
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := svc.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, svc: svc, q: q}
}

// upload is for the client.
func upload(payload string, m job.Meta) client.Upload {
	return client.Upload{Size: int64(len(payload)), Meta: m, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(payload)), nil
	}}
}

// An answer is a response that was read.
type answer struct {
	*http.Response
	body string
}

// do sends a request; header is names and values in turn.
func (s *site) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	return s.send(s.request(method, path, strings.NewReader(body), header...))
}

// direct is do without a server and a connection: nothing needs a descriptor, and
// no client changes the headers.
func (s *site) direct(method, path, body string, header ...string) answer {
	s.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	rest.New(s.svc, rest.Options{Log: s.logged.add}).ServeHTTP(w, req)
	a := answer{w.Result(), w.Body.String()}
	a.Request = req
	checkDescribed(s.t, req, a.StatusCode, a.Header)
	return a
}

func (s *site) request(method, path string, body io.Reader, header ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req
}

func (s *site) send(req *http.Request) answer {
	s.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	streamed := req.URL.Query().Has("detail") || req.URL.Query().Get("limit") == "all"
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified && resp.Header.Get("Content-Length") == "" && !streamed {
		s.t.Errorf("%s %s: no Content-Length", req.Method, req.URL)
	}
	checkDescribed(s.t, req, resp.StatusCode, resp.Header)
	return answer{resp, string(data)}
}

// want fails the test if the answer has another status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: got %s, want %d\n%s", a.Request.Method, a.Request.URL, a.Status, status, a.body)
	}
	return a
}

// header fails the test if a header has another value.
func (a answer) header(t testing.TB, name, want string) {
	t.Helper()
	if got := a.Header.Get(name); got != want {
		t.Errorf("%s %s: %s: got %q, want %q", a.Request.Method, a.Request.URL, name, got, want)
	}
}

// exception returns the detail of the exception state in the answer.
func (a answer) exception(t testing.TB) string {
	t.Helper()
	if a.Header.Get("Content-Type") == "text/plain; charset=utf-8" { // nobody asked for a form
		return strings.TrimSuffix(a.body, "\n")
	}
	form, err := state.FormOf(a.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL, err, a.body)
	}
	if form == state.Turtle { // its reader is a program, and the tests of package state have it
		return state.DetailOf(form, []byte(a.body))
	}
	d, err := statetest.Read(form, state.ExceptionClass, []byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	e := d.Exception()
	if e.Status != a.StatusCode {
		t.Errorf("%s %s: exception of status %d in answer %s", a.Request.Method, a.Request.URL, e.Status, a.Status)
	}
	return e.Detail
}

// submit puts a job into the queue without HTTP.
func (s *site) submit(payload string, m job.Meta) job.Job {
	s.t.Helper()
	sub := s.q.Begin()
	defer sub.Discard()
	d, err := sub.Add(m)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(d, payload); err != nil {
		s.t.Fatal(err)
	}
	jobs, err := sub.Commit(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return jobs[0]
}

func (s *site) payload(id job.ID) string {
	s.t.Helper()
	p, err := s.q.Payload(id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer p.Close()
	data, err := io.ReadAll(p)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// counts returns how many jobs are pending, consumed and deleted.
func (s *site) counts() [3]int64 {
	st := s.q.State()
	return [3]int64{st.Pending, st.Consumed, st.Deleted}
}

func (s *site) wantCounts(pending, consumed, deleted int64) {
	s.t.Helper()
	if got, want := s.counts(), [3]int64{pending, consumed, deleted}; got != want {
		s.t.Errorf("jobs pending, consumed, deleted: got %v, want %v", got, want)
	}
}

// only returns the one job of the queue.
func (s *site) only() job.Job {
	s.t.Helper()
	jobs, err := s.q.List(index.Filter{})
	if err != nil || len(jobs) != 1 {
		s.t.Fatalf("got %d jobs, %v, want 1", len(jobs), err)
	}
	return jobs[0]
}

// A part of a multipart body that was read.
type part struct {
	header textproto.MIMEHeader
	body   string
}

func (a answer) parts(t testing.TB, media string) []part {
	t.Helper()
	got, params, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || got != media {
		t.Fatalf("Content-Type: got %q, %v, want %s", a.Header.Get("Content-Type"), err, media)
	}
	r := multipart.NewReader(strings.NewReader(a.body), params["boundary"])
	var parts []part
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part{p.Header, string(data)})
	}
}

// A form is a multipart/form-data body in the making.
type form struct {
	bytes.Buffer
	boundary string
}

func newForm() *form { return &form{boundary: "b0undary"} }

// add adds a part; header is lines without line ends, Content-Disposition
// first.
func (f *form) add(body string, header ...string) *form {
	fmt.Fprintf(f, "--%s\r\n%s\r\n\r\n%s\r\n", f.boundary, strings.Join(header, "\r\n"), body)
	return f
}

func (f *form) file(name, body string, header ...string) *form {
	return f.add(body, append([]string{`Content-Disposition: form-data; name="file"; filename="` + name + `"`}, header...)...)
}

func (f *form) field(name, body string) *form {
	return f.add(body, `Content-Disposition: form-data; name="`+name+`"`)
}

func (f *form) end() string { return f.String() + "--" + f.boundary + "--\r\n" }

func (s *site) postForm(body string, header ...string) answer {
	s.t.Helper()
	return s.do("POST", "/content/jobs", body, append(header, "Content-Type", "multipart/form-data; boundary=b0undary")...)
}

// decoded returns the state in the answer.
func (a answer) decoded(t testing.TB, c *state.Class) state.Document {
	t.Helper()
	form, err := state.FormOf(a.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL, err, a.body)
	}
	d, err := statetest.Read(form, c, []byte(a.body))
	if errors.Is(err, statetest.ErrNoReader) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL, err, a.body)
	}
	return d
}

func (a answer) queue(t testing.TB) state.Queue {
	t.Helper()
	d := a.decoded(t, state.QueueClass)
	q, err := d.Queue()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// says returns the properties of the given names, "" for those not there.
func says(d state.Document, names ...string) []string {
	var all []string
	for _, n := range names {
		text := ""
		if p := d.Property(n); p != nil {
			text = p.Text + strings.Join(p.Items, " ")
		}
		all = append(all, text)
	}
	return all
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}
