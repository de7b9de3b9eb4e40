package rest_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

const person = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// A list of jobs has the same rows whether it stands in the state of the queue or
// is a page by itself.
func TestListsOfJobsHaveTheSameRows(t *testing.T) {
	s, _ := newMixed(t)
	rows := regexp.MustCompile(`(?s)<table class="list[^"]*".*?</table>`)
	queue := s.do("GET", "/state/jobs?t=xhtml", "", "Accept", person).want(t, 200)
	list := s.do("GET", "/state/jobs?detail&t=xhtml", "", "Accept", person).want(t, 200)
	ago := regexp.MustCompile(` <span class="dim">[^<]*</span>`) // tells of different instants
	got, wanted := ago.ReplaceAllString(rows.FindString(list.body), ""), ago.ReplaceAllString(rows.FindString(queue.body), "")
	if got != wanted || strings.Count(got, "<tr>") != 10 {
		t.Errorf("got %s, want %s", got, wanted)
	}
}

func TestPagesHaveFormsForWhatTheirReaderMay(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	h := rest.New(s.svc, rest.Options{Pages: dashboard.Pages{}})
	for _, tt := range []struct {
		path, may string
		want      int
	}{
		{"/state", "", 0}, {"/state", "/state", 1}, {"/state/jobs", "/consume/jobs", 1},
		{"/state/jobs/j000000000001", "/hold/jobs/j000000000001", 1}, {"/state/jobs/j000000000001", "/hold/jobs", 0},
	} {
		req := s.request("GET", tt.path, nil)
		req.RequestURI, req.Header = "", http.Header{"Accept": {person}}
		req = req.WithContext(web.WithMay(req.Context(), func(method, path string) bool { return method == "POST" && path == tt.may }))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if got := strings.Count(w.Body.String(), "<form "); w.Code != 200 || got != tt.want {
			t.Errorf("%s for one who may %s: got %d, %d forms, want %d", tt.path, tt.may, w.Code, got, tt.want)
		}
	}
}
