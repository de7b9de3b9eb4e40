package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/gorilla/mux"
)

// A Router finds the route of a request. It is safe for concurrent use.
//
// The rows of each first segment of a path are a subrouter of gorilla/mux, whose expressions
// are compiled when the first such path comes: a command needs few of them.
type Router struct {
	mux  *mux.Router
	fail func(http.ResponseWriter, *http.Request, error)
}

// A Route is one row of the table.
type Route struct {
	Method string // GET also answers HEAD, unless the route changes something
	Path   string // for gorilla/mux, as in /state/{queue}/{job}; queue names a queue
	Need   Need
	Waits  Waits
	Help   *Help // nil: there is no help
	// Serve answers a request. After an error it has written nothing. nil: 404
	// for users with the right of the row.
	Serve func(http.ResponseWriter, *http.Request) error
	// Fail answers a request with an error, in the words of the room; nil: the
	// router's.
	Fail func(http.ResponseWriter, *http.Request, error)
}

// Changes reports whether the route changes something although its method is
// GET. Browsers must not be led there by pages of other sites.
func (t *Route) Changes() bool {
	return t.Method == http.MethodGet && t.Need.Right > Read && t.Need.Right < Admin
}

// MayWait reports whether a request to this route may wait. The parameter has
// several names: in the query any case and escape, in the form of a consumer,
// and in the field Prefer, where case does not count.
func (t *Route) MayWait(r *http.Request) bool {
	switch {
	case t.Waits != IfAsked && t.Waits != OrEarlier:
		return t.Waits > OrEarlier
	case t.Method == http.MethodPost && r.ContentLength != 0 && r.Header.Get("Content-Type") != "":
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

// NewRouter returns a router over rows. The first row with the path and the method counts.
// fail answers errors of rows without a Fail of their own, and requests without a route.
func NewRouter(fail func(http.ResponseWriter, *http.Request, error), rows ...Route) *Router {
	rt := &Router{mux: mux.NewRouter(), fail: fail}
	below := map[string][]*Route{}
	for _, row := range rows {
		if row.Fail == nil {
			row.Fail = fail
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(row.Path, "/"), "/")
		if strings.Contains(first, "{") {
			add(rt.mux, &row)
			continue
		}
		if below[first] == nil {
			var sub *mux.Router
			var compile sync.Once
			prefix := "/" + first
			sub = rt.mux.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool {
				rest, ok := strings.CutPrefix(r.URL.Path, prefix)
				if ok = ok && (rest == "" || rest[0] == '/'); ok {
					compile.Do(func() {
						for _, row := range below[first] {
							add(sub, row)
						}
					})
				}
				return ok
			}).Subrouter()
		}
		below[first] = append(below[first], &row)
	}
	return rt
}

// add adds a row to a router. Comparing the number of segments spares most expressions.
func add(to *mux.Router, row *Route) {
	methods := []string{row.Method}
	if row.Method == http.MethodGet {
		methods = append(methods, http.MethodHead)
	}
	route := to.Methods(methods...)
	if !strings.Contains(row.Path, ".*") {
		n := strings.Count(row.Path, "/")
		route.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return strings.Count(r.URL.Path, "/") == n })
	}
	route.Path(row.Path).Handler(row)
}

// A question is what gorilla/mux is asked, and its answer. They are used again: each request
// has one.
type question struct {
	request http.Request
	url     url.URL
	answer  mux.RouteMatch
}

var questions = sync.Pool{New: func() any { return new(question) }}

// find returns the row of a canonical path, and the names in it; nil if there is none.
func (rt *Router) find(method, path string) (*Route, map[string]string) {
	q := questions.Get().(*question)
	defer questions.Put(q)
	q.url, q.answer = url.URL{Path: path}, mux.RouteMatch{}
	q.request = http.Request{Method: method, URL: &q.url}
	if !rt.mux.Match(&q.request, &q.answer) {
		return nil, nil
	}
	vars := q.answer.Vars
	for name, value := range vars {
		if strings.Contains(value, "%") {
			vars[name], _ = url.PathUnescape(value) // canonical has escaped it
		}
	}
	return q.answer.Handler.(*Route), vars
}

// A Match is the result of routing a request.
type Match struct {
	Route *Route            // nil: there is none
	Vars  map[string]string // in the path; not to be changed
	need  Need
	known bool     // there are rows of the path
	allow []string // methods of these rows, if there is no route for that of the request
	fail  func(http.ResponseWriter, *http.Request, error)
}

// Match finds the route of a request. A path is taken apart first and unescaped
// then, so %2f is part of a name. Nothing is cleaned and nothing redirected:
// hostile names reach the parsers, which refuse them.
func (rt *Router) Match(r *http.Request) Match { return rt.Find(r.Method, r.URL) }

// ServeHTTP answers a request that was matched with the route.
func (t *Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := error(NotHere)
	if t.Serve != nil {
		err = t.Serve(w, r)
	}
	if err == nil {
		return
	}
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) {
		if gone := Still(r.Context()); gone != nil {
			err = gone
		}
	}
	t.Fail(w, r, err)
}

// methods are those of all rows, and HEAD, in the order of the field Allow.
var methods = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut}

// Find is Match for a method and a URL.
func (rt *Router) Find(method string, u *url.URL) Match {
	path := canonical(u)
	m := Match{need: Otherwise, fail: rt.fail}
	row, vars := rt.find(method, path)
	if row != nil {
		m.known, m.Vars, m.need, m.fail = true, vars, row.Need, row.Fail
		if method != http.MethodHead || !row.Changes() {
			m.Route = row
			return m
		}
	}
	for _, other := range methods {
		row, vars := rt.find(other, path)
		if row == nil {
			continue
		}
		if m.known, m.Vars, m.fail = true, vars, row.Fail; row.Serve != nil && (other != http.MethodHead || !row.Changes()) {
			m.allow = append(m.allow, other)
		}
	}
	return m
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
func (m *Match) Fail(w http.ResponseWriter, r *http.Request, err error) { m.fail(w, r, err) }

// Serve answers the request, with an error if there is no route.
func (m *Match) Serve(w http.ResponseWriter, r *http.Request) {
	for name, value := range m.Vars {
		r.SetPathValue(name, value)
	}
	switch {
	case m.Route != nil:
		m.Route.ServeHTTP(w, r)
	case len(m.allow) > 0:
		allow := strings.Join(m.allow, ", ")
		w.Header().Set("Allow", allow)
		m.Fail(w, r, Errorf(http.StatusMethodNotAllowed, "method %s is not among %s", r.Method, allow))
	case !m.known && !Clean(r.URL):
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
