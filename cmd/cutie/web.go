package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// A site is the daemon's URL space: who answers which path, and what holds
// for every request.
type site struct {
	log       zerolog.Logger
	protocol  http.Handler // queuefs/rest: every path not named here
	published http.Handler // publisher
	index     http.Handler
	healthy   func() error    // nil while the storage works
	leaving   context.Context // ends when the daemon begins to stop
	prefix    string          // path of the base URI, without a slash at its end
	pace      pace
}

// publishedPath is where everything published is found (ResourceSync, 6.3.2).
const publishedPath = "/.well-known/resourcesync"

// ServeHTTP answers one request, whatever becomes of the handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.pace.begin(w, r)
	defer s.finish(a, r)
	if waits(r) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.leaving, cancel)()
		r = r.WithContext(ctx)
	}
	// A proxy may pass the path of the base URI on, or take it away.
	if s.prefix != "" && strings.HasPrefix(r.URL.Path, s.prefix+"/") {
		http.StripPrefix(s.prefix, http.HandlerFunc(s.route)).ServeHTTP(a, r)
		return
	}
	s.route(a, r)
}

// route finds who answers. There is no cleaning and no redirect, so that a
// hostile name reaches the parser that refuses it.
func (s *site) route(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/":
		s.index.ServeHTTP(w, r)
	case path == "/livez":
		probe(w, r, nil)
	case path == "/readyz":
		probe(w, r, s.ready())
	case path == publishedPath || strings.HasPrefix(path, publishedPath+"/"):
		s.published.ServeHTTP(w, r)
	default:
		s.protocol.ServeHTTP(w, r)
	}
}

// waits tells whether a request may wait for something to happen. Such a
// request is let go when the daemon begins to stop; the others keep their
// context and end as if nothing was.
func waits(r *http.Request) bool {
	return strings.Contains(r.URL.RawQuery, "wait=") || strings.Contains(r.Header.Get("Prefer"), "wait=")
}

// finish answers for a handler that panicked, and logs the request.
func (s *site) finish(a *answer, r *http.Request) {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.log.Error().Str("method", r.Method).Str("path", r.URL.Path).Interface("panic", p).
			Str("stack", string(debug.Stack())).Msg("handler panicked")
		if a.status != 0 {
			panic(http.ErrAbortHandler) // cut the answer, lest it pass for whole
		}
		http.Error(a, "internal error", http.StatusInternalServerError)
	}
	if e := s.log.Debug(); e.Enabled() {
		e.Str("method", r.Method).Str("path", r.URL.Path).Int("status", a.status).Int64("octets", a.octets).
			Dur("ms", time.Since(a.start)).Str("client", r.RemoteAddr).Msg("request")
	}
}

var errLeaving = errors.New("stopping")

func (s *site) ready() error {
	if s.leaving.Err() != nil {
		return errLeaving
	}
	return s.healthy()
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
