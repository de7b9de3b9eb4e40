package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// A site is the URL space of the daemon, with the rules for every request.
type site struct {
	log     zerolog.Logger
	router  *web.Router
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

// PublishedPath is where everything published is found (ResourceSync, 6.3.2).
const PublishedPath = wellknown.Path

// ServeHTTP answers one request, whatever becomes of the handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.pace.begin(w, r)
	if a.stream {
		at, _ := netip.ParseAddrPort(r.RemoteAddr)
		if !s.streams.Take(at.Addr()) {
			a.client, a.status = at.Addr().Unmap(), http.StatusServiceUnavailable
			s.note(a, r)
			panic(http.ErrAbortHandler) // an answer would be one more that nobody takes
		}
		defer s.streams.Leave(at.Addr())
	}
	defer s.finish(a, r)
	// A proxy may pass the path of the base URI on, or take it away.
	if prefix := s.names.prefix(); prefix != "" && strings.HasPrefix(r.URL.Path, prefix+"/") && (r.URL.RawPath == "" || strings.HasPrefix(r.URL.RawPath, prefix+"/")) {
		http.StripPrefix(prefix, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { s.serve(a, r) })).ServeHTTP(a, r)
		return
	}
	s.serve(a, r)
}

// serve lets a request in, and lets it wait if it may.
func (s *site) serve(a *answer, r *http.Request) {
	if s.cors != nil && s.cors.Allow(a.Header(), r) {
		a.WriteHeader(http.StatusNoContent)
		return
	}
	m := s.router.Match(r)
	a.match = m
	home := homeOf(r)
	ctx := a.context(r)
	if home == nil {
		ctx = s.names.answered(ctx, r)
	}
	caller, err := s.admit(a, r, &m, home)
	if caller != nil && caller.Name != "" {
		a.user, a.named = caller.Name, true
	}
	if e, ok := errors.AsType[*elsewhere](err); ok {
		a.Header().Set("Location", e.url)
		http.Error(a, e.Error(), http.StatusPermanentRedirect)
		return
	}
	// People without a name may log in by any link of a page that has no forms.
	if home == nil && answersPage(r) && (a.named || !s.gate.Users() || err == nil && m.Need().Right != 0) {
		ctx = web.WithMay(ctx, s.mayOf(caller))
	}
	if err != nil {
		m.Fail(a, r.WithContext(ctx), err)
		return
	}
	if s.memory != nil {
		a.memory.Open(s.memory, a.client)
		if err := a.takeStream(r); err != nil {
			m.Fail(a, r.WithContext(ctx), err)
			return
		}
	}
	if s.node != nil {
		r = r.WithContext(ctx)
	}
	leave, ok := s.node.enter(a, r, &m, home != nil)
	defer leave()
	if !ok {
		return
	}
	ctx = access.WithCaller(ctx, caller)
	if l := caller.Limits(); l != (queuefs.Limits{}) {
		ctx = quota.WithLimits(ctx, l)
	}
	if a.named {
		ctx = rest.WithUser(ctx, caller.Name)
		if by := s.gate.Standing(caller, a.Header(), m.Need(), m.Queue()); by != nil {
			ctx = web.WithStanding(ctx, by)
		}
	}
	if len(s.proxies) > 0 && a.client.IsValid() {
		ctx = rest.WithAddress(ctx, a.client.String())
	}
	if m.Route != nil && m.Route.MayWait(r) {
		early := false
		if a.client.IsValid() {
			if early = !s.crowd.Enter(a.client); !early {
				defer s.crowd.Leave(a.client)
			} else if m.Route.Waits != web.OrEarlier {
				a.Header().Set("Retry-After", "5")
				m.Fail(a, r.WithContext(ctx), &web.Error{Status: http.StatusServiceUnavailable,
					Message: fmt.Sprintf("requests of this address that wait are limited to %d", s.crowd.Max())})
				return
			}
		}
		var cancel context.CancelFunc
		ctx, cancel = web.While(ctx)
		defer cancel()
		if s.node != nil {
			ctx = web.WithWaiting(ctx, leave) // a daemon that gives the home up does not wait for it
		}
		defer context.AfterFunc(s.leaving, cancel)()
		if early {
			ctx, cancel = context.WithTimeout(ctx, earlyWait)
			defer cancel()
		}
	}
	if s.memory != nil {
		ctx = buffers.With(ctx, &a.memory)
	}
	r = r.WithContext(ctx)
	a.receive(r)
	if m.Safe() && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		a.reads = r
	}
	m.Serve(a, r)
}

