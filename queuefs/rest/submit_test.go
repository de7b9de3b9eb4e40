package rest_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

const md5OfHello = "b1946ac92492d2347c6235b4d2611184" // of "hello\n"

func TestSubmitTenThousandFiles(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	f := newForm()
	for i := range 10_000 {
		f.file("f", fmt.Sprint(i))
	}
	a := s.postForm(f.end(), "Accept", "text/x-anvl").want(t, 201)
	if got := strings.Count(a.body, "submittedJobState: "); got != 10_000 {
		t.Errorf("answer names %d jobs", got)
	}
	s.wantCounts(10_000, 0, 0)
	if got := s.payload(10_000); got != "9999" {
		t.Errorf("last payload: got %q", got)
	}
	s.postForm(f.file("one", "more").end()).want(t, 413)
	s.wantCounts(10_000, 0, 0)
}

// A body of unknown length is read no further than it may be long.
func TestSubmitRefusesALongBodyWithoutALength(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 1 << 20})
	req := s.request("POST", "/content/jobs", strings.NewReader(strings.Repeat("x", 1<<20+1)))
	req.ContentLength = -1
	if got := s.send(req).want(t, 413).exception(t); !strings.Contains(got, "more than 1048576 octets") {
		t.Errorf("got %q", got)
	}
	s.wantCounts(0, 0, 0)
}

// net/http sends one User-Agent, so the request comes without a connection.
func TestSubmitRefusesARepeatedUserAgent(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, path := range []string{"/content/jobs", "/consume/jobs"} {
		a := s.direct("POST", path, "x", "User-Agent", "a", "User-Agent", "b").want(t, 400)
		want(t, path, a.exception(t), "header User-Agent is repeated")
	}
	s.wantCounts(0, 0, 0)
}

const keyHeader = "Idempotency-Key"

