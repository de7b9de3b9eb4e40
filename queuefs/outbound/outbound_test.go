package outbound_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs/outbound"
)

func newClient(t *testing.T, o outbound.Options) *outbound.Client {
	t.Helper()
	c, err := outbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// get returns the body of an answer of status 200.
func get(t *testing.T, c *outbound.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return string(data), err
}

// port returns the port of a server.
func port(s *httptest.Server) string { return s.URL[strings.LastIndexByte(s.URL, ':')+1:] }

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") }

// Strangers do not learn which names a private network knows.
func TestStrangersAreToldOneTextOfNames(t *testing.T) {
	private := &outbound.RefusedError{Host: "db.internal:80", Addr: netip.MustParseAddrPort("10.0.0.1:80"), Why: "private"}
	var want string
	for _, err := range []error{private, fmt.Errorf("get: %w", private),
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nosuch.internal", IsNotFound: true}},
		&net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53", Name: "nosuch.internal"}} {
		got := outbound.Public(err)
		if want == "" {
			want = got
		}
		if got != want || got == "" || strings.Contains(got, "internal") || strings.Contains(got, "10.0") {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	for _, err := range []error{nil, io.EOF, &net.OpError{Op: "dial", Err: io.EOF}} {
		if got := outbound.Public(err); got != "" {
			t.Errorf("%v: got %q, want no text", err, got)
		}
	}
}

func TestLoopbackIsReachedOnlyIfAllowed(t *testing.T) {
	var asked atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); hello(w, r) })
	p := port(s)
	for _, tt := range []struct {
		allow, host string
		ok          bool
	}{
		{"", "127.0.0.1", false},
		{"", "localhost", false},
		{"", "[::ffff:127.0.0.1]", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "[::ffff:7f00:1]", true},
		{"127.0.0.1:" + p, "127.0.0.1", true},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"127.0.0.0/8", "localhost", true},
		{"127.0.0.0/8:" + p, "localhost", true},
		{"10.0.0.0/8", "localhost", false},
		{"localhost", "localhost", true},
		{"LocalHost.:" + p, "localhost", true},
		{"localhost", "127.0.0.1", false},
		{"*.localhost", "localhost", false},
		{"example.org", "localhost", false},
	} {
		var allow []string
		if tt.allow != "" {
			allow = []string{tt.allow}
		}
		c := newClient(t, outbound.Options{Allow: allow})
		before := asked.Load()
		got, err := get(t, c, "http://"+tt.host+":"+p+"/")
		var refused *outbound.RefusedError
		switch {
		case tt.ok && (err != nil || got != "hello\n"):
			t.Errorf("%s, allowed %q: got %q, %v", tt.host, tt.allow, got, err)
		case !tt.ok && (!errors.As(err, &refused) || asked.Load() != before):
			t.Errorf("%s, allowed %q: got %q, %v, want it refused", tt.host, tt.allow, got, err)
		case !tt.ok && (refused.Why != "loopback" || !refused.Addr.IsValid() || strings.Contains(refused.Public(), "127.")):
			t.Errorf("%s: got %+v, in public %q", tt.host, refused, refused.Public())
		}
	}
	// What the error proposes is what works.
	_, err := get(t, newClient(t, outbound.Options{}), s.URL)
	var refused *outbound.RefusedError
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if want := "refused: 127.0.0.1:" + p + " has the address 127.0.0.1, which is loopback; the pattern 127.0.0.1:" + p + " would allow it"; refused.Error() != want {
		t.Errorf("got %q, want %q", refused, want)
	}
	if _, err := get(t, newClient(t, outbound.Options{Allow: []string{refused.Addr.String()}}), s.URL); err != nil {
		t.Error(err)
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	c := newClient(t, outbound.Options{Allow: []string{"0.0.0.0/0", "::/0"}})
	for _, tt := range []struct{ url, want string }{
		{"ftp://example.org/", "scheme is not http or https"},
		{"file:///etc/passwd", "scheme is not http or https"},
		{"gopher://127.0.0.1:25/x", "scheme is not http or https"},
		{"unix:///run/x.sock", "scheme is not http or https"},
		{"http:///x", "URL has no host"},
		{"http:opaque", "URL has no host"},
		{"http://user@example.org/", "URL has a user or a password"},
		{"http://user:pw@example.org/", "URL has a user or a password"},
		{"http://2130706433/", "host is a number"},
		{"http://0177.0.0.1/", "host is a number"},
		{"http://0x7f.1/", "host is a number"},
		{"http://0x7f000001/", "host is a number"},
		{"http://127.1/", "host is a number"},
		{"http://127.0.0.1../", ""},
		{"http://example.org:0/", "port is not a number from 1 to 65535"},
		{"http://example.org:65536/", "port is not a number from 1 to 65535"},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		var refused *outbound.RefusedError
		if err := outbound.Check(u); tt.want != "" && (!errors.As(err, &refused) || refused.Why != tt.want) {
			t.Errorf("%s: got %v, want %s", tt.url, err, tt.want)
		}
		if got, err := get(t, c, tt.url); err == nil {
			t.Errorf("%s: got %q", tt.url, got)
		}
	}
}

