package rest_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

func TestWrongMethodNamesTheRightOnes(t *testing.T) {
	s := newSite(t, rest.Options{})
	for path, want := range map[string]string{
		"/help":                               "GET, HEAD",
		"/help/submitJob":                     "GET, HEAD",
		"/state":                              "GET, HEAD, POST",
		"/state/jobs":                         "DELETE, GET, HEAD, POST, PUT",
		"/state/jobs/j000000000001":           "GET, HEAD",
		"/content/jobs":                       "GET, HEAD, POST",
		"/content/jobs/j000000000001":         "DELETE, GET, HEAD",
		"/consume/jobs":                       "POST",
		"/requeue/jobs/j000000000001":         "POST",
		"/requeue/jobs":                       "POST",
		"/hold/jobs/j000000000001":            "POST",
		"/hold/jobs":                          "POST",
		"/release/jobs/j000000000001":         "POST",
		"/release/jobs":                       "POST",
		"/delete/jobs/j000000000001":          "POST",
		"/delete/jobs":                        "POST",
		"/abort/jobs/j000000000001":           "POST",
		"/lease/jobs/j000000000001":           "POST",
		"/outcome/jobs/j000000000001":         "POST",
		"/result/jobs/j000000000001/a":        "GET, HEAD, PUT",
		"/cull":                               "POST",
		"/cull/jobs":                          "POST",
		"/schema/queue.xsd":                   "GET, HEAD",
		"/queues/jobs/queue-info.txt":         "GET, HEAD",
		"/queues/jobs/payload/j000000000001":  "GET, HEAD",
		"/queues/jobs/consumed/j000000000001": "GET, HEAD",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
			if strings.Contains(want, method) {
				continue
			}
			a := s.do(method, path, "").want(t, 405)
			a.header(t, "Allow", want)
			if got := a.exception(t); !strings.Contains(got, method) {
				t.Errorf("%s %s: got %q", method, path, got)
			}
		}
	}
}

// A service that is closed or out of order is 503, and says nothing else.
func TestClosedServiceIsUnavailable(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/content/jobs", "/consume/jobs", "/consume/jobs?wait=60"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader("x")))
		if w.Code != 503 || !strings.Contains(w.Body.String(), "service closed") {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
	if n := len(s.logged.all()); n != 3 {
		t.Errorf("logged %d errors, want 3", n)
	}
}

func TestErrorIsForThoseAroundTheHandlerToo(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	tests := []struct {
		err    error
		status int
		detail string
		logged int
	}{
		{&web.Error{Status: 401, Message: "who are you"}, 401, "who are you", 0},
		{fmt.Errorf("user x: %w", &web.Error{Status: 403, Message: "no right to submit"}), 403, "no right to submit", 0},
		{fmt.Errorf("disk 7: %w", queuefs.ErrNoSpace), 507, "no space left for the queue", 1},
		{fmt.Errorf("secret: %w", queuefs.ErrFailed), 503, "storage failed, open the home again", 1},
		{fmt.Errorf("many jobs: %w", queuefs.ErrTooBig), 413, "many jobs: too big", 0},
		{fmt.Errorf("secret path"), 500, "", 1},
	}
	for _, tt := range tests {
		before := len(s.logged.all())
		w := httptest.NewRecorder()
		w.Header().Set("WWW-Authenticate", "Basic")
		h.Error(w, httptest.NewRequest("GET", "/state?t=anvl", nil), tt.err)
		a := answer{w.Result(), w.Body.String()}
		a.Request = httptest.NewRequest("GET", "/", nil)
		if got := a.exception(t); a.StatusCode != tt.status || got != tt.detail {
			t.Errorf("%v: got %d %q, want %d %q", tt.err, a.StatusCode, got, tt.status, tt.detail)
		}
		a.header(t, "Content-Type", "text/x-anvl")
		a.header(t, "WWW-Authenticate", "Basic")
		if got := len(s.logged.all()) - before; got != tt.logged {
			t.Errorf("%v: logged %d times, want %d", tt.err, got, tt.logged)
		}
	}
}