func TestManifestWithAKeyIsSentAgainForLater(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n", "/b": "more"})
	s := newSite(t, rest.Options{Fetch: src.client(t)})
	manifest := src.url + "/a\n" + src.url + "/b\n"
	s.postBatch(manifest, keyHeader, "m").want(t, 201)
	b := s.ended(s.postBatch(manifest, keyHeader, "m", "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
	want(t, "batch", fmt.Sprint(b.Status, b.Submitted, b.Name), fmt.Sprint(state.BatchDone, []job.ID{1, 2}, "b000000000001-2"))
	s.wantNoTemps()
}

// A take that is sent again takes nothing.
func TestATakeWithAKeyIsCountedOnce(t *testing.T) {
	taken := 0
	s := newSite(t, rest.Options{Taken: func(*job.Job) { taken++ }})
	s.submit("a", job.Meta{})
	for range 2 {
		s.do("POST", "/consume/jobs?lease=60", "", keyHeader, "k").want(t, 200)
	}
	want(t, "taken", taken, 1)
}

// TestABusyKeyMayBeTriedAgain lets a client ask while another one waits with its key.
func TestABusyKeyMayBeTriedAgain(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url+"/", nil)
	waits, leave := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := c.NextFor(waits, "jobs", queuefs.Take{Key: "k"}, time.Minute)
		gone <- err
	}()
	var a answer
	for a.Response == nil || a.StatusCode == 204 { // until the other one is there
		a = s.do("POST", "/consume/jobs?wait=0.05", "", keyHeader, "k")
	}
	a.want(t, 409).header(t, "Retry-After", "1")
	if !strings.Contains(a.exception(t), queuefs.ErrKeyBusy.Error()) {
		t.Errorf("got %s", a.body)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClientSendsAgainWithKeys has a service whose every second answer is lost.
func TestClientSendsAgainWithKeys(t *testing.T) {
	s := newSite(t, rest.Options{})
	h := rest.New(s.svc, rest.Options{})
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n%2 == 1 {
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	c := client.New(srv.URL+"/", nil)
	insist := func(do func() error) {
		t.Helper()
		for range 10 {
			if do() == nil {
				return
			}
		}
		t.Error("no answer")
	}
	for i := range 4 {
		insist(func() error {
			m := job.Meta{Key: fmt.Sprint("one", i)}
			if i == 3 {
				m.Sidecar = strings.Repeat("ä", 4000) // in a form
			}
			_, err := c.Submit(ctx, "jobs", upload(fmt.Sprint(i), m))
			return err
		})
	}
	insist(func() error {
		ids, err := c.Submit(ctx, "jobs", upload("x", job.Meta{Key: "a"}), upload("y", job.Meta{Key: "b"}))
		if err == nil && fmt.Sprint(ids) != "[j000000000005 j000000000006]" {
			t.Errorf("got %v", ids)
		}
		return err
	})
	insist(func() error {
		d, err := c.NextFor(ctx, "jobs", queuefs.Take{Key: "k", Lease: time.Hour}, 0)
		if err != nil {
			return err
		}
		defer d.Body.Close()
		if text, err := io.ReadAll(d.Body); err != nil || string(text) != "0" || d.Job != "j000000000001" || d.Lease == "" || d.Attempt != 1 {
			t.Errorf("got %+v with %s, %v", d, text, err)
		}
		return nil
	})
	if n != 12 { // package net/http makes some of the tries itself
		t.Errorf("got %d requests", n)
	}
	s.wantCounts(5, 1, 0)
}

// asUser serves h to a user, perhaps with limits.
func asUser(h http.Handler, name string, limits job.Limits) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := rest.WithUser(r.Context(), name)
		if limits != (job.Limits{}) {
			ctx = quota.WithLimits(ctx, limits)
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	}
}

func TestSubmittersKeepWithinTheirLimits(t *testing.T) {
	s := newService(t)
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.Limits = job.Limits{Active: 3, Upload: 1000}; return nil }); err != nil {
		t.Fatal(err)
	}
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	t.Cleanup(h.Close)
	as := func(name string, limits job.Limits) {
		srv := httptest.NewServer(asUser(h, name, limits))
		t.Cleanup(srv.Close)
		s.url = srv.URL
	}
	post := func(want int, payload, reason string) {
		t.Helper()
		a := s.do("POST", "/content/jobs?t=anvl", payload)
		if a.StatusCode != want || !strings.Contains(a.body, reason) {
			t.Errorf("got %d %s, want %d, %s", a.StatusCode, a.body, want, reason)
		}
	}
	as("ann", job.Limits{})
	for range 3 {
		post(201, "x", "")
	}
	post(429, "x", "jobs: ann has 3 jobs that wait or are in work, and may have 3")
	s.wantCounts(3, 0, 0)
	if _, err := s.q.Take(ctx, queuefs.Take{By: "worker"}); err != nil {
		t.Fatal(err)
	}
	post(201, strings.Repeat("x", 998), "")
	if _, err := s.q.Take(ctx, queuefs.Take{By: "worker"}); err != nil {
		t.Fatal(err)
	}
	post(429, "xx", "ann has 999 octets in jobs that have not ended, and may have 1000")

	as("bob", job.Limits{Active: 1})
	post(201, "x", "")
	post(429, "x", "bob has 1 jobs")
	as("eve", job.Limits{Active: job.Unlimited})
	for range 5 {
		post(201, "x", "")
	}
	as("", job.Limits{})
	post(201, "x", "")
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged %v", errs)
	}
}

