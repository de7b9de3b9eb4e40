package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// refusedConn is the error of dialling where nobody listens.
const refusedConn = syscall.ECONNREFUSED

// transport waits for an answer without a limit: storing a large payload may take
// long, and giving up would make people submit it twice.
func transport() *http.Transport {
	dial := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Transport{DialContext: dial.DialContext, Proxy: http.ProxyFromEnvironment, ExpectContinueTimeout: 10 * time.Second}
}

// largeBody is the size from which a daemon is asked before a body is sent, so that
// the client reads a refusal instead of a closed connection.
const largeBody = 128 << 10

// expecting asks before large bodies (RFC 9110, 10.1.1).
type expecting struct{ http.RoundTripper }

func (e expecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		r = r.Clone(r.Context())
		r.Header.Set("Expect", "100-continue")
	}
	return e.RoundTripper.RoundTrip(r)
}

// A reaching transport adds a hint when nobody answers at base.
type reaching struct {
	http.RoundTripper
	base string
}

func (t reaching) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		err = withHint(err, "is a daemon running at "+t.base+"? --url or CUTIE_URL names it, cutie serve starts one")
	}
	return resp, err
}

// A bearing transport sends a token to one host, and not on to other hosts after a
// redirect.
type bearing struct {
	http.RoundTripper
	origin string // scheme and host
	token  string
}

// withToken adds the token of the environment to requests below base.
func withToken(base string, t http.RoundTripper) http.RoundTripper {
	token := os.Getenv(tokenVariable)
	u, err := url.Parse(base)
	if token == "" || err != nil {
		return t
	}
	return bearing{t, u.Scheme + "://" + u.Host, token}
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host == b.origin {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// secretHeaders are not shown. The token is added after it.
var secretHeaders = []string{"Cutie-Lease"}

// Client returns a client for a service at base that need not be a daemon of ours. It
// sends the token of the environment.
func (f *finder) Client(base string) *http.Client {
	return &http.Client{Transport: f.traced(withToken(base, http.DefaultTransport))}
}

// traced makes Debug show requests.
func (f *finder) traced(next http.RoundTripper) http.RoundTripper {
	if f.Debug == 0 {
		return next
	}
	return tracer{f, next}
}

// A tracer shows requests and answers (Cutie 0.3, 4: -D).
type tracer struct {
	*finder
	next http.RoundTripper
}

func (t tracer) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	if t.Debug > 1 {
		t.headers("> ", r.Header)
	}
	resp, err := t.next.RoundTrip(r)
	took := time.Since(start).Round(10 * time.Microsecond)
	if err != nil {
		t.Warn("%s %s: %v (%v)", r.Method, r.URL.RequestURI(), err, took)
		return nil, err
	}
	t.Warn("%s %s: %s (%v)", r.Method, r.URL.RequestURI(), resp.Status, took)
	if t.Debug > 1 {
		t.headers("< ", resp.Header)
	}
	return resp, nil
}

func (t tracer) headers(prefix string, h http.Header) {
	var lines []string
	for name, values := range h {
		if slices.Contains(secretHeaders, name) {
			values = []string{"…"}
		}
		lines = append(lines, prefix+name+": "+strings.Join(values, ", "))
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Fprintln(t.Trace, l)
	}
}

// cleanBase checks a base URI and ends it with a slash, for paths to be
// appended.
func cleanBase(uri string) (string, error) {
	const hint = "one looks like http://127.0.0.1:8080/"
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", withHint(usagef("base URI %.60q: %v", uri, err), hint)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", withHint(usagef("base URI %.60q is not an absolute http URI", uri), hint)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", usagef("base URI %.60q: only scheme, host and path have a meaning", uri)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}

// ignore returns err unless it is one of these.
func ignore(err error, these ...error) error {
	for _, e := range these {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
