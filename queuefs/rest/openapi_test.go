package rest_test

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs/rest"
)

// An apiDocument is the description of the service by OpenAPI.
type apiDocument struct {
	Paths map[string]map[string]*apiOperation `json:"paths"`
}

type apiOperation struct {
	Parameters []struct {
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
	Description string `json:"description"`
	Responses   map[string]struct {
		Content map[string]json.RawMessage `json:"content"`
	} `json:"responses"`
}

// described is the document, read once. It does not depend on the service.
var described = sync.OnceValues(func() (text []byte, err error) {
	w := httptest.NewRecorder()
	rest.New(nil, rest.Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	return w.Body.Bytes(), nil
})

var documentOf = sync.OnceValue(func() (d apiDocument) {
	text, err := described()
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
})

// find returns the operation of a request, nil for paths that are none.
func (d apiDocument) find(method, path string) *apiOperation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	best, found := -1, (*apiOperation)(nil)
	for template, operations := range d.Paths {
		op := operations[strings.ToLower(method)]
		fixed, fits := match(template, path)
		if op != nil && fits && fixed > best {
			best, found = fixed, op
		}
	}
	return found
}

// match reports whether a path is one of a template, and how many words of it are fixed.
func match(template, path string) (fixed int, fits bool) {
	a, b := strings.Split(template, "/"), strings.Split(path, "/")
	if len(a) != len(b) {
		return 0, false
	}
	for i := range a {
		switch {
		case a[i] == b[i]:
			fixed++
		case !strings.HasPrefix(a[i], "{") || b[i] == "":
			return 0, false
		}
	}
	return fixed, true
}

// Each answer of the tests of this package has a status and a media type that the
// description names.
func checkDescribed(t testing.TB, req *http.Request, status int, header http.Header) {
	t.Helper()
	op := documentOf().find(req.Method, req.URL.EscapedPath())
	if op == nil || req.URL.Query().Has("h") || req.URL.Query().Has("V") {
		return
	}
	answer, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		t.Errorf("%s %s: the description has no status %d", req.Method, req.URL, status)
		return
	}
	full := header.Get("Content-Type")
	media, _, _ := mime.ParseMediaType(full)
	if full == "" || len(answer.Content) == 0 && status == http.StatusNotModified {
		return
	}
	_, named := answer.Content[media]
	if _, any := answer.Content["*/*"]; !named && !any {
		t.Errorf("%s %s: the description has no media type %q of status %d", req.Method, req.URL, full, status)
	}
}

// Every parameter and status in the texts of help is in the description, and every
// parameter there is known to its method.
func TestTheDescriptionHasAllParameters(t *testing.T) {
	s := newSite(t, rest.Options{})
	inHelp := regexp.MustCompile(`[?&\[]([a-z][a-z-]+|S|retryIn)[=|\]]`)
	for _, route := range rest.New(s.svc, rest.Options{}).Routes() {
		if route.Serve == nil {
			continue
		}
		path := regexp.MustCompile(`:[^}]*\}`).ReplaceAllString(route.Path, "}")
		op := documentOf().Paths[path][strings.ToLower(route.Method)]
		if op == nil {
			t.Fatalf("%s %s is not in the description", route.Method, route.Path)
		}
		var named []string
		for _, p := range op.Parameters {
			if p.In != "query" {
				continue
			}
			named = append(named, p.Name)
			target := strings.NewReplacer("{queue}", "jobs", "{job}", "j000000000099", "{name}", "n", "{file}", "queue.xsd", "{batch}", "b1", "{method}", "put", "{dir}", "pending").Replace(path)
			if route.Waits != 0 && strings.HasPrefix(path, "/events") {
				continue // it would never end; the test of events has its parameters
			}
			a := s.do(route.Method, target+"?"+p.Name+"=%00bad", "")
			if strings.Contains(a.body, "not known here") {
				t.Errorf("%s %s: %s is not known to the service", route.Method, path, p.Name)
			}
		}
		request := route.Help.Request
		if !strings.HasPrefix(request, route.Method+" ") || strings.Contains(path, "/queues/") || strings.Contains(path, "schema") {
			continue // the text is about another route of the method
		}
		for _, m := range inHelp.FindAllStringSubmatch(request, -1) {
			if !slices.Contains(named, m[1]) && m[1] != "pending" {
				t.Errorf("%s %s: help has the parameter %s, the description has %q", route.Method, path, m[1], named)
			}
		}
		_, errs, _ := strings.Cut(route.Help.Text, "Errors: ")
		for _, status := range regexp.MustCompile(`\b[45]\d\d\b`).FindAllString(errs, -1) {
			if _, ok := op.Responses[status]; !ok {
				t.Errorf("%s %s: help has status %s, the description has not", route.Method, path, status)
			}
		}
	}
}