// A sidecar is octets of any kind (Cutie 0.3, 5.5), kept and handed out as they came;
// one without octets is a sidecar too.
func TestSidecarIsOctets(t *testing.T) {
	for _, sidecar := range []string{"", "text", "\x00\xff\r\n--", "a\uffff", strings.Repeat("\x01long", 2000)} {
		s := newSite(t, rest.Options{})
		c := client.New(s.url, nil)
		s.postForm(newForm().file("a", "1").field("sidecar", sidecar).end()).want(t, 201)
		if _, err := c.Submit(ctx, "jobs", upload("2", job.Meta{Sidecar: sidecar, EmptySidecar: sidecar == ""})); err != nil {
			t.Fatal(err)
		}
		s.do("POST", "/content/jobs", "3", "Content-Type", "text/plain").want(t, 201) // without one
		if err := s.svc.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		text := sidecar != "" && sidecar != "text"
		for _, id := range []string{"j000000000001", "j000000000002"} {
			a := s.do("GET", "/content/jobs/"+id+"?part=sidecar", "").want(t, 200)
			want(t, id+" alone", a.body, sidecar)
			got, err := c.Job(ctx, "jobs", id)
			if err != nil || got.Sidecar != sidecar || !got.HasSidecar() {
				t.Errorf("%s: got %.40q, %v", id, got.Sidecar, err)
			}
			for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XML, state.SOIF} {
				d := s.do("GET", "/state/jobs/"+id+"?t="+form.String(), "").want(t, 200).decoded(t, state.JobClass)
				if text != (says(d, "sidecarBase64")[0] != "") || !text && says(d, "sidecar")[0] != sidecar {
					t.Errorf("%v: got %.80q", form, says(d, "sidecar", "sidecarBase64"))
				}
			}
			file := s.do("GET", "/queues/jobs/pending/"+id, "").want(t, 200).body
			line := "\nsidecar:"
			if text {
				line = "\nsidecarBase64: " + base64.StdEncoding.EncodeToString([]byte(sidecar)) + "\n"
			}
			if !strings.Contains(file, line) {
				t.Errorf("job file: got %.200s", file)
			}
			d, err := c.Peek(ctx, "jobs", id)
			if err != nil || d.Sidecar != sidecar || !d.HasSidecar {
				t.Errorf("peek: got %.40q, %v", d.Sidecar, err)
			}
			d.Body.Close()
			a = s.do("GET", "/content/jobs/"+id, "").want(t, 200)
			_, params, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
			parts := multipart.NewReader(strings.NewReader(a.body), params["boundary"])
			parts.NextPart()
			p, err := parts.NextPart()
			if err != nil {
				t.Fatal(err)
			}
			octets, _ := io.ReadAll(p)
			want(t, p.FormName(), string(octets), sidecar)
			bare := s.do("GET", "/content/jobs/"+id, "", "Accept", "application/octet-stream").want(t, 200)
			if len(sidecar) < 100 {
				got, err := url.PathUnescape(bare.Header.Get("Cutie-Sidecar"))
				if _, is := bare.Header["Cutie-Sidecar"]; !is || got != sidecar || err != nil {
					t.Errorf("header: got %q, %v", got, err)
				}
			} else if link := strings.Join(bare.Header["Link"], ", "); !strings.Contains(link, "<"+s.url+"/content/jobs/"+id+"?part=sidecar>; rel=\"http://uc3.cdlib.org/ontology/mrt/cutie/rel/sidecar\"") {
				t.Errorf("link: got %s", link)
			}
		}
		s.do("GET", "/content/jobs/j000000000003?part=sidecar", "").want(t, 404)
		if d, err := c.Peek(ctx, "jobs", "j000000000003"); err != nil || d.HasSidecar {
			t.Errorf("without: got %+v, %v", d, err)
		}
		for range 2 { // several at once carry them, too
			for d, err := range c.NextN(ctx, "jobs", 1, 0) {
				if err != nil || d.Sidecar != sidecar || !d.HasSidecar {
					t.Errorf("taken: got %+v, %v", d, err)
				}
			}
		}
	}
}

// dial opens a connection to the site and writes text as it is.
func (s *site) dial(text string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func readAnswer(t testing.TB, c net.Conn) answer {
	t.Helper()
	req, _ := http.NewRequest("POST", "http://raw/", nil)
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp, string(data)}
}

const (
	bareHead = "POST /content/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
	formHead = "POST /content/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nContent-Type: multipart/form-data; boundary=b0undary\r\n\r\n"
	chunked  = "POST /content/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// A body that ends before its length stores nothing, wherever it ends.
func TestBodyCutOff(t *testing.T) {
	s := newSite(t, rest.Options{})
	whole := newForm().file("a", "b").end()
	for _, text := range []string{
		bareHead, bareHead + "half",
		formHead, formHead + whole[:20], formHead + whole, // the form is whole, the body is not
		chunked, chunked + "5\r\nhel", chunked + "5\r\nhello\r\n", chunked + "5\r\nhello\r\nnonsense\r\n", chunked + "zz\r\n",
	} {
		c := s.dial(text)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if a := readAnswer(t, c); a.StatusCode != 400 {
			t.Errorf("%q: got %s", text, a.Status)
		}
		s.wantCounts(0, 0, 0)
	}
	a := readAnswer(t, s.dial(chunked+"5\r\nhello\r\n0\r\n\r\n")).want(t, 201)
	if a.Header.Get("Location") == "" || s.payload(1) != "hello" {
		t.Errorf("got %v", a)
	}
}

func TestSlowBody(t *testing.T) {
	s := newSite(t, rest.Options{BodyIdle: 50 * time.Millisecond})
	for _, text := range []string{
		bareHead, bareHead + "half", formHead, formHead + newForm().file("a", "b").end(), chunked + "5\r\nhel",
		"POST /consume/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
		"PUT /state/new HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
	} {
		c := s.dial(text)
		a := readAnswer(t, c).want(t, 408)
		want(t, text, a.exception(t), "nothing of the body came for 0.05 seconds, the most that is waited for; send the request again and do not pause so long")
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%q: connection stays open: %v", text, err)
		}
		s.wantCounts(0, 0, 0)
	}
}

