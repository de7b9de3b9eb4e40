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
	"cutie/queuefs/state"
	"cutie/queuefs/web"
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

// A list of jobs has the same rows whether it stands in the state of the queue or
// is a page by itself.
func TestListsOfJobsHaveTheSameRows(t *testing.T) {
	s, _ := newMixed(t)
	rows := regexp.MustCompile(`(?s)<table class="list[^"]*".*?</table>`)
	queue := s.do("GET", "/state/jobs?t=xhtml", "", "Accept", person).want(t, 200)
	list := s.read("/state/jobs?detail&t=xhtml", person).want(t, 200)
	ago := regexp.MustCompile(` <span class="dim">[^<]*</span>`) // tells of different instants
	got, wanted := ago.ReplaceAllString(rows.FindString(list.body), ""), ago.ReplaceAllString(rows.FindString(queue.body), "")
	if got != wanted || strings.Count(got, "<tr>") != 10 {
		t.Errorf("got %s, want %s", got, wanted)
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

// Who takes a job with a lease by a form gets a page with its token, by which it
// is kept, and ended; the token is in no URL and no cache.
func TestJobsTakenByFormsCanBeFinished(t *testing.T) {
	s := newSite(t, rest.Options{})
	if _, err := s.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Acknowledge = queuefs.AckRequired; return nil }); err != nil {
		t.Fatal(err)
	}
	s.submit("x", queuefs.Meta{})
	post := func(path, body string) answer {
		return s.do("POST", path+"?t=xhtml", body, "Content-Type", "application/x-www-form-urlencoded", "Accept", person)
	}
	hidden := regexp.MustCompile(`<input type="hidden" name="lease" value="([^"]+)" />`)
	lease := ""
	for _, step := range []struct{ path, body string }{{"/consume/jobs", ""}, {"/lease/jobs/j000000000001", "seconds=60&"}} {
		if lease != "" {
			step.body += "lease=" + lease
		}
		a := post(step.path, step.body).want(t, 200)
		a.header(t, "Cache-Control", "no-store")
		a.header(t, "Content-Security-Policy", state.PagePolicy)
		found := hidden.FindAllStringSubmatch(a.body, -1)
		if len(found) != 4 || lease != "" && found[0][1] != lease {
			t.Fatalf("%s: got %q in %s", step.path, found, a.body)
		}
		lease = found[0][1]
	}
	a := post("/outcome/jobs/j000000000001", "outcome=completed&message=all+well&lease="+lease).want(t, 303)
	a.header(t, "Location", s.url+"/state/jobs/j000000000001?t=xhtml")
	if j, err := s.q.Job(1); err != nil || j.Outcome != queuefs.Completed || j.Message != "all well" {
		t.Errorf("got %+v, %v", j, err)
	}
	if a := post("/outcome/jobs/j000000000001", "outcome=completed&lease="+lease).want(t, 410); !strings.Contains(a.body, "<h1>") {
		t.Errorf("got %s", a.body)
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
