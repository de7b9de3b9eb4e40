package rdm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

const ownURL = "http://cutie.cdlib.org/state/ingest/j00000000000"

func submission(typ string, objects ...soif.Object) string { return headed(typ, "", objects...) }

func object(typ, url string, pairs ...string) soif.Object {
	o := soif.Object{Type: typ, URL: url}
	for i := 0; i < len(pairs); i += 2 {
		o.Add(pairs[i], pairs[i+1])
	}
	return o
}

// Objects beyond the limits of their user are rejected, the others are taken.
func TestSubmittersKeepWithinTheirLimits(t *testing.T) {
	s := newSite(t, rdm.Options{User: func(context.Context) string { return "ann" }})
	if _, err := s.svc.SetQueue(ctx, "ingest", func(i *queuefs.QueueInfo) error { i.Limits = queuefs.Limits{Active: 2, Upload: 10}; return nil }); err != nil {
		t.Fatal(err)
	}
	one := func(payload string) soif.Object { return object("DOCUMENT", "", "Payload", payload) }
	a := s.post(submission("rd-response", one("12345"), one("123456"), one("12345"), one("x")))
	if a.StatusCode != 200 || len(a.objects) != 2 {
		t.Fatalf("got %d %s", a.StatusCode, a.failure())
	}
	for name, want := range map[string]string{"Accepted": "2", "Rejected": "2",
		"Error-2": "ingest: ann has 5 octets in jobs that have not ended, and may have 10; wait for some to end, or delete some",
		"Error-4": "ingest: ann has 2 jobs that wait or are in work, and may have 2; wait for some to end, or delete some"} {
		if got := a.objects[1].Value(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if a := s.post(submission("rd-response", one("x"))); a.StatusCode != 429 {
		t.Errorf("got %d, want 429", a.StatusCode)
	}
}

func TestContentCodingsOfMessages(t *testing.T) {
	s := newSite(t, rdm.Options{MaxBody: 4000})
	for range 100 {
		s.submit(queuefs.Meta{Sidecar: strings.Repeat("a: b\n", 100)}, "x")
	}
	packed := func(text string) *bytes.Buffer {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return &b
	}
	for _, tt := range []struct {
		coding string
		body   io.Reader
		status int
		fail   string
	}{
		{"gzip", packed(submission("status-request")), 200, ""},
		{"X-GZIP", packed(submission("status-request")), 200, ""},
		{"identity", strings.NewReader(submission("status-request")), 200, ""},
		{"br", packed(""), 415, "unsupported content coding, gzip is taken"},
		{"gzip", strings.NewReader("x"), 400, "message is not what its content coding says: unexpected EOF"},
		{"gzip", packed(submission("status-request") + strings.Repeat(" ", 5000)), 413, "message has more than 4000 bytes"},
	} {
		r := httptest.NewRequest("POST", rdm.Path, tt.body)
		r.Header.Set("Content-Encoding", tt.coding)
		if a := s.do(r); a.StatusCode != tt.status || a.failure() != tt.fail {
			t.Errorf("%s: got %d %q, want %d %q", tt.coding, a.StatusCode, a.failure(), tt.status, tt.fail)
		}
	}
	plain := s.get("?type=rd-request")
	if plain.Header.Get("Content-Length") != "" || plain.urls() == "" || len(plain.objects) != 101 || plain.objects[0].Value("RDM-Response-Interpret") != "100 DOCUMENT objects" {
		t.Errorf("got %v, %d objects", plain.Header, len(plain.objects))
	}
}

// A request that is given up while the catalog is read for the first time loses nothing.
func TestCatalogIsReadOn(t *testing.T) {
	s := newSite(t, rdm.Options{})
	if a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "one"))); a.StatusCode != 200 {
		t.Fatal(a.failure())
	}
	s.h = rdm.New(s.svc, rdm.Options{Now: s.clock.now})
	gone, cancel := context.WithCancel(ctx)
	cancel()
	s.do(httptest.NewRequest("GET", rdm.Path+"?type=rd-request", nil).WithContext(gone))
	a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "two")))
	if a = s.get("?type=rd-request&view-attributes=Title"); len(a.objects) != 2 || a.objects[1].Value("Title") != "two" {
		t.Errorf("got %+v, want the description once", a.objects)
	}
}

