package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher/rdm"
	"cutie/queuefs/rest"
	"cutie/wellknown"
)

// A site is the daemon's URL space: who answers which path, and what holds
// for every request.
type site struct {
	log       zerolog.Logger
	protocol  http.Handler    // queuefs/rest: every path not named here
	published http.Handler    // publisher
	hub       http.Handler    // nil: there is no hub
	robots    http.Handler    // nil: there is no robots.txt
	publish   http.Handler    // publishing
	cors      *wellknown.CORS // nil: pages of others read nothing
	messages  http.Handler    // publisher/rdm
	jobs      http.Handler    // queuefs/uws
	index     http.Handler
	metrics   http.Handler    // nil: there are none
	count     *requestCount   // of every request; nil: nobody counts
	healthy   func() error    // nil while the storage works
	leaving   context.Context // ends when the daemon begins to stop
	prefix    string          // path of the base URI, without a slash at its end
	pace      pace

	// refuse answers a request with an error, in the form it asks for.
	refuse  func(http.ResponseWriter, *http.Request, error)
	gate    *access.Gate    // who may do what
	browser *access.Browser // what pages of others may not do
	proxies access.Proxies  // believed what they say of their clients
	crowd   *access.Crowd   // requests that wait
	record  *access.Log     // every request
}

// PublishedPath is where everything published is found (ResourceSync, 6.3.2).
const PublishedPath = "/.well-known/resourcesync"

// ServeHTTP answers one request, whatever becomes of the handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.pace.begin(w, r)
	defer s.finish(a, r)
	// A proxy may pass the path of the base URI on, or take it away.
	if s.prefix != "" && strings.HasPrefix(r.URL.Path, s.prefix+"/") && (r.URL.RawPath == "" || strings.HasPrefix(r.URL.RawPath, s.prefix+"/")) {
		http.StripPrefix(s.prefix, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { s.serve(a, r) })).ServeHTTP(a, r)
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
	caller, err := s.admit(a, r)
	if caller != nil && caller.Name != "" {
		a.user, a.named = caller.Name, true
	}
	if err != nil {
		s.refuse(a, r, err)
		return
	}
	ctx := access.WithCaller(r.Context(), caller)
	if r.Method == http.MethodGet || r.Method == http.MethodPost { // whose answer may be a page
		ctx = rest.WithMay(ctx, mayOf(caller))
	}
	if a.named {
		ctx = rest.WithUser(ctx, caller.Name)
	}
	if len(s.proxies) > 0 && a.client.IsValid() {
		ctx = rest.WithAddress(ctx, a.client.String())
	}
	if waits(r) {
		if a.client.IsValid() {
			if !s.crowd.Enter(a.client) {
				a.Header().Set("Retry-After", "5")
				s.refuse(a, r, &rest.Error{Status: http.StatusServiceUnavailable,
					Message: fmt.Sprintf("%d requests from this address are waiting already", s.crowd.Max)})
				return
			}
			defer s.crowd.Leave(a.client)
		}
		var cancel context.CancelFunc
		if follows(r) {
			ctx, cancel = caller.While(ctx)
		} else {
			ctx, cancel = context.WithCancel(ctx)
		}
		defer cancel()
		defer context.AfterFunc(s.leaving, cancel)()
	}
	r = r.WithContext(ctx)
	a.receive(r)
	s.route(a, r)
}

// theOwner is whoever can open the socket of the home.
var theOwner = access.Local()

// admit finds out who asks and whether they may.
func (s *site) admit(a *answer, r *http.Request) (*access.Caller, error) {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.home {
		a.user = c.login
		return theOwner, nil
	}
	a.client = s.proxies.Client(r)
	if err := s.browser.Check(asChange(r)); err != nil {
		return nil, err
	}
	return s.gate.Admit(a.Header(), r, a.client)
}

// asChange returns a request as what it is to a browser: a GET that makes a job
// by UWS changes something, and no page of others may have it done.
func asChange(r *http.Request) *http.Request {
	if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/uws/") || !strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/sync") {
		return r
	}
	c := *r
	c.Method = http.MethodPost
	return &c
}

// mayOf tells what a caller would be let in with, for the forms of a page.
func mayOf(caller *access.Caller) func(method, path string) bool {
	return func(method, path string) bool {
		u, err := url.Parse(path)
		if err != nil {
			return false
		}
		rule, queue := access.RuleFor(method, u)
		return caller.May(rule.Right, queue)
	}
}

