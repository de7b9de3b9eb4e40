package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/rest"
)

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