// Every address is refused before anything is sent to it.
func TestAddressesThatAreRefused(t *testing.T) {
	c := newClient(t, outbound.Options{Wait: 2 * time.Second})
	for addr, want := range map[string]string{
		"0.0.0.0":              "of this network",
		"10.1.2.3":             "private",
		"100.64.0.1":           "shared by a carrier",
		"169.254.169.254":      "link-local",
		"172.31.255.255":       "private",
		"192.0.0.8":            "for protocols",
		"192.0.2.1":            "for documentation",
		"192.88.99.1":          "a 6to4 relay",
		"192.168.0.1":          "private",
		"198.19.0.1":           "for benchmarks",
		"198.51.100.1":         "for documentation",
		"203.0.113.1":          "for documentation",
		"224.0.0.1":            "multicast",
		"255.255.255.255":      "reserved",
		"::":                   "unspecified",
		"::1":                  "loopback",
		"::127.0.0.1":          "reserved",
		"::ffff:10.0.0.1":      "private",
		"::ffff:0:10.0.0.1":    "reserved",
		"64:ff9b::10.0.0.1":    "private",
		"64:ff9b::169.254.0.1": "link-local",
		"64:ff9b:1::10.0.0.1":  "reserved",
		"100::1":               "reserved",
		"2001::1":              "of a Teredo tunnel",
		"2001:2::1":            "for protocols",
		"2001:db8::1":          "for documentation",
		"2002:7f00:1::1":       "loopback",
		"2002:c0a8:101::1":     "private",
		"3fff::1":              "for documentation",
		"fd00::1":              "private",
		"fe80::1%25lo":         "link-local",
		"fec0::1":              "site-local",
		"ff02::1":              "multicast",
	} {
		host := addr
		if strings.Contains(addr, ":") {
			host = "[" + addr + "]"
		}
		_, err := get(t, c, "http://"+host+":1/")
		var refused *outbound.RefusedError
		if !errors.As(err, &refused) || refused.Why != want {
			t.Errorf("%s: got %v, want %s", addr, err, want)
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for _, p := range []string{"", "*", "*.", "a b", "http://a", "a/24", "10.0.0.0/33", "a:0", "a:65536", "a:b", "a:",
		"1.2.3", "[10.0.0.1]:80", "::ffff:1.2.3.4/100", "a..b", ".a", "*.*.a", "fd00::/8:80x", "[a]:80"} {
		if _, err := outbound.New(outbound.Options{Allow: []string{p}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", p)) {
			t.Errorf("%q: got %v, want an error that names it", p, err)
		}
	}
	for _, p := range []string{"a", "*.a", "A.b.:8080", "10.0.0.0/8", "10.0.0.0/8:80", "::1", "[::1]:80", "[fd00::/8]:80", "fd00::/8"} {
		if _, err := outbound.New(outbound.Options{Allow: []string{p}}); err != nil {
			t.Error(err)
		}
	}
}

func TestRedirects(t *testing.T) {
	inner := serve(t, hello)
	var target atomic.Value
	outer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/times/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/times/%d", n-1), http.StatusFound)
		} else if err == nil {
			hello(w, r)
		} else {
			http.Redirect(w, r, target.Load().(string), http.StatusFound)
		}
	})
	c := newClient(t, outbound.Options{Allow: []string{"127.0.0.1:" + port(outer)}})
	for _, to := range []string{inner.URL, "http://localhost:" + port(inner), "http://[::ffff:127.0.0.1]:" + port(inner),
		"file:///etc/passwd", "http://u:p@127.0.0.1:" + port(outer) + "/times/0", "http://169.254.169.254/latest", "//0x7f.1:" + port(inner) + "/"} {
		target.Store(to)
		var refused *outbound.RefusedError
		if got, err := get(t, c, outer.URL+"/"); !errors.As(err, &refused) {
			t.Errorf("redirect to %s: got %q, %v, want it refused", to, got, err)
		}
	}
	if got, err := get(t, c, outer.URL+"/times/5"); err != nil || got != "hello\n" {
		t.Errorf("5 redirects: got %q, %v", got, err)
	}
	if _, err := get(t, c, outer.URL+"/times/6"); err == nil || !strings.Contains(err.Error(), "more than 5 redirects") {
		t.Errorf("6 redirects: got %v", err)
	}
	// Nor does it help to take the check of redirects away.
	plain := *c.HTTP()
	plain.CheckRedirect = nil
	target.Store(inner.URL)
	if resp, err := plain.Get(outer.URL); err == nil {
		resp.Body.Close()
		t.Error("without check of redirects: got an answer")
	}
}

func TestRedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	inner := serve(t, hello)
	outer := httptest.NewTLSServer(http.RedirectHandler(inner.URL, http.StatusFound))
	t.Cleanup(outer.Close)
	roots := outer.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c := newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}, TLS: &tls.Config{RootCAs: roots}})
	var refused *outbound.RefusedError
	if _, err := get(t, c, outer.URL); !errors.As(err, &refused) || refused.Why != "redirect from https to http" {
		t.Errorf("got %v", err)
	}
	if _, err := get(t, newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}}), outer.URL); err == nil {
		t.Error("a certificate of nobody was accepted")
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", s.URL)
	t.Setenv("http_proxy", s.URL)
	c := newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}})
	if got, err := get(t, c, "http://cutie.invalid/"); err == nil {
		t.Errorf("got %q", got)
	}
}

// A name that is public when somebody looks and private when we connect.
func TestNameThatIsReboundIsRefused(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	asked, resolver := nameServer(t, func(n int64) [4]byte {
		if n == 1 {
			return [4]byte{93, 184, 216, 34}
		}
		return [4]byte{127, 0, 0, 1}
	})
	if addrs, err := resolver.LookupHost(t.Context(), "rebind.example."); err != nil || fmt.Sprint(addrs) != "[93.184.216.34]" {
		t.Fatalf("got %v, %v", addrs, err)
	}
	c := newClient(t, outbound.Options{Resolver: resolver})
	var refused *outbound.RefusedError
	if got, err := get(t, c, "http://rebind.example.:"+port(s)+"/"); !errors.As(err, &refused) || refused.Why != "loopback" {
		t.Errorf("got %q, %v, want it refused", got, err)
	}
	if asked.Load() < 2 {
		t.Errorf("the name was looked up %d times", asked.Load())
	}
}

func TestHostsBelowANameAreAllowed(t *testing.T) {
	s := serve(t, hello)
	_, resolver := nameServer(t, func(int64) [4]byte { return [4]byte{127, 0, 0, 1} })
	c := newClient(t, outbound.Options{Resolver: resolver, Allow: []string{"*.inner.example"}})
	for host, ok := range map[string]bool{"a.inner.example.": true, "A.b.Inner.Example.": true, "inner.example.": false, "xinner.example.": false} {
		if got, err := get(t, c, "http://"+host+":"+port(s)+"/"); (err == nil) != ok {
			t.Errorf("%s: got %q, %v", host, got, err)
		}
	}
}

// nameServer answers every question for an IPv4 address; n counts them from 1.
func nameServer(t *testing.T, answer func(n int64) [4]byte) (asked *atomic.Int64, r *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			typ := buf[end+2]
			q := append([]byte(nil), buf[:end+5]...)
			q[2], q[3] = 0x84, 0 // an answer with authority, no error
			copy(q[6:12], []byte{0, 0, 0, 0, 0, 0})
			if typ == 1 && n > end {
				q[7] = 1
				a := answer(asked.Add(1))
				q = append(q, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, a[0], a[1], a[2], a[3])
			}
			conn.WriteTo(q, from)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return asked, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestWaitsHaveLimits(t *testing.T) {
	leave := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "some")
			w.(http.Flusher).Flush()
		}
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(leave) })
	for _, path := range []string{"/head", "/body"} {
		c := newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}, Wait: 50 * time.Millisecond})
		if got, err := get(t, c, s.URL+path); !errors.Is(err, outbound.ErrIdle) {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	// A deadline of the caller stays one.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/head", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}}).Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestHeadersHaveALimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	})
	if _, err := get(t, newClient(t, outbound.Options{Allow: []string{"127.0.0.1"}}), s.URL); err == nil {
		t.Error("100 kB of headers were accepted")
	}
}
