package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cutie/queuefs"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// rows answer with their paths and what they read there.
func rows() []web.Route {
	serve := func(path string) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			fmt.Fprintf(w, "%s %q %q", path, r.PathValue("queue"), r.PathValue("job"))
			return nil
		}
	}
	row := func(method, path string, need web.Need) web.Route {
		return web.Route{Method: method, Path: path, Need: need, Serve: serve(path)}
	}
	return []web.Route{
		row("GET", "/state", web.Anywhere(web.Read)),
		row("GET", "/state/{queue}", web.Here(web.Read)),
		row("PUT", "/state/{queue}", web.Here(web.Admin)),
		row("GET", "/state/{queue}/{job}", web.Here(web.Read)),
		row("GET", "/make/{queue}", web.Here(web.Submit)),
		{Method: "GET", Path: "/files/{queue}/{rest:.*}", Need: web.Here(web.Read)},
	}
}

func TestRouterFindsRows(t *testing.T) {
	rt := web.NewRouter(web.Plain, rows()...)
	for request, want := range map[string]string{
		"GET /state":            `200 /state "" ""`,
		"HEAD /state":           `200 /state "" ""`,
		"GET /state/q":          `200 /state/{queue} "q" ""`,
		"GET /state/a%2fb":      `200 /state/{queue} "a/b" ""`,
		"GET /%73tate/a%2Fb":    `200 /state/{queue} "a/b" ""`,
		"GET /state/%2e%2e":     `200 /state/{queue} ".." ""`,
		"GET /state/..":         `200 /state/{queue} ".." ""`, // the handler refuses it
		"GET /state/%00%0a":     `200 /state/{queue} "\x00\n" ""`,
		"GET /state/%ff/j":      `200 /state/{queue}/{job} "\xff" "j"`,
		"GET /state/q%20/j%3f":  `200 /state/{queue}/{job} "q " "j?"`,
		"GET /state/{queue}":    `200 /state/{queue} "{queue}" ""`,
		"GET /state%2fq":        `404 nothing here, see /help`,
		"GET /state/":           `404 nothing here, see /help`,
		"GET /state//q":         `400 path "/state//q" is not clean`,
		"GET //state":           `400 path "//state" is not clean`,
		"GET /states":           `404 nothing here, see /help`,
		"POST /state/q":         `405 method POST is not among GET, HEAD, PUT`,
		"HEAD /make/q":          `405 method HEAD is not among GET`,
		"GET /files/q/":         `404 nothing here, see /help`,
		"POST /files/q/a":       `404 nothing here, see /help`,
		"GET /state/q/j/x":      `404 nothing here, see /help`,
		"GET /state/q?x=/a/../": `200 /state/{queue} "q" ""`,
	} {
		for range 2 { // the second time from memory
			method, target, _ := strings.Cut(request, " ")
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/", nil)
			u, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = u
			rt.ServeHTTP(w, r)
			if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want {
				t.Errorf("%s: got %s, want %s", request, got, want)
			}
		}
	}
}

func TestRequestsWithoutARouteNeedAnAdministrator(t *testing.T) {
	rt := web.NewRouter(web.Plain, rows()...)
	for request, want := range map[string]web.Need{
		"GET /state/q":   web.Here(web.Read),
		"HEAD /make/q":   web.Here(web.Submit),
		"GET /files/q/x": web.Here(web.Read),
		"POST /state/q":  web.Otherwise,
		"GET /other":     web.Otherwise,
	} {
		method, target, _ := strings.Cut(request, " ")
		m := rt.Find(method, &url.URL{Path: target})
		if got := m.Need(); got != want {
			t.Errorf("%s: got %v, want %v", request, got, want)
		}
	}
	if m := rt.Find("GET", &url.URL{Path: "/make/q"}); m.Safe() {
		t.Error("a GET that makes something passes for safe")
	}
}

func TestErrorsHaveOneStatus(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		hidden bool
	}{
		{fmt.Errorf("q: %w", ledger.ErrNoQueue), 404, false},
		{fmt.Errorf("q: %w", job.ErrConflict), 409, false},
		{queuefs.ErrLease, 410, false},
		{web.ErrPrecondition, 412, false},
		{web.ErrRange, 416, false},
		{state.ErrForm, 415, false},
		{fmt.Errorf("/secret: %w", ledger.ErrNoSpace), 507, true},
		{fmt.Errorf("/secret: %w", syscall.ENOSPC), 507, true},
		{fmt.Errorf("/secret: %w", ledger.ErrFailed), 503, true},
		{errors.New("/secret"), 500, true},
		{fmt.Errorf("more: %w", web.Errorf(429, "slowly")), 429, false},
	} {
		e, hidden := web.ErrorOf(tt.err)
		if e.Status != tt.status || hidden != tt.hidden || strings.Contains(e.Message, "secret") {
			t.Errorf("%v: got %d %q, hidden %v, want %d, %v", tt.err, e.Status, e.Message, hidden, tt.status, tt.hidden)
		}
	}
	if !errors.Is(web.Errorf(404, "q: %v", ledger.ErrNoQueue), ledger.ErrNoQueue) {
		t.Error("an answer does not stand for its error")
	}
}

func TestTheFirstMatchingPathCounts(t *testing.T) {
	row := func(path string) web.Route {
		return web.Route{Method: "GET", Path: path, Serve: func(w http.ResponseWriter, r *http.Request) error {
			_, err := fmt.Fprint(w, path)
			return err
		}}
	}
	for paths, answers := range map[string]map[string]string{
		"/a/{queue} /{queue}/b /a/b": {"/a/b": "/a/{queue}", "/a/c": "/a/{queue}", "/x/b": "/{queue}/b", "/x/c": ""},
		"/{queue}/b /a/{queue} /":    {"/a/b": "/{queue}/b", "/a/c": "/a/{queue}", "/x/b": "/{queue}/b", "/": "/", "/a": ""},
		"/a/b /{any:.*}":             {"/a/b": "/a/b", "/a/c": "/{any:.*}", "/x/y/z": "/{any:.*}", "/": "/{any:.*}"},
	} {
		var rows []web.Route
		for path := range strings.FieldsSeq(paths) {
			rows = append(rows, row(path))
		}
		rt := web.NewRouter(web.Plain, rows...)
		for path, want := range answers {
			m := rt.Match(httptest.NewRequest("GET", path, nil))
			if got := m.Path(); got != want {
				t.Errorf("%s of %s: got row %q, want %q", path, paths, got, want)
			}
		}
	}
}

func TestManyRequestsAtOnceFindTheirRows(t *testing.T) {
	rt := web.NewRouter(web.Plain, rows()...)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			queue := fmt.Sprint("q", i)
			if m := rt.Find("GET", &url.URL{Path: "/state/" + queue}); m.Path() != "/state/{queue}" || m.Queue() != queue {
				t.Errorf("got %q of %q, want %q", m.Path(), m.Queue(), queue)
			}
		})
	}
	wg.Wait()
}
