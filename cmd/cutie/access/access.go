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
//
// This file has what every request passes: its address, the pages of other sites, the right
// for its route. credentials.go compares passwords and tokens, users.go reads and writes the
// users file.
package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// Allow reports whether a right for a queue is among r; "" is all queues.
func (r Rights) Allow(right web.Right, queue string) bool {
	for _, g := range r {
		if (g.Right == right || g.Right == web.Admin) && (g.Queue == "" || g.Queue == queue) {
			return true
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

// Options are the settings of a [Gate].
type Options struct {
	Users     string     // users file; "" if nobody has a name
	Anonymous Rights     // without a name
	Limits    job.Limits // of all requests without a name together
	// Queue returns the cleaned identifier of the queue in a path.
	Queue func(name string) (id string, ok bool)
	// Report is called after the users file was read, with the number of users.
	// wide is true if others than its owner may read or write it. nil: no call.
	Report func(users int, wide bool)
	Now    func() time.Time // nil means time.Now
}

// A Gate admits requests. It is safe for concurrent use.
type Gate struct {
	o        Options
	nameless *Caller       // everyone without a name
	key      [32]byte      // of the hashes of verified passwords
	hashes   *fairQueue    // of passwords to be compared
	kept     chan struct{} // a place of those who were right before
	wrong    *logins       // tries of passwords
	book     atomic.Pointer[book]

	met sync.Mutex
	own map[login]bool // were right before

	reading sync.Mutex
	stamp   Stamp
}

// New returns a Gate. It fails if the users file cannot be read.
func New(o Options) (*Gate, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gate{o: o, nameless: &Caller{rights: o.Anonymous, limits: o.Limits}, hashes: newFairQueue(hashesAtOnce, hashesQueued), kept: make(chan struct{}, 1),
		wrong: newLogins(), own: map[login]bool{}}
	rand.Read(g.key[:])
	return g, g.Reload()
}

// Admit decides about a request with a right for the queue in its path. The error is
// a [*web.Error] of status 401, 403, 429 or 503, and its header fields are added to
// header. With 403 the caller is returned too.
func (g *Gate) Admit(header http.Header, r *http.Request, need web.Need, queue string, client netip.Addr) (*Caller, error) {
	caller := g.nameless
	b := g.book.Load()
	if b == nil && caller.May(web.Admin, "") {
		return caller, nil
	}
	if need.Right == 0 {
		if b != nil {
			caller = cmp.Or(g.recognized(b, r), caller)
		}
		return caller, nil
	}
	if auth := r.Header.Get("Authorization"); b != nil && auth != "" && !nobody(r) {
		var err error
		if caller, err = g.identify(header, b, r, client); err != nil {
			return nil, err
		}
	}
	if g.Allows(caller, need, queue) {
		return caller, nil
	}
	err := g.refuse(header, caller, need)
	if caller.Name == "" && b != nil {
		caller = nil
	}
	return caller, err
}

// Users reports whether there are users: a caller without a name may give one.
func (g *Gate) Users() bool { return g.book.Load() != nil }

// Require is for rights known only to the handler of a request: for a queue, by its
// cleaned identifier, or for all queues if that is "". The caller is in the context
// of the request, see [WithCaller]; errors are those of Admit.
func (g *Gate) Require(header http.Header, r *http.Request, right web.Right, queue string) error {
	caller := CallerOf(r.Context())
	if caller.May(right, queue) {
		return nil
	}
	need := web.Here(right)
	if queue == "" {
		need = web.Everywhere(right)
	}
	return g.refuse(header, caller, need)
}

// Allows reports whether a caller has a right for the queue of that name.
func (g *Gate) Allows(c *Caller, need web.Need, name string) bool {
	if need.Right == 0 {
		return true
	}
	switch need.Of {
	case web.Some:
		return c.mayFor(need.Right)
	case web.Every:
		return c.May(need.Right, "")
	case web.Body, web.Nothing:
		return c.mayFor(web.Read) || c.mayFor(web.Submit) || c.mayFor(web.Consume) || c.mayFor(web.Delete)
	}
	id, ok := g.o.Queue(name)
	if !ok {
		id = ""
	}
	if need.Of == web.Use {
		return c.May(web.Read, id) || c.May(web.Submit, id) || c.May(web.Consume, id) || c.May(web.Delete, id)
	}
	return c.May(need.Right, id) || need.Of == web.Own && c.May(web.Submit, id)
}

// refuse is the error for a caller without a right.
func (g *Gate) refuse(header http.Header, caller *Caller, need web.Need) error {
	switch {
	case caller.Name != "":
		return &web.Error{Status: http.StatusForbidden, Message: fmt.Sprintf("%s has no right to %s", caller.Name, textOf(need))}
	case g.book.Load() == nil:
		return &web.Error{Status: http.StatusForbidden, Message: "nobody has the right to " + textOf(need) + " over the network"}
	}
	return challenge(header, "", "a name and password or a token is needed to "+textOf(need))
}

// textOf names the object of a need, after "right to".
func textOf(n web.Need) string {
	switch n.Of {
	case web.Nothing:
		return "use this service"
	case web.Use:
		return "use this queue"
	case web.Named, web.Own:
		return n.Right.String() + " here"
	case web.Every:
		return n.Right.String() + " all queues"
	}
	return n.Right.String() + " any queue"
}

// challenge is the error for a caller who may try again with credentials (RFC 7617,
// RFC 6750).
func challenge(header http.Header, bearer, why string) error {
	header["Www-Authenticate"] = []string{`Basic realm="cutie", charset="UTF-8"`, `Bearer realm="cutie"` + bearer}
	return &web.Error{Status: http.StatusUnauthorized, Message: why}
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
