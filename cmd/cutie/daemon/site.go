package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/buffers"
	"cutie/queuefs/job"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// A site is the URL space of the daemon, with the rules for every request.
type site struct {
	log     zerolog.Logger
	router  *web.Router
	handle  handler         // the first of the chain, see open
	cors    *wellknown.CORS // nil: pages of others read nothing
	meter   *meter          // of every request; nil: nobody counts
	leaving context.Context // ends when the daemon begins to stop
	names   *naming         // under which it is answered
	node    *node           // nil: the home is in its directory
	pace    pace

	// refuse answers a request with an error, in the form it asks for.
	refuse  func(http.ResponseWriter, *http.Request, error)
	gate    *access.Gate    // who may do what
	browser *access.Browser // what pages of others may not do
	proxies access.Proxies  // believed what they say of their clients
	crowd   *access.Crowd   // requests that wait
	memory  *access.Places  // bytes that requests keep in memory; nil: as many as they like
	streams *access.Places  // requests over HTTP/2, of which a connection has many at once
	record  func(*access.Entry)
}

// A handler answers a request, or does one thing for it and hands it to the next.
type handler func(a *answer, r *http.Request)

// open begins to serve the routes of a router. Each request passes these handlers, from the
// first to the last.
func (s *site) open(router *web.Router) {
	s.router, s.handle = router, s.serve
	for _, step := range slices.Backward([]func(*answer, *http.Request, handler){
		s.noted, s.placed, s.recovered, s.belowBase, s.crossOrigin, s.routed, s.addressed, s.guarded, s.rightlyNamed,
		s.admitted, s.accounted, s.described, s.owned, s.waiting,
	}) {
		next := s.handle
		s.handle = func(a *answer, r *http.Request) { step(a, r, next) }
	}
}

// ServeHTTP answers one request. Its deadlines are those of the [answer].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handle(s.pace.begin(w, r), r) }

// noted logs and counts the answer, whatever becomes of it.
func (s *site) noted(a *answer, r *http.Request, next handler) {
	defer func() {
		host := a.conn.hosts.of(a.client)
		if s.meter != nil {
			s.meter.request(r.Method, a.match.Path(), a.status, a.octets, time.Since(a.start))
		}
		a.entry = access.Entry{Host: host, User: a.user, Time: a.start, Method: r.Method, Target: r.RequestURI,
			Proto: r.Proto, Status: a.status, Octets: a.octets, Referer: r.Referer(), Agent: r.UserAgent()}
		s.record(&a.entry)
		if e := s.log.Debug(); e.Enabled() {
			e.Str("method", r.Method).Str("path", r.URL.Path).Int("status", a.status).Int64("octets", a.octets).
				Dur("ms", time.Since(a.start)).Str("client", host).Str("user", a.user).Msg("request")
		}
	}()
	next(a, r)
}

// placed limits the requests over HTTP/2 of one client.
func (s *site) placed(a *answer, r *http.Request, next handler) {
	if !a.stream {
		next(a, r)
		return
	}
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	if !s.streams.Take(at.Addr()) {
		a.client, a.status = at.Addr().Unmap(), http.StatusServiceUnavailable
		panic(http.ErrAbortHandler) // an answer would be one more that nobody takes
	}
	defer s.streams.Leave(at.Addr())
	next(a, r)
}

// recovered answers for a panicking handler, and sends what is left of the answer.
func (s *site) recovered(a *answer, r *http.Request, next handler) {
	defer func() {
		p := recover()
		a.asked.End()
		if p != nil && p != http.ErrAbortHandler {
			s.log.Error().Str("method", r.Method).Str("path", r.URL.Path).Interface("panic", p).
				Str("stack", string(debug.Stack())).Msg("handler panicked")
			if p = nil; a.status != 0 && a.head == 0 {
				p = http.ErrAbortHandler // cut the answer, lest it pass for whole
			} else {
				a.status, a.head = 0, 0
				s.refuse(a, r, &web.Error{Status: http.StatusInternalServerError})
			}
		}
		if p == nil {
			if a.end(); a.cut {
				p = http.ErrAbortHandler
			}
		}
		if a.status == 0 {
			a.giveUp()
		}
		a.memory.Close()
		if p != nil {
			panic(p)
		}
	}()
	next(a, r)
}

// belowBase takes the path of the base URI off: a proxy may pass it on, or not.
func (s *site) belowBase(a *answer, r *http.Request, next handler) {
	prefix := s.names.prefix()
	if prefix == "" || !strings.HasPrefix(r.URL.Path, prefix+"/") || r.URL.RawPath != "" && !strings.HasPrefix(r.URL.RawPath, prefix+"/") {
		next(a, r)
		return
	}
	http.StripPrefix(prefix, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { next(a, r) })).ServeHTTP(a, r)
}

// crossOrigin lets pages of other sites read, and answers their questions whether they may.
func (s *site) crossOrigin(a *answer, r *http.Request, next handler) {
	if s.cors != nil && s.cors.Allow(a.Header(), r) {
		a.WriteHeader(http.StatusNoContent)
		return
	}
	next(a, r)
}