// post sends a message with an account.
func (s *site) postWith(budget buffers.Budget, objects ...soif.Object) answer {
	s.t.Helper()
	var text []byte
	for i := range objects {
		text = objects[i].Append(text)
	}
	r := httptest.NewRequest("POST", rdm.Path, strings.NewReader(string(text)))
	r.Header.Set("Content-Type", rdm.MediaType)
	a := new(buffers.Account)
	a.Open(budget, netip.Addr{})
	defer a.Close()
	return s.do(r.WithContext(buffers.With(r.Context(), a)))
}

// A purse is a budget for one client.
type purse struct{ left int }

func (p *purse) TakeMany(_ netip.Addr, n int) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

func (p *purse) LeaveMany(_ netip.Addr, n int) { p.left += n }

// Before the right is asked, no more than a header is read.
func TestHeaderOfAMessageIsShort(t *testing.T) {
	asked := 0
	s := newSite(t, rdm.Options{Allow: func(http.Header, *http.Request, web.Right, string) error {
		asked++
		return web.Errorf(http.StatusForbidden, "no right")
	}})
	p := &purse{1 << 30}
	large := strings.Repeat("x", 70<<10)
	head := object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response", "X", large)
	if a := s.postWith(p, head); a.StatusCode != http.StatusRequestEntityTooLarge || asked != 0 {
		t.Errorf("header: got status %d, want 413", a.StatusCode)
	}
	head = object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-request")
	if a := s.postWith(p, head, object("RDMQUERY", "", "X", large)); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("query: got status %d, want 413", a.StatusCode)
	}
	head = object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	if a := s.postWith(&purse{100 << 10}, head, object("DOCUMENT", "", "X", strings.Repeat("x", 8<<20))); a.StatusCode != http.StatusForbidden || asked != 1 {
		t.Errorf("object: got status %d, want 403 before it takes memory", a.StatusCode)
	}
}

func TestObjectsTakeMemoryOneAfterTheOther(t *testing.T) {
	s := newSite(t, rdm.Options{})
	head := object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	large := object("DOCUMENT", "", "Payload", strings.Repeat("x", 1<<20))
	p := &purse{3 << 20}
	if a := s.postWith(p, head, large, large, large, large); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d, %s", a.StatusCode, a.body)
	}
	if p.left != 3<<20 {
		t.Errorf("%d bytes were given back", p.left)
	}
	if a := s.postWith(&purse{1 << 20}, head, large); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", a.StatusCode)
	}
}

// getWith asks with an account.
func (s *site) getWith(p *purse, query string) answer {
	r := httptest.NewRequest("GET", rdm.Path+query, nil)
	a := new(buffers.Account)
	a.Open(p, netip.Addr{})
	defer a.Close()
	return s.do(r.WithContext(buffers.With(r.Context(), a)))
}

func TestOrderTakesMemory(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	for left, want := range map[int]int{100: 503, 1 << 20: 200} {
		if a := s.getWith(&purse{left}, "?type=rd-request&scope=all&view-order=-Size"); a.StatusCode != want {
			t.Errorf("got status %d, want %d", a.StatusCode, want)
		}
	}
}

// What is held back of an answer counts, and without memory the answer goes out as it comes.
func TestAnswerIsHeldBackWithinTheBudget(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for range 4 {
		s.submit(queuefs.Meta{Sidecar: "a: " + strings.Repeat("long ", 1000)}, "x")
	}
	whole, streamed := s.getWith(&purse{1 << 20}, "?type=rd-request"), s.getWith(&purse{30 << 10}, "?type=rd-request")
	if whole.Header.Get("Content-Length") == "" || streamed.Header.Get("Content-Length") != "" {
		t.Errorf("got lengths %q and %q, want one and none", whole.Header.Get("Content-Length"), streamed.Header.Get("Content-Length"))
	}
	if whole.StatusCode != 200 || streamed.StatusCode != 200 || whole.body != streamed.body || len(whole.body) < 4<<10 {
		t.Errorf("got %d bytes with memory and %d without", len(whole.body), len(streamed.body))
	}
}
