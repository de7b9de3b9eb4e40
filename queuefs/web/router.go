package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gorilla/mux"
)

// A Router finds the route of a request. It is safe for concurrent use.
type Router struct {
	branches map[string]*branch // by the first segment of a path
	others   *branch            // of other first segments
	fail     func(http.ResponseWriter, *http.Request, error)

	// Clients repeat paths such as /content/jobs. Paths with no name but that of
	// a queue are matched once.
	known  sync.Map // canonical path to *place
	places atomic.Int32
}

const maxPlaces = 4096

// A place is the result of matching a path.
type place struct {
	found *resource // nil: no row has the path
	vars  map[string]string
}

// A resource is the rows of one path.
type resource struct {
	rows  []*Route
	allow string
}

// ServeHTTP is never called: a resource is a handler to be found by mux.
func (*resource) ServeHTTP(http.ResponseWriter, *http.Request) {}

// A branch matches paths with one first segment. It is made for the first of them, because
// mux compiles an expression for each row.
type branch struct {
	rows []*Route
	once sync.Once
	mux  *mux.Router
}

// NewRouter returns a router over rows. The first matching path counts. fail
// answers errors of rows without a Fail of their own, and requests without a
// route.
func NewRouter(fail func(http.ResponseWriter, *http.Request, error), rows ...Route) *Router {
	rt := &Router{branches: map[string]*branch{}, others: &branch{}, fail: fail}
	for i := range rows {
		if first := firstSegment(rows[i].Path); !strings.Contains(first, "{") {
			rt.branches[first] = &branch{}
		}
	}
	for i := range rows {
		row := &rows[i]
		if b := rt.branches[firstSegment(row.Path)]; b != nil {
			b.rows = append(b.rows, row)
			continue
		}
		for _, b := range rt.branches {
			b.rows = append(b.rows, row)
		}
		rt.others.rows = append(rt.others.rows, row)
	}
	return rt
}

func firstSegment(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}

// branch returns the branch of a canonical path.
func (rt *Router) branch(path string) *branch {
	b := rt.branches[firstSegment(path)]
	if b == nil {
		b = rt.others
	}
	b.once.Do(b.make)
	return b
}

func (b *branch) make() {
	b.mux = mux.NewRouter()
	of := map[string]*resource{}
	for _, row := range b.rows {
		at := of[row.Path]
		if at == nil {
			at = &resource{}
			of[row.Path] = at
			b.mux.Handle(row.Path, at)
		}
		at.rows = append(at.rows, row)
	}
	for _, at := range of {
		var names []string
		for _, row := range at.rows {
			if names = append(names, row.Method); row.Method == http.MethodGet && !row.Changes() {
				names = append(names, http.MethodHead)
			}
		}
		slices.Sort(names)
		at.allow = strings.Join(names, ", ")
	}
}

// A Match is the result of routing a request.
type Match struct {
	Route *Route            // nil: there is none
	Vars  map[string]string // in the path; not to be changed
	need  Need
	found *resource // nil: no row has the path
	rt    *Router
}

// Match finds the route of a request. A path is taken apart first and unescaped
// then, so %2f is part of a name. Nothing is cleaned and nothing redirected:
// hostile names reach the parsers, which refuse them.
func (rt *Router) Match(r *http.Request) Match { return rt.Find(r.Method, r.URL) }

// Find is Match for a method and a URL.
func (rt *Router) Find(method string, u *url.URL) Match {
	at := rt.place(canonical(u))
	m := Match{rt: rt, need: Otherwise, found: at.found, Vars: at.vars}
	if at.found == nil {
		return m
	}
	head := method == http.MethodHead
	if head {
		method = http.MethodGet
	}
	for _, row := range m.found.rows {
		if row.Method == method {
			if m.need = row.Need; !head || !row.Changes() {
				m.Route = row
			}
			break
		}
	}
	return m
}

// place matches a canonical path.
func (rt *Router) place(path string) *place {
	if at, ok := rt.known.Load(path); ok {
		return at.(*place)
	}
	var match mux.RouteMatch
	at := &place{}
	if rt.branch(path).mux.Match(&http.Request{URL: &url.URL{Path: path}}, &match) {
		at.found, at.vars = match.Handler.(*resource), match.Vars
		for name, value := range at.vars {
			at.vars[name], _ = url.PathUnescape(value) // canonical has escaped it
		}
	}
	if at.found != nil && (len(at.vars) == 0 || len(at.vars) == 1 && at.vars["queue"] != "") && rt.places.Load() < maxPlaces {
		rt.places.Add(1)
		rt.known.Store(path, at)
	}
	return at
}

// canonical returns the path with each segment escaped in one way, for mux.
func canonical(u *url.URL) string {
	if u.RawPath == "" {
		return u.EscapedPath()
	}
	segments := strings.Split(u.EscapedPath(), "/")
	for i, s := range segments {
		if name, err := url.PathUnescape(s); err == nil {
			segments[i] = url.PathEscape(name)
		}
	}
	return strings.Join(segments, "/")
}

// Need returns the right for the request.
func (m *Match) Need() Need { return m.need }

// Safe reports whether a page of another site may cause the request, if its
// method is one to read.
func (m *Match) Safe() bool { return m.Route != nil && m.Route.Serve != nil && !m.Route.Changes() }

// Path returns the path of the row, "" if there is none.
func (m *Match) Path() string {
	if m.Route == nil {
		return ""
	}
	return m.Route.Path
}

// Queue returns the name of the queue in the path, "" if there is none.
func (m *Match) Queue() string { return m.Vars["queue"] }

// Fail answers the request with an error, in the words of the room that has the
// path.
func (m *Match) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if m.found != nil && m.found.rows[0].Fail != nil {
		m.found.rows[0].Fail(w, r, err)
		return
	}
	m.rt.fail(w, r, err)
}

// Serve answers the request, with an error if there is no route.
func (m *Match) Serve(w http.ResponseWriter, r *http.Request) {
	for name, value := range m.Vars {
		r.SetPathValue(name, value)
	}
	switch {
	case m.Route != nil && m.Route.Serve != nil:
		if err := m.Route.Serve(w, r); err != nil {
			if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
				if gone := Still(r.Context()); gone != nil {
					err = gone
				}
			}
			m.Fail(w, r, err)
		}
	case m.found != nil && m.found.rows[0].Serve != nil:
		w.Header().Set("Allow", m.found.allow)
		m.Fail(w, r, Errorf(http.StatusMethodNotAllowed, "method %s is not among %s", r.Method, m.found.allow))
	case m.found == nil && !Clean(r.URL):
		m.Fail(w, r, Errorf(http.StatusBadRequest, "path %.80q is not clean", r.URL.EscapedPath()))
	default:
		m.Fail(w, r, NotHere)
	}
}

// NotHere is the error of a path without a route.
var NotHere = Errorf(http.StatusNotFound, "nothing here, see /help")

// Clean reports whether a path has no empty segments and no dots.
func Clean(u *url.URL) bool {
	p := u.EscapedPath()
	trimmed := strings.TrimSuffix(p, "/")
	return trimmed == "" || p[0] == '/' && path.Clean(trimmed) == trimmed
}

// ServeHTTP finds the route of a request and serves it, for a room alone: the
// daemon checks the right first.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := rt.Match(r)
	m.Serve(w, r)
}
