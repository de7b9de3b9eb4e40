// Package access admits callers, checks their rights, and logs their requests.
// It has no goroutines and no timers: the daemon calls [Gate.Reload] and
// [Log.Flush] regularly.
//
// # Users
//
// The users file is text. A line is an entry, with fields separated by blanks;
// empty lines and lines beginning with # stay as they are:
//
//	user NAME RIGHTS PASSWORD LIMITS
//	token NAME USER RIGHTS EXPIRES HASH
//
// PASSWORD is a bcrypt hash, for instance by htpasswd -B, or - for a user with
// tokens only. LIMITS, such as pending=100,active=1000, can be absent, see
// [job.Limits]. RIGHTS are described at [Rights]. Those of a token narrow the rights
// of its user; same leaves them as they are. EXPIRES is a time in UTC or never.
// HASH is the SHA-256 of the token, in hexadecimal: the file reveals neither
// passwords nor tokens. It is written as a whole, with mode 0600, and read again
// when it changes. A file with mistakes changes nothing.
//
// # Rights
//
// The route of a request names the right it takes, see [web.Route]. Rights hold for
// all queues or for one. A request about a missing queue needs the right for all
// queues, so that asking does not reveal queues. Names of queues are no secret: the
// state of the service and the Source Description list all of them, for everyone
// with the right to read one. Numbers, jobs, payloads and events need the right to
// read the queue.
//
// # Logs
//
// A [Log] is a file of lines in the Combined Log Format, see [Entry].
package access

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Caller is the sender of a request, with rights.
type Caller struct {
	Name   string // of a user of the users file; "" for one without a name
	rights Rights
	narrow Rights // of a token, where narrowed
	token  bool
	limits job.Limits

	expires time.Time // of a token; zero: never
	proof   proof
}

// Local is the caller behind a file only its owner can open, with all rights.
func Local() *Caller { return &Caller{rights: Everything} }

// May reports whether the caller has a right for a queue, by its cleaned
// identifier, or for all queues if that is "".
func (c *Caller) May(r web.Right, queue string) bool {
	return c.rights.Allow(r, queue) && (!c.token || c.narrow.Allow(r, queue))
}

// Limits returns the limits of the caller in each queue; those not set are of the
// queue.
func (c *Caller) Limits() job.Limits { return c.limits }

// mayFor reports whether the caller has the right for any queue.
func (c *Caller) mayFor(r web.Right) bool {
	if c.May(r, "") {
		return true
	}
	for _, list := range []Rights{c.rights, c.narrow} {
		for _, g := range list {
			if g.Queue != "" && c.May(r, g.Queue) {
				return true
			}
		}
	}
	return false
}

type callerKey struct{}

// WithCaller adds the caller to the context of a request.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request; without one it has no rights.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// A Stamp identifies the state of a file without reading it.
type Stamp struct {
	inode, size, modified, changed int64
}

// StampOf returns the stamp of a file. Take it before reading the file, so that a
// change in between is noticed the next time.
func StampOf(name string) (Stamp, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.changed = int64(sys.Ino), sys.Ctim.Nano()
	}
	return s, nil
}

// A Browser guards against requests by pages of strangers: a browser sends its
// credentials with them, and reaches addresses only this machine can reach.
type Browser struct {
	// Hosts, if not nil, are the names of the daemon. A stranger may point its own
	// name here (DNS rebinding); such a request has another host. Addresses and
	// localhost are always fine.
	Hosts []string
	// Proxies may send requests to any name: no browser reaches the daemon through them
	// by a name of a stranger.
	Proxies Proxies

	cross http.CrossOriginProtection
}

// NewBrowser returns the guard of a daemon with this base URI. strict refuses other
// names than its host.
func NewBrowser(base string, strict bool) (*Browser, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	b := &Browser{}
	if err := b.cross.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, err
	}
	if strict {
		b.Hosts = []string{strings.ToLower(u.Hostname())}
	}
	return b, nil
}

// Check returns a [*web.Error] of status 403 or 421 for a request by a page of
// strangers.
func (b *Browser) Check(r *http.Request) error {
	if b.Hosts != nil && !b.known(r.Host) && !b.Proxies.Passed(r) {
		return &web.Error{Status: http.StatusMisdirectedRequest,
			Message: fmt.Sprintf("host %.80q is not known here, see serve --base-uri", r.Host)}
	}
	if err := b.cross.Check(r); err != nil {
		return &web.Error{Status: http.StatusForbidden, Message: "a page of another site may not do this"}
	}
	return nil
}

func (b *Browser) known(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.Contains(b.Hosts, host)
}

var (
	noSniff    = []string{"nosniff"}
	sameOrigin = []string{"same-origin"}
	policy     = []string{state.PagePolicy} // nothing runs, and forms stay here
)

// Protect completes the headers of an answer before it begins. private keeps an
// answer to an admitted request out of shared caches.
func Protect(h http.Header, private bool) {
	if _, ok := h["X-Content-Type-Options"]; !ok {
		h["X-Content-Type-Options"] = noSniff
	}
	if v, ok := h["Content-Type"]; ok && len(v) > 0 && isPage(v[0]) {
		// Forms of a page without a referrer would have no origin either.
		h["Referrer-Policy"] = sameOrigin
		if _, ok := h["Content-Security-Policy"]; !ok {
			h["Content-Security-Policy"] = policy
		}
	}
	if private {
		h["Cache-Control"] = []string{madePrivate(h.Get("Cache-Control"))}
	}
}

func isPage(t string) bool {
	return strings.HasPrefix(t, "text/html") || strings.HasPrefix(t, "application/xhtml+xml")
}

// madePrivate turns a Cache-Control into one of a private answer.
func madePrivate(v string) string {
	switch {
	case v == "":
		return "private"
	case strings.Contains(v, "no-store"), strings.Contains(v, "private"):
		return v
	case strings.Contains(v, "public"):
		return strings.Replace(v, "public", "private", 1)
	}
	return "private, " + v
}

// Proxies are the addresses of trusted proxies.
type Proxies []netip.Prefix

// ParseProxy reads an address or a network in CIDR notation.
func ParseProxy(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%.60q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	return p.Masked(), nil
}

func (p Proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Passed reports whether a listed proxy made the connection of a request.
func (p Proxies) Passed(r *http.Request) bool {
	if len(p) == 0 {
		return false
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.trust(at.Addr().Unmap())
}

// maxHops is the most proxies of a request.
const maxHops = 20

// Client returns the address of the client: that of the connection, or if a listed
// proxy made it, the last address in X-Forwarded-For except listed proxies. A client
// may have invented the addresses before it. The zero address is a connection
// without one.
func (p Proxies) Client(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap()
	if len(p) == 0 || !p.trust(a) {
		return a
	}
	lines := r.Header.Values("X-Forwarded-For")
	rest := strings.Join(lines, ",")
	for range maxHops {
		i := strings.LastIndexByte(rest, ',')
		next, err := parseHop(strings.TrimSpace(rest[i+1:]))
		if err != nil {
			return a // nothing before it can be believed
		}
		if a = next; !p.trust(a) || i < 0 {
			return a
		}
		rest = rest[:i]
	}
	return a
}

// parseHop reads an address, with a port or without.
func parseHop(s string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr().Unmap().WithZone(""), err
}
