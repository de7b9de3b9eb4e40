package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

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