// route finds who answers. There is no cleaning and no redirect, so that a
// hostile name reaches the parser that refuses it.
func (s *site) route(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/":
		s.index.ServeHTTP(w, r)
	case path == metricsPath && s.metrics != nil:
		s.metrics.ServeHTTP(w, r)
	case path == "/favicon.ico":
		noIcon(w, r)
	case path == "/livez":
		probe(w, r, nil)
	case path == "/readyz":
		probe(w, r, s.ready())
	case path == PublishedPath || strings.HasPrefix(path, PublishedPath+"/"):
		s.inForm(s.published, w, r)
	case path == PublishingPath || strings.HasPrefix(path, PublishingPath+"/"):
		s.publish.ServeHTTP(w, r)
	case path == hubPath && s.hub != nil:
		s.hub.ServeHTTP(w, r)
	case path == "/robots.txt" && s.robots != nil:
		s.robots.ServeHTTP(w, r)
	case path == rdm.Path:
		s.messages.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/uws/"):
		s.jobs.ServeHTTP(w, r)
	case r.Header["Range"] != nil: // which net/http may refuse
		s.inForm(s.protocol, w, r)
	default:
		s.protocol.ServeHTTP(w, r)
	}
}

// waits tells whether a request may wait for something to happen. Such a
// request is let go when the daemon begins to stop; the others keep their
// context and end as if nothing was. It is said in more ways than one: in the
// query, where names may be written in escapes and, for UWS, in capitals, in
// the form that a consumer sends, and in the field Prefer, which knows no case.
func waits(r *http.Request) bool {
	switch {
	case follows(r), strings.HasPrefix(r.URL.Path, "/uws/") && strings.Contains(r.URL.Path, "/sync/"):
		return true
	case strings.HasPrefix(r.URL.Path, "/consume/") && r.ContentLength != 0 && r.Header.Get("Content-Type") != "":
		return true
	}
	for _, field := range r.Header["Prefer"] {
		if strings.Contains(strings.ToLower(field), "wait") {
			return true
		}
	}
	if r.URL.RawQuery == "" {
		return false
	}
	for name := range r.URL.Query() {
		if strings.EqualFold(name, "wait") {
			return true
		}
	}
	return false
}

// follows tells whether a request is for events, which have no end.
func follows(r *http.Request) bool {
	return r.URL.Path == "/events" || strings.HasPrefix(r.URL.Path, "/events/")
}

// finish answers for a handler that panicked, and logs the request.
func (s *site) finish(a *answer, r *http.Request) {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		s.log.Error().Str("method", r.Method).Str("path", r.URL.Path).Interface("panic", p).
			Str("stack", string(debug.Stack())).Msg("handler panicked")
		if p = nil; a.status != 0 {
			p = http.ErrAbortHandler // cut the answer, lest it pass for whole
		} else {
			http.Error(a, "internal error", http.StatusInternalServerError)
		}
	}
	if a.status == 0 {
		a.giveUp()
	}
	s.note(a, r)
	if p != nil {
		panic(p)
	}
}

// note writes down what was answered to whom.
func (s *site) note(a *answer, r *http.Request) {
	host := "localhost" // the socket of the home
	if a.client.IsValid() {
		host = a.client.String()
	}
	s.count.add(r.Method, a.status, a.octets)
	s.record.Add(&access.Entry{Host: host, User: a.user, Time: a.start, Method: r.Method, Target: r.RequestURI,
		Proto: r.Proto, Status: a.status, Octets: a.octets, Referer: r.Referer(), Agent: r.UserAgent()})
	if e := s.log.Debug(); e.Enabled() {
		e.Str("method", r.Method).Str("path", r.URL.Path).Int("status", a.status).Int64("octets", a.octets).
			Dur("ms", time.Since(a.start)).Str("client", host).Str("user", a.user).Msg("request")
	}
}

var (
	errLeaving = errors.New("stopping")
	errStorage = errors.New("storage failed, see the log")
)

// ready returns why the daemon should be given no requests, in words for
// everyone.
func (s *site) ready() error {
	switch {
	case s.leaving.Err() != nil:
		return errLeaving
	case s.healthy() != nil:
		return errStorage
	}
	return nil
}

// probe answers a supervisor or a load balancer.
func probe(w http.ResponseWriter, r *http.Request, err error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

// basePath is the path of a base URI without the slash at its end, often "".
func basePath(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Path, "/")
}
