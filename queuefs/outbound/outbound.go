// Package outbound makes HTTP requests to URLs named by strangers: lines of
// batch manifests, callbacks, subscribers. It keeps them from the private
// addresses around this machine.
//
//   - Only http and https, and no user or password in the URL.
//   - Only public addresses. The address of the connection counts, so a name gains
//     nothing by resolving differently a second time. An address with another one
//     embedded (mapped IPv4, NAT64, 6to4) counts as the other one. Patterns allow
//     private addresses, see [Options].
//   - At most five redirects, each checked as the first URL is, and none from
//     https to http.
//   - No proxy from the environment, no cookies, no content coding.
//   - Every wait has a limit, and so have the headers of an answer. The limit of its body
//     is for the caller to set: [net/http.MaxBytesReader].
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// MaxRedirects is how many redirects are followed.
const MaxRedirects = 5

const maxHeader = 64 << 10 // octets of the headers of an answer

// Options are the settings of a [Client]. Zero values mean the defaults.
type Options struct {
	// Allow are patterns of addresses to be reached although they are not
	// public:
	//
	//	files.example.org       a host by its name, at any address
	//	*.example.org           every host below a name
	//	10.1.2.3, 10.0.0.0/8    an address or a range, under any name
	//
	// each with a colon and a port if it is for one port only. An IPv6 address
	// or range stands in brackets before a port: [fd00::/8]:8080.
	Allow []string
	// Wait is how long a connection may take, and how long nothing may come or go on it
	// while a request is made; 0: 30 s.
	Wait time.Duration
	// Resolver looks names up; nil: the system's.
	Resolver *net.Resolver
	// TLS is for https; nil: the defaults, with the authorities of the system.
	TLS *tls.Config
}

// ErrIdle is the error of a request without progress for too long.
var ErrIdle = errors.New("no progress")

// A Client makes requests. It is safe for concurrent use.
type Client struct {
	http      http.Client
	transport *http.Transport
	addresses *Addresses
}

// New returns a Client. The error names the malformed pattern.
func New(o Options) (*Client, error) {
	addresses, err := NewAddresses(o.Allow)
	if err != nil {
		return nil, err
	}
	wait := cmp.Or(o.Wait, 30*time.Second)
	dialer := net.Dialer{Timeout: wait, Resolver: o.Resolver}
	c := &Client{addresses: addresses, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := addresses.Dial(ctx, dialer, network, addr)
			if err != nil {
				return nil, err
			}
			return &idleConn{conn, wait}, nil
		},
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    wait,
		ResponseHeaderTimeout:  2 * wait, // of headers that come by and by
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        wait,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}}
	c.http = http.Client{Transport: checked{c.transport}, CheckRedirect: checkRedirect}
	return c, nil
}

// checked makes single requests. It checks the URL again, since a caller may have replaced the
// check of redirects in the client of package net/http.
type checked struct{ *http.Transport }

func (t checked) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := Check(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.Transport.RoundTrip(req)
	if late, is := errors.AsType[net.Error](err); is && late.Timeout() && req.Context().Err() == nil && !errors.Is(err, ErrIdle) {
		err = fmt.Errorf("%w: %w", ErrIdle, err) // the limit of a connection, of TLS, or of all headers
	}
	return resp, err
}

// An idleConn fails with [ErrIdle] when nothing comes for too long after the last read began,
// or the last write.
type idleConn struct {
	net.Conn
	wait time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.wait))
	n, err := c.Conn.Read(p)
	return n, c.reason(err)
}

func (c *idleConn) Write(p []byte) (int, error) {
	c.SetDeadline(time.Now().Add(c.wait)) // the connection is read all the time, between requests too
	n, err := c.Conn.Write(p)
	return n, c.reason(err)
}

func (c *idleConn) reason(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w for %v", ErrIdle, c.wait)
	}
	return err
}

// Allow replaces the patterns of [Options]; open connections stay. After an error, for a
// malformed pattern, the former ones stay in force.
func (c *Client) Allow(texts []string) error {
	if err := c.addresses.Allow(texts); err != nil {
		return err
	}
	c.transport.CloseIdleConnections() // to hosts that are refused now
	return nil
}