// A late body comes, but not as fast as whoever stands before the Handler wants.
type late struct{}

func (late) Read(p []byte) (int, error) { return copy(p, "x"), os.ErrDeadlineExceeded }

func TestTricklingBody(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{})
	for _, path := range []string{"/content/jobs", "/consume/jobs"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", path, late{})
		r.ContentLength = 1000
		h.ServeHTTP(w, r)
		a := answer{w.Result(), w.Body.String()}
		a.Request = r
		want(t, path, a.want(t, 408).exception(t), "the body came more slowly than is waited for; send the request again over a faster connection, or with less in it")
	}
	s.wantCounts(0, 0, 0)
}

// A request that is refused before its body was read does not hold the
// connection.
func TestSlowBodyOfARefusedRequest(t *testing.T) {
	s := newSite(t, rest.Options{BodyIdle: 50 * time.Millisecond})
	c := s.dial("POST /content/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
	readAnswer(t, c).want(t, 404)
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("connection stays open: %v", err)
	}
}

// The limit is on progress, not on the whole: what comes after the body may
// take longer, and the connection lives on.
func TestBodyLimitEndsWithTheBody(t *testing.T) {
	s := newSite(t, rest.Options{BodyIdle: 20 * time.Millisecond})
	c := s.dial("POST /consume/jobs?wait=0.2 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
	readAnswer(t, c).want(t, 204)
	if _, err := fmt.Fprint(c, "GET /state HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	readAnswer(t, c).want(t, 200)
}

func TestLargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 100})
	c := s.dial("POST /content/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n")
	a := readAnswer(t, c).want(t, 413)
	if got := a.exception(t); !strings.Contains(got, "101 octets") {
		t.Errorf("got %q", got)
	}
	readAnswer(t, s.dial("POST /content/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n")).want(t, 400)
}

// Names that a client would not send reach the handler as they are.
func TestRawPaths(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, path := range []string{"/state/..", "/state/../../etc/passwd", "/content/jobs/../x", "//state", "/state/jobs/%2e%2e", "/state/%zz", "/state/\x01", "state", "*", "http://x/state/..", "/queues/jobs/payload/../../../queues.txt"} {
		a := readAnswer(t, s.dial("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
		if a.StatusCode != 400 && a.StatusCode != 404 {
			t.Errorf("%q: got %s\n%s", path, a.Status, a.body)
		}
	}
}

// A job as it is sent is a message that any reader of MIME takes apart.
func TestClientGivesMessages(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	s.submit("one\n", job.Meta{Sidecar: "a=b\nc", Filename: "x.txt", MediaType: "text/plain"})
	s.submit("", job.Meta{})
	read := func(d *client.Delivery, err error) (parts map[string]string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Body.Close()
		in := &counting{in: d.Body}
		m, err := mail.ReadMessage(bufio.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
		if err != nil || media != "multipart/form-data" || m.Header.Get("MIME-Version") != "1.0" || m.Header.Get("Content-Location") != s.url+"/content/jobs/"+d.Job {
			t.Errorf("got %v, %v", m.Header, err)
		}
		form, err := multipart.NewReader(m.Body, params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		parts = map[string]string{}
		for name, v := range form.Value {
			parts[name] = v[0]
		}
		for name, f := range form.File {
			file, err := f[0].Open()
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(file)
			parts[name] = f[0].Filename + ":" + string(text)
		}
		if _, err := io.Copy(io.Discard, in); err != nil || in.n != d.Size {
			t.Errorf("%d octets of %d, %v", in.n, d.Size, err)
		}
		return parts
	}
	whole := map[string]string{"payload": "x.txt:one\n", "sidecar": "a=b\nc"}
	want(t, "peek", read(c.PeekMessage(ctx, "jobs", "")), whole)
	want(t, "peek at a job", read(c.PeekMessage(ctx, "jobs", "j000000000002")), map[string]string{"payload": ""})
	s.wantCounts(2, 0, 0)
	want(t, "next", read(c.NextMessage(ctx, "jobs", queuefs.Take{}, 0)), whole)
	d, err := c.NextMessage(ctx, "jobs", queuefs.Take{Lease: time.Minute}, time.Second)
	if err != nil || d.Lease == "" || d.Attempt != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
	want(t, "with a lease", read(d, err), map[string]string{"payload": ""})
	if _, err := c.NextMessage(ctx, "jobs", queuefs.Take{}, 0); err != ledger.ErrEmpty {
		t.Errorf("got %v", err)
	}
}

type counting struct {
	in io.Reader
	n  int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}
