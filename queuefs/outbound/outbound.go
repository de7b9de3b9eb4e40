// Package outbound makes HTTP requests to URLs that strangers name: lines of
// batch manifests, callbacks, subscribers. It keeps such a URL from reaching
// what only this machine can reach.
//
//   - Only http and https, and no user or password in the URL.
//   - Only public addresses. What counts is the address a connection is made
//     to, so a name that resolves otherwise a second time gains nothing. An
//     address in which another one is embedded (mapped IPv4, NAT64, 6to4)
//     counts as that one. Patterns allow what is private, see [Options].
//   - At most five redirects, each of them checked as the first URL is, and
//     none from https to http.
//   - No proxy, whatever the environment says, no cookies, no content coding.
//   - Every wait has a limit, and so have the headers of an answer. [Body]
//     limits what follows them.
package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// MaxRedirects is how many redirects are followed.
const MaxRedirects = 5

const maxHeader = 64 << 10 // octets of the headers of an answer

// Options are the settings of a [Client]. Zero values mean the defaults.
type Options struct {
	// Allow are patterns of what may be reached although it is not public:
	//
	//	files.example.org       a host by its name, whatever its address
	//	*.example.org           every host below a name
	//	10.1.2.3, 10.0.0.0/8    an address or a range, under any name
	//
	// each with a port behind a colon if it is for that port only. An IPv6
	// address or range stands in brackets before a port: [fd00::/8]:8080.
	Allow []string
	// Connect is the longest time until the head of an answer is there:
	// resolving, connecting, sending the request, waiting. 0: 30 s.
	Connect time.Duration
	// Idle is how long a body may make no progress; 0: 30 s.
	Idle time.Duration
	// Timeout is the longest time of all, redirects and body included; 0: no
	// limit but those above.
	Timeout time.Duration
	// Resolver looks names up; nil: that of the system.
	Resolver *net.Resolver
	// TLS is for https; nil: the defaults, with the authorities of the system.
	TLS *tls.Config
}

// ErrIdle is the error of a request that made no progress for too long.
var ErrIdle = errors.New("no progress")

// A Client makes requests. It is safe for concurrent use.
type Client struct {
	http      http.Client
	transport *http.Transport
	allow     []pattern
	connect   time.Duration
	idle      time.Duration
	dialer    net.Dialer
}

// New returns a Client. The error names the pattern that is none.
func New(o Options) (*Client, error) {
	c := &Client{
		connect: cmp.Or(o.Connect, 30*time.Second),
		idle:    cmp.Or(o.Idle, 30*time.Second),
	}
	for _, text := range o.Allow {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		c.allow = append(c.allow, p)
	}
	c.dialer = net.Dialer{Timeout: c.connect, Resolver: o.Resolver}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    c.connect,
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}
	c.http = http.Client{Transport: roundTripper{c}, CheckRedirect: checkRedirect, Timeout: o.Timeout}
	return c, nil
}

// Do sends a request and returns the answer to it or to the last redirect; its
// body is to be closed. If the URL or an address is refused, the error is a
// [*RefusedError].
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.http.Do(req) }

// HTTP returns the client as one of package net/http, for those who want that.
// It does what Do does.
func (c *Client) HTTP() *http.Client { return &c.http }

// Close lets go of connections that nobody uses.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Check returns a [*RefusedError] if no request is made for the URL, whatever
// the address of its host.
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

// numeric reports whether a host is an address in one of the spellings that
// only some resolvers know, such as 0x7f.1 or 2130706433.
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
	return Check(req.URL)
}

// dial connects to an address that is allowed; addr is as in the URL.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	d := c.dialer
	d.Control = c.control(host, port)
	return d.DialContext(ctx, network, addr)
}