// Addresses returns the addresses that the Client may connect to; Allow changes them.
func (c *Client) Addresses() *Addresses { return c.addresses }

// Do sends a request and returns the answer to it or to the last redirect; its
// body is to be closed. If the URL or an address is refused, the error is a
// [*RefusedError].
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.http.Do(req) }

// HTTP returns the client as one of package net/http, with the limits of Do.
func (c *Client) HTTP() *http.Client { return &c.http }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Check returns a [*RefusedError] if the URL is refused at any address of its
// host.
func Check(u *url.URL) error {
	refuse := func(why string) error { return &RefusedError{Host: u.Host, Why: why} }
	switch u.Scheme {
	case "http", "https":
	default:
		return refuse("scheme is not http or https")
	}
	host := u.Hostname()
	switch {
	case u.User != nil:
		return refuse("URL has a user or a password")
	case host == "":
		return refuse("URL has no host")
	case numeric(host):
		return refuse("host is a number")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("port is not a number from 1 to 65535")
		}
	}
	return nil
}

// numeric reports whether a host is an address in a spelling known to some
// resolvers only, such as 0x7f.1 or 2130706433.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || last[0] < '0' || last[0] > '9' {
		return false
	}
	if _, err := strconv.ParseUint(last, 0, 64); err != nil && strings.Trim(last, "0123456789") != "" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > MaxRedirects {
		return fmt.Errorf("more than %d redirects", MaxRedirects)
	}
	if req.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https" {
		return &RefusedError{Host: req.URL.Host, Why: "redirect from https to http"}
	}
	return nil // each request is checked by itself
}

// A RefusedError is a URL or an address closed to requests.
type RefusedError struct {
	Host string         // as in the URL, with its port
	Addr netip.AddrPort // its address; not valid if the URL alone was enough
	Why  string
}

func (e *RefusedError) Error() string {
	if !e.Addr.IsValid() {
		return fmt.Sprintf("refused: %s", e.Why)
	}
	return fmt.Sprintf("refused: %s has the address %s, which is %s; the pattern %s would allow it", e.Host, e.Addr.Addr(), e.Why, e.Addr)
}

// Public returns the part of the error meant for the stranger who named the
// URL: Error without the address.
func (e *RefusedError) Public() string {
	if !e.Addr.IsValid() {
		return e.Error()
	}
	return unreachable
}

// unreachable is the one text for names with private addresses and for unknown names:
// strangers do not learn the names of a private network.
const unreachable = "refused: the host is not known, or its address is not public and not allowed here"

// Public returns the text of an error for the stranger who named the URL, if the request
// was refused or its host was not found; else "".
func Public(err error) string {
	var refused *RefusedError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refused.Public()
	case errors.As(err, &lookup):
		return unreachable
	}
	return ""
}

// Addresses are those that may be connected to: the public ones, and those of patterns (see
// [Options]). A nil *Addresses allows the public ones. It is safe for concurrent use.
type Addresses struct{ allow atomic.Pointer[[]pattern] }

// NewAddresses returns Addresses with patterns. The error names a malformed pattern.
func NewAddresses(patterns []string) (*Addresses, error) {
	a := &Addresses{}
	if err := a.Allow(patterns); err != nil {
		return nil, err
	}
	return a, nil
}

// Allow replaces the patterns. After an error, for a malformed pattern, the former ones stay
// in force.
func (a *Addresses) Allow(texts []string) error {
	patterns := make([]pattern, len(texts))
	for i, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			return err
		}
		patterns[i] = p
	}
	a.allow.Store(&patterns)
	return nil
}

// Dial connects to addr, the host and port of a URL, if its address is allowed. Else the
// error is a [*RefusedError].
func (a *Addresses) Dial(ctx context.Context, d net.Dialer, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d.Control = func(network, address string, _ syscall.RawConn) error { // after the name is resolved, before the connection
		at, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return &RefusedError{Host: addr, Why: "no address of TCP"}
		}
		return a.check(host, port, at)
	}
	return d.DialContext(ctx, network, addr)
}

