package wellknown_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"cutie/wellknown"
)

func TestPagesOfOtherOriginsMayRead(t *testing.T) {
	for _, tt := range []struct {
		allow, method, origin, asks string
		preflight                   bool
		allowed                     string
		names                       string // of the Access-Control fields, shortened
	}{
		{"*", "GET", "https://a.test", "", false, "*", "Allow-Origin Expose-Headers"},
		{"*", "HEAD", "", "", false, "*", "Allow-Origin Expose-Headers"},
		{"*", "POST", "https://a.test", "", false, "", ""},
		{"*", "OPTIONS", "https://a.test", "GET", true, "*", "Allow-Headers Allow-Methods Allow-Origin Max-Age"},
		{"*", "OPTIONS", "", "", false, "", ""},
		{"*", "OPTIONS", "https://a.test", "", false, "", ""},
		{"https://a.test", "GET", "https://a.test", "", false, "https://a.test", "Allow-Origin Expose-Headers"},
		{"https://a.test", "GET", "https://b.test", "", false, "https://a.test", "Allow-Origin Expose-Headers"},
		{"https://A.test:8443", "OPTIONS", "http://b.test", "POST", true, "https://a.test:8443", "Allow-Headers Allow-Methods Allow-Origin Max-Age"},
	} {
		c, err := wellknown.NewCORS(tt.allow)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(tt.method, "/", nil)
		for name, value := range map[string]string{"Origin": tt.origin, "Access-Control-Request-Method": tt.asks} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		h := http.Header{}
		preflight := c.Allow(h, r)
		var names []string
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if n, ok := strings.CutPrefix(name, "Access-Control-"); ok {
				names = append(names, n)
			}
		}
		if preflight != tt.preflight || h.Get("Access-Control-Allow-Origin") != tt.allowed || strings.Join(names, " ") != tt.names {
			t.Errorf("%+v: got preflight %v and %v", tt, preflight, h)
		}
		if methods := h.Get("Access-Control-Allow-Methods"); methods != "" && methods != "GET, HEAD" {
			t.Errorf("%+v: methods %s", tt, methods)
		}
		if _, ok := h["Access-Control-Allow-Credentials"]; ok {
			t.Errorf("%+v: credentials are allowed", tt)
		}
	}
}

func TestWhatIsNoOriginIsRefused(t *testing.T) {
	for _, o := range []string{"", "a.test", "https://", "https://a.test/", "https://a.test/x", "ftp://a.test", "https://u@a.test", "https://*.a.test?", "null"} {
		if _, err := wellknown.NewCORS(o); err == nil || !strings.Contains(err.Error(), "https://example.org") {
			t.Errorf("%q: got %v", o, err)
		}
	}
}

func TestRobotsAreReadAsTheyAreWritten(t *testing.T) {
	var want []string
	for i := range 20_000 {
		want = append(want, "http://source.test/"+strings.Repeat("x", i%90)+"/resourcelist.xml")
	}
	text := wellknown.Robots(want)
	got := wellknown.RobotsSitemaps(text)
	if len(text) > 500<<10 || len(text) < 499<<10 || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("%d octets with %d of %d lists", len(text), len(got), len(want))
	}
	if got := wellknown.Robots(want[:1]); got != "User-agent: *\nDisallow:\n\nSitemap: "+want[0]+"\n" {
		t.Errorf("got %q", got)
	}
}