// earlyWait is how long a request still waits if its client has too many waiting:
// answered at once, some clients ask again at once.
const earlyWait = time.Second

// theOwner is the caller through the socket of the home.
var theOwner = access.Local()

// homeOf returns the connection of a request through the socket of the home, nil
// for other requests.
func homeOf(r *http.Request) *connection {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.home {
		return c
	}
	return nil
}

// admit finds the caller and checks the right. home is the connection through the
// socket of the home.
func (s *site) admit(a *answer, r *http.Request, m *web.Match, home *connection) (*access.Caller, error) {
	if home != nil {
		a.user = home.login
		return theOwner, nil
	}
	a.client = s.proxies.Client(r)
	asked := r
	if !m.Safe() && r.Method != http.MethodPost {
		// A page of another site must not have it done, whatever the method says.
		asked = new(http.Request)
		*asked = *r
		asked.Method = http.MethodPost
	}
	if err := s.browser.Check(asked); err != nil {
		return nil, err
	}
	if err := s.names.check(r, m); err != nil {
		return nil, err
	}
	return s.gate.Admit(a.Header(), r, m.Need(), m.Queue(), a.client)
}

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

// finish answers for a panicking handler, and logs the request.
func (s *site) finish(a *answer, r *http.Request) {
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
	s.note(a, r)
	if p != nil {
		panic(p)
	}
}

// note logs and counts an answer.
func (s *site) note(a *answer, r *http.Request) {
	host := a.conn.hosts.of(a.client)
	if s.meter != nil {
		s.meter.request(r.Method, a.match.Path(), a.status, a.octets, time.Since(a.start))
	}
	a.entry = access.Entry{Host: host, User: a.user, Time: a.start, Method: r.Method, Target: r.RequestURI,
		Proto: r.Proto, Status: a.status, Octets: a.octets, Referer: first(r.Header["Referer"]), Agent: first(r.Header["User-Agent"])}
	s.record(&a.entry)
	if e := s.log.Debug(); e.Enabled() {
		e.Str("method", r.Method).Str("path", r.URL.Path).Int("status", a.status).Int64("octets", a.octets).
			Dur("ms", time.Since(a.start)).Str("client", host).Str("user", a.user).Msg("request")
	}
}

// first returns the first value of a header field.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

var (
	errLeaving     = errors.New("stopping")
	errUnwritten   = errors.New("files of jobs cannot be written, see the log")
	errStorage     = errors.New("storage failed, see the log")
	errStoreDenies = errors.New("the store of the home denies access, see the log; the daemon goes on by itself with valid credentials")
	errStoreAway   = errors.New("the store of the home takes no changes, see the log; the daemon goes on by itself when it does")
	errPublishing  = errors.New("publishing has stopped and goes on by itself, see the log; jobs are served")
)

// A disk is the storage of a service.
type disk interface {
	Err() error
	Full() bool
	HasSpace(bytes int64) bool
}

// ready returns why the daemon should be given no requests, in words for
// everyone.
func ready(leaving context.Context, storage disk, source interface{ Failure() error }, unwritten bool) error {
	switch {
	case leaving.Err() != nil:
		return errLeaving
	case errors.Is(storage.Err(), queuefs.ErrDenied) && errors.Is(storage.Err(), queuefs.ErrAway):
		return errStoreDenies
	case errors.Is(storage.Err(), queuefs.ErrAway):
		return errStoreAway
	case storage.Err() != nil:
		return errStorage
	case storage.Full() || !storage.HasSpace(0):
		return queuefs.ErrNoSpace
	case unwritten:
		return errUnwritten
	case source.Failure() != nil:
		return errPublishing
	}
	return nil
}