// Literal checks the host of addr where it is an address, for requests that a proxy makes:
// it resolves names by itself.
func (a *Addresses) Literal(addr string) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil
	}
	return a.check(at.Addr().String(), strconv.Itoa(int(at.Port())), at)
}

func (a *Addresses) check(host, port string, at netip.AddrPort) error {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	why := kindOf(at.Addr())
	if why == "" {
		return nil
	}
	if a != nil {
		for _, p := range *a.allow.Load() {
			if p.allows(host, at) {
				return nil
			}
		}
	}
	return &RefusedError{Host: net.JoinHostPort(host, port), Addr: at, Why: why}
}

// special are the addresses that are not public, after the IANA registries of special-purpose
// addresses (RFC 6890). The first match counts.
var special = [][2]string{
	{"of this network", "0.0.0.0/8"},
	{"private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"},
	{"shared by a carrier", "100.64.0.0/10"},
	{"loopback", "127.0.0.0/8 ::1/128"},
	{"link-local", "169.254.0.0/16 fe80::/10"},
	{"site-local", "fec0::/10"},
	{"unspecified", "::/128"},
	{"a 6to4 relay", "192.88.99.0/24"},
	{"of a Teredo tunnel", "2001::/32"},
	{"for protocols", "192.0.0.0/24 2001::/23"},
	{"for documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"},
	{"for benchmarks", "198.18.0.0/15"},
	{"multicast", "224.0.0.0/4 ff00::/8"},
	{"reserved", "240.0.0.0/4"},
}

// A zone is a range of addresses with what they are.
type zone struct {
	netip.Prefix
	why string
}

var zones = sync.OnceValue(func() (all []zone) {
	for _, s := range special {
		for prefix := range strings.FieldsSeq(s[1]) {
			all = append(all, zone{netip.MustParsePrefix(prefix), s[0]})
		}
	}
	return all
})

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
	global = netip.MustParsePrefix("2000::/3")     // all of IPv6 given out so far
)

// kindOf returns what an address is that is not public, else "".
func kindOf(a netip.Addr) string {
	a = a.Unmap()
	for _, z := range zones() {
		if z.Contains(a.WithZone("")) {
			return z.why
		}
	}
	if a.Is4() {
		return ""
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return kindOf(netip.AddrFrom4([4]byte(b[12:])))
	case sixTo4.Contains(a):
		return kindOf(netip.AddrFrom4([4]byte(b[2:6])))
	case !global.Contains(a):
		return "reserved"
	}
	return ""
}

// A pattern allows a host or a range of addresses, at all ports if port is 0.
type pattern struct {
	host   string // in lower case; with a dot before it, all hosts below it
	prefix netip.Prefix
	port   uint16
}

var errPattern = errors.New("not HOST, *.HOST, ADDRESS or ADDRESS/BITS, each with :PORT or without")

func parsePattern(text string) (p pattern, err error) {
	if p.prefix, err = parsePrefix(text); err == nil {
		return p, nil
	}
	bad := fmt.Errorf("pattern %.80q: %w", text, errPattern)
	rest := text
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		port, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if err != nil || port == 0 {
			return p, bad
		}
		rest, p.port = rest[:i], uint16(port)
	}
	inner, bracketed := strings.CutPrefix(rest, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
	}
	if p.prefix, err = parsePrefix(inner); err == nil && bracketed == p.prefix.Addr().Is6() {
		return p, nil
	}
	p.prefix = netip.Prefix{}
	host, below := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(rest, ".")), "*.")
	if len(host) > 253 || numeric(host) {
		return p, bad
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return p, bad
		}
	}
	if p.host = host; below {
		p.host = "." + host
	}
	return p, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	a, err := netip.ParseAddr(s)
	if err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err == nil && p.Addr().Is4In6() {
		return p, errPattern
	}
	return p.Masked(), err
}

func (p *pattern) allows(host string, at netip.AddrPort) bool {
	if p.port != 0 && p.port != at.Port() {
		return false
	}
	if p.prefix.IsValid() {
		return p.prefix.Contains(at.Addr().WithZone(""))
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.HasPrefix(p.host, ".") {
		return strings.HasSuffix(host, p.host) && len(host) > len(p.host)
	}
	return host == p.host
}
