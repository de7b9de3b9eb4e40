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
	"net/url"
	"os"
	"strconv"
	"strings"
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
	return t.Transport.RoundTrip(req)
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
	return Check(req.URL)
}