// routed finds the route.
func (s *site) routed(a *answer, r *http.Request, next handler) {
	a.match = s.router.Match(r)
	next(a, r)
}

// addressed finds out who has sent the request, by the connection and its proxies.
func (s *site) addressed(a *answer, r *http.Request, next handler) {
	if a.conn.home {
		a.user = a.conn.login
	} else {
		a.client = s.proxies.Client(r)
	}
	next(a, r)
}

// guarded keeps pages of other sites from what they may not do.
func (s *site) guarded(a *answer, r *http.Request, next handler) {
	if !a.conn.home {
		asked := r
		if !a.match.Safe() && r.Method != http.MethodPost {
			// A page of another site must not have it done, whatever the method says.
			asked = new(http.Request)
			*asked = *r
			asked.Method = http.MethodPost
		}
		if err := s.browser.Check(asked); err != nil {
			s.fail(a, r, err)
			return
		}
	}
	next(a, r)
}

// rightlyNamed sends changes under another name than that of the base URI there.
func (s *site) rightlyNamed(a *answer, r *http.Request, next handler) {
	if !a.conn.home {
		err := s.names.check(r, &a.match)
		if e, ok := errors.AsType[*elsewhere](err); ok {
			a.Header().Set("Location", e.url)
			http.Error(a, e.Error(), http.StatusPermanentRedirect)
			return
		}
		if err != nil {
			s.fail(a, r, err)
			return
		}
	}
	next(a, r)
}

// admitted finds out who the caller is, and checks the right for the route.
func (s *site) admitted(a *answer, r *http.Request, next handler) {
	var err error
	if a.conn.home {
		a.caller = theOwner
	} else {
		a.caller, err = s.gate.Admit(a.Header(), r, a.match.Need(), a.match.Queue(), a.client)
	}
	if a.caller != nil && a.caller.Name != "" {
		a.user, a.named = a.caller.Name, true
	}
	if err != nil {
		s.fail(a, r, err)
		return
	}
	a.let = true
	next(a, r)
}

// accounted counts what the request keeps in memory.
func (s *site) accounted(a *answer, r *http.Request, next handler) {
	if s.memory != nil {
		a.memory.Open(s.memory, a.client)
		if err := a.takeStream(r); err != nil {
			s.fail(a, r, err)
			return
		}
	}
	next(a, r)
}

// described puts all that is known of the caller into the context.
func (s *site) described(a *answer, r *http.Request, next handler) {
	ctx := access.WithCaller(s.context(a, r), a.caller)
	if l := a.caller.Limits(); l != (job.Limits{}) {
		ctx = quota.WithLimits(ctx, l)
	}
	if a.named {
		ctx = rest.WithUser(ctx, a.caller.Name)
		if by := s.gate.Standing(a.caller, a.Header(), a.match.Need(), a.match.Queue()); by != nil {
			ctx = web.WithStanding(ctx, by)
		}
	}
	if len(s.proxies) > 0 && a.client.IsValid() {
		ctx = rest.WithAddress(ctx, a.client.String())
	}
	if s.memory != nil {
		ctx = buffers.With(ctx, &a.memory)
	}
	next(a, r.WithContext(ctx))
}

// owned passes changes on to the owner of a home in a store, if that is another daemon.
func (s *site) owned(a *answer, r *http.Request, next handler) {
	if s.node == nil || !changes(r, &a.match) {
		next(a, r)
		return
	}
	leave, ok := s.node.enter(a, r, &a.match, a.conn.home)
	defer leave()
	if !ok {
		return
	}
	if a.match.Route.MayWait(r) {
		// A daemon that gives the home up does not wait for those who wait.
		r = r.WithContext(web.WithWaiting(r.Context(), leave))
	}
	next(a, r)
}

// waiting lets a request wait, if there are not too many of the client, until the daemon
// stops or the caller loses the right.
func (s *site) waiting(a *answer, r *http.Request, next handler) {
	if a.match.Route == nil || !a.match.Route.MayWait(r) {
		next(a, r)
		return
	}
	early := false
	if a.client.IsValid() {
		if early = !s.crowd.Enter(a.client); !early {
			defer s.crowd.Leave(a.client)
		} else if a.match.Route.Waits != web.OrEarlier {
			a.Header().Set("Retry-After", "5")
			a.match.Fail(a, r, &web.Error{Status: http.StatusServiceUnavailable,
				Message: fmt.Sprintf("requests of this address that wait are limited to %d", s.crowd.Max())})
			return
		}
	}
	ctx, cancel := web.While(r.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	if early {
		ctx, cancel = context.WithTimeout(ctx, earlyWait)
		defer cancel()
	}
	next(a, r.WithContext(ctx))
}

// serve answers by the route.
func (s *site) serve(a *answer, r *http.Request) {
	a.receive(r)
	if a.match.Safe() && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		a.reads = r
	}
	a.match.Serve(a, r)
}

