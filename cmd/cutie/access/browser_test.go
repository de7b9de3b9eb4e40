package access_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

func TestPagesOfOthersMayNotChangeAnything(t *testing.T) {
	lax, err := access.NewBrowser("http://queue.example:8080/base/", false)
	if err != nil {
		t.Fatal(err)
	}
	strict, err := access.NewBrowser("http://queue.example:8080/base/", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, host string
		header       map[string]string
		lax, strict  int
	}{
		{"POST", "127.0.0.1:8080", nil, 0, 0},
		{"POST", "localhost:8080", map[string]string{"Origin": "http://localhost:8080"}, 0, 0},
		{"POST", "[::1]:8080", map[string]string{"Sec-Fetch-Site": "same-origin"}, 0, 0},
		{"POST", "queue.example", map[string]string{"Origin": "http://queue.example:8080"}, 0, 0},
		{"POST", "127.0.0.1:8080", map[string]string{"Origin": "http://evil.example"}, 403, 403},
		{"DELETE", "127.0.0.1:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, 403},
		{"POST", "127.0.0.1:8080", map[string]string{"Origin": "null"}, 403, 403},
		{"GET", "127.0.0.1:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, 0, 0},
		{"GET", "evil.example", nil, 0, 421},
		{"POST", "evil.example:8080", map[string]string{"Origin": "http://evil.example:8080"}, 0, 421},
		{"GET", "QUEUE.example.", nil, 0, 0},
		{"GET", "notlocalhost", nil, 0, 421},
		{"GET", "127.0.0.1.evil.example", nil, 0, 421},
	} {
		r := httptest.NewRequest(tt.method, "/content/q", nil)
		r.Host = tt.host
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		for b, want := range map[*access.Browser]int{lax: tt.lax, strict: tt.strict} {
			got := 0
			var answer *web.Error
			if errors.As(b.Check(r), &answer) {
				got = answer.Status
			}
			if got != want {
				t.Errorf("%s %s %v, strict %v: got %d, want %d", tt.method, tt.host, tt.header, b == strict, got, want)
			}
		}
	}
}

func TestAnswersAreProtected(t *testing.T) {
	const page = state.PagePolicy
	for _, tt := range []struct {
		name    string
		private bool
		header  http.Header
		want    http.Header
	}{
		{"page", false, http.Header{"Content-Type": {"application/xhtml+xml; charset=utf-8"}},
			http.Header{"Content-Type": {"application/xhtml+xml; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"},
				"Referrer-Policy": {"same-origin"}, "Content-Security-Policy": {page}}},
		{"payload that is a page", false, http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"sandbox"}},
			http.Header{"Content-Type": {"text/html"}, "X-Content-Type-Options": {"nosniff"},
				"Referrer-Policy": {"same-origin"}, "Content-Security-Policy": {"sandbox"}}},
		{"document", false, http.Header{"Content-Type": {"application/xml"}, "Cache-Control": {"public, max-age=60, immutable"}},
			http.Header{"Content-Type": {"application/xml"}, "Cache-Control": {"public, max-age=60, immutable"}, "X-Content-Type-Options": {"nosniff"}}},
		{"document for somebody", true, http.Header{"Cache-Control": {"public, max-age=60, immutable"}},
			http.Header{"Cache-Control": {"private, max-age=60, immutable"}, "X-Content-Type-Options": {"nosniff"}}},
		{"payload for somebody", true, http.Header{"Cache-Control": {"max-age=60"}},
			http.Header{"Cache-Control": {"private, max-age=60"}, "X-Content-Type-Options": {"nosniff"}}},
		{"state for somebody", true, http.Header{"Cache-Control": {"no-store"}},
			http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}},
		{"nothing said for somebody", true, http.Header{}, http.Header{"X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"private"}}},
	} {
		if access.Protect(tt.header, tt.private); !reflect.DeepEqual(tt.header, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.header, tt.want)
		}
	}
}

func TestClientIsWhatTrustedProxiesSay(t *testing.T) {
	var proxies access.Proxies
	for _, text := range []string{"10.0.0.0/8", "::1", "192.0.2.7"} {
		p, err := access.ParseProxy(text)
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, p)
	}
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33", "fe80::1%eth0"} {
		if p, err := access.ParseProxy(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, p)
		}
	}
	for _, tt := range []struct {
		from string
		said []string
		want string
	}{
		{"203.0.113.5:99", []string{"198.51.100.1"}, "203.0.113.5"}, // no proxy of ours
		{"10.1.2.3:99", nil, "10.1.2.3"},
		{"10.1.2.3:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:99", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"}, // the first is invented
		{"10.1.2.3:99", []string{"6.6.6.6", "198.51.100.1, 192.0.2.7"}, "198.51.100.1"},
		{"[::1]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"[::1]:99", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"[::ffff:10.1.2.3]:99", []string{"198.51.100.1:1234"}, "198.51.100.1"},
		{"10.1.2.3:99", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"10.1.2.3:99", []string{"10.9.9.9"}, "10.9.9.9"},
		{"@", nil, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.from, Header: http.Header{"X-Forwarded-For": tt.said}}
		if got := proxies.Client(r).String(); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.from, tt.said, got, tt.want)
		}
	}
}

func TestCrowdOfOneClientIsLimited(t *testing.T) {
	c := access.NewCrowd(2)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, want := range []bool{true, true, false} {
		if got := c.Enter(a); got != want {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
	}
	if !c.Enter(b) {
		t.Error("another client may not wait")
	}
	c.Leave(a)
	if !c.Enter(a) || c.Enter(a) {
		t.Error("one that left makes not one place")
	}
}
