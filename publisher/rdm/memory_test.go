package rdm_test

import (
	"fmt"
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

func thing(typ string, pairs ...string) soif.Object {
	o := soif.Object{Type: typ}
	for i := 0; i < len(pairs); i += 2 {
		o.Add(pairs[i], pairs[i+1])
	}
	return o
}

// Before the right is asked, no more than a header is read.
func TestHeaderOfAMessageIsShort(t *testing.T) {
	asked := 0
	s := newSite(t, rdm.Options{Allow: func(http.Header, *http.Request, web.Right, string) error {
		asked++
		return web.Errorf(http.StatusForbidden, "no right")
	}})
	p := &purse{1 << 30}
	large := strings.Repeat("x", 70<<10)
	for name, head := range map[string]soif.Object{
		"header": thing("RDMHEADER", "RDM-Version", "1.0", "RDM-Type", "rd-response", "X", large),
	} {
		if a := s.postWith(p, head); a.StatusCode != http.StatusRequestEntityTooLarge || asked != 0 {
			t.Errorf("%s: got status %d, want 413", name, a.StatusCode)
		}
	}
	head := thing("RDMHEADER", "RDM-Version", "1.0", "RDM-Type", "rd-request")
	if a := s.postWith(p, head, thing("RDMQUERY", "X", large)); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("query: got status %d, want 413", a.StatusCode)
	}
	head = thing("RDMHEADER", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	if a := s.postWith(&purse{100 << 10}, head, thing("DOCUMENT", "X", strings.Repeat("x", 8<<20))); a.StatusCode != http.StatusForbidden || asked != 1 {
		t.Errorf("object: got status %d, want 403 before it takes memory", a.StatusCode)
	}
}

func TestObjectsTakeMemoryOneAfterTheOther(t *testing.T) {
	s := newSite(t, rdm.Options{})
	head := thing("RDMHEADER", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	large := thing("DOCUMENT", "Payload", strings.Repeat("x", 1<<20))
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

func TestOrderTakesMemory(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	ask := func(p *purse) int {
		r := httptest.NewRequest("GET", rdm.Path+"?type=rd-request&scope=all&view-order=-Size", nil)
		a := new(buffers.Account)
		a.Open(p, netip.Addr{})
		return s.do(r.WithContext(buffers.With(r.Context(), a))).StatusCode
	}
	if got := fmt.Sprint(ask(&purse{100}), ask(&purse{1 << 20})); got != "503 200" {
		t.Errorf("got status %s, want 503 and 200", got)
	}
}

// What is held back of an answer counts, and without memory the answer goes out as it comes.
func TestAnswerIsHeldBackWithinTheBudget(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for range 4 {
		s.submit(queuefs.Meta{Sidecar: "a: " + strings.Repeat("long ", 1000)}, "x")
	}
	ask := func(p *purse) answer {
		r := httptest.NewRequest("GET", rdm.Path+"?type=rd-request&scope=all", nil)
		a := new(buffers.Account)
		a.Open(p, netip.Addr{})
		defer a.Close()
		return s.do(r.WithContext(buffers.With(r.Context(), a)))
	}
	whole, streamed := ask(&purse{1 << 20}), ask(&purse{60 << 10})
	if whole.Header.Get("Content-Length") == "" || streamed.Header.Get("Content-Length") != "" {
		t.Errorf("got lengths %q and %q, want one and none", whole.Header.Get("Content-Length"), streamed.Header.Get("Content-Length"))
	}
	if whole.StatusCode != 200 || streamed.StatusCode != 200 || whole.body != streamed.body || len(whole.body) < 4<<10 {
		t.Errorf("got %d octets with memory and %d without", len(whole.body), len(streamed.body))
	}
}