// fail answers a request that no handler has described yet with an error.
func (s *site) fail(a *answer, r *http.Request, err error) {
	a.match.Fail(a, r.WithContext(s.context(a, r)), err)
}

// context returns the context of a request, with the beginning of references in the answer
// and with the links that its page may have.
func (s *site) context(a *answer, r *http.Request) context.Context {
	ctx := a.context(r)
	if a.conn.home {
		return ctx
	}
	ctx = s.names.answered(ctx, r)
	// People without a name may log in by any link of a page that has no forms.
	if answersPage(r) && (a.named || !s.gate.Users() || a.let && a.match.Need().Right != 0) {
		ctx = web.WithMay(ctx, s.mayOf(a.caller))
	}
	return ctx
}

// earlyWait is how long a request still waits if its client has too many waiting:
// answered at once, some clients ask again at once.
const earlyWait = time.Second

// theOwner is the caller through the socket of the home.
var theOwner = access.Local()

// answersPage reports whether the answer to a request may be a page, or parts of one.
func answersPage(r *http.Request) bool {
	accept := strings.ToLower(r.Header.Get("Accept"))
	return strings.Contains(accept, "text/html") || strings.Contains(accept, "text/event-stream") || strings.Contains(r.URL.RawQuery, "html")
}

// mayOf reports which requests a caller may make, for the forms and links of a page.
// A refused caller without a name may make requests open to everyone.
func (s *site) mayOf(caller *access.Caller) func(method, path string) bool {
	if caller == nil {
		caller = &access.Caller{}
	}
	return func(method, path string) bool {
		u, err := url.Parse(path)
		if err != nil {
			return false
		}
		m := s.router.Find(method, u)
		return m.Route != nil && s.gate.Allows(caller, m.Need(), m.Queue())
	}
}

// Clients drop their credentials where a reference leads to another name of the same
// daemon, such as from localhost to 127.0.0.1. So references in an answer have the name of
// the request, unless the operator has set the base URI. Published documents have the base
// URI alone.

// A naming is the rule for requests to other names than the base URI has. nil
// answers all of them with the base URI.
type naming struct {
	base    *url.URL
	fixed   bool // the operator has set it
	direct  bool // it has the port of this daemon, so it leads here and not to a proxy
	proxies access.Proxies
	node    *url.URL // of this daemon among others with the same home, which may all have one base URI; nil: it is alone
}

// newNaming returns the rule of a daemon that listens on addr.
func newNaming(base string, fixed bool, addr net.Addr, proxies access.Proxies) (*naming, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	a, ok := addr.(*net.TCPAddr)
	return &naming{base: u, fixed: fixed, direct: ok && portOf(u) == strconv.Itoa(a.Port), proxies: proxies}, nil
}

// portOf returns the port of a base URI.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// prefix is the path of the base URI without the slash at its end, often "".
func (n *naming) prefix() string {
	if n == nil {
		return ""
	}
	return strings.TrimSuffix(n.base.Path, "/")
}

// answered returns ctx, of a request, with the beginning of references in the answer. Behind
// a listed proxy they begin with the base URI.
func (n *naming) answered(ctx context.Context, r *http.Request) context.Context {
	if n == nil || n.fixed || r.Host == "" || r.Host == n.base.Host || !isHost(r.Host) || n.proxies.Passed(r) {
		return ctx
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return web.WithBase(ctx, state.Base(scheme+r.Host))
}

// An elsewhere is the URL of a request under the base URI.
type elsewhere struct{ url string }

func (e *elsewhere) Error() string { return "send the request to " + e.url }

// check returns an error for a change under another name than the set base URI has:
// an [*elsewhere], or status 421 if the base URI leads to a proxy. A redirect could
// come back here for ever then, from a proxy without the name in Host.
func (n *naming) check(r *http.Request, m *web.Match) error {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if n == nil || !n.fixed || m.Route == nil || reads && m.Safe() || n.is(r.Host) || n.proxies.Passed(r) {
		return nil
	}
	if !n.direct {
		return web.Errorf(http.StatusMisdirectedRequest, "this service is %s: send the request there; "+
			"a proxy passes on Host, or is named in serve --trusted-proxy", n.base)
	}
	at := strings.TrimSuffix(n.base.String(), "/") + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		at += "?" + r.URL.RawQuery
	}
	return &elsewhere{at}
}

// is reports whether host is the name of the base URI, or of this daemon among others.
func (n *naming) is(host string) bool {
	return named(host, n.base) || n.node != nil && named(host, n.node)
}

// named reports whether host is the one of u. Some proxies pass it on without its port.
func named(host string, u *url.URL) bool {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	return host == "" || strings.EqualFold(name, u.Hostname()) && (port == "" || port == portOf(u))
}

// isHost reports whether a Host can begin a reference: a name or an address,
// with a port or without.
func isHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		name = h
		if strings.Contains(h, ":") {
			name = "[" + h + "]"
		}
	}
	if address, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(address, "]"))
		return err == nil && a.Is6() && a.Zone() == "" && strings.HasSuffix(address, "]")
	}
	ok := name != "" && len(name) <= 253
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	return ok
}
