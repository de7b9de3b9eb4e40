package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

const person = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// A person sees the jobs of a list and how long ago things were, a program what
// it may keep by its tag.
func TestPagesForPeopleTellMore(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{Filename: "a<b.txt"})
	program := s.do("GET", "/state/jobs?t=xhtml", "").want(t, 200)
	if program.Header.Get("Etag") == "" || strings.Contains(program.body, " ago") {
		t.Errorf("program: tag %q for %s", program.Header.Get("Etag"), program.body)
	}
	a := s.do("GET", "/state/jobs?t=xhtml", "", "Accept", person, "If-None-Match", "*").want(t, 200)
	a.header(t, "Etag", "")
	a.header(t, "Cache-Control", "no-cache")
	for _, want := range []string{"a&lt;b.txt</td>", "<span class=\"dim\">", `title="`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
	for _, path := range []string{"/state/nope", "/help"} {
		if a := s.do("GET", path, "", "Accept", person); !strings.Contains(a.body, `<a href="`+s.url+`/">Queues</a>`) {
			t.Errorf("%s: no way home in %s", path, a.body)
		}
	}
}

// Who takes a job by a form is shown the job, or the queue that has none.
func TestJobsTakenByFormsAreShown(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	for _, want := range []string{"/state/jobs/j000000000001", "/state/jobs"} {
		a := s.do("POST", "/consume/jobs?t=xhtml", "", "Content-Type", "application/x-www-form-urlencoded", "Accept", person).want(t, 303)
		a.header(t, "Location", s.url+want+"?t=xhtml")
	}
}

func TestPagesHaveFormsForWhatTheirReaderMay(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	h := rest.New(s.svc, rest.Options{})
	for _, tt := range []struct {
		path, may string
		want      int
	}{
		{"/state", "", 0}, {"/state", "/state", 1}, {"/state/jobs", "/consume/jobs", 1},
		{"/state/jobs/j000000000001", "/hold/jobs/j000000000001", 1}, {"/state/jobs/j000000000001", "/hold/jobs", 0},
	} {
		req := s.request("GET", tt.path, nil)
		req.RequestURI, req.Header = "", http.Header{"Accept": {person}}
		req = req.WithContext(rest.WithMay(req.Context(), func(method, path string) bool { return method == "POST" && path == tt.may }))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if got := strings.Count(w.Body.String(), "<form "); w.Code != 200 || got != tt.want {
			t.Errorf("%s for one who may %s: got %d, %d forms, want %d", tt.path, tt.may, w.Code, got, tt.want)
		}
	}
}
