package rest_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Every method answers every fault of its request with the right status and an
// exception state in the form asked for.
func TestStatusOfEveryFault(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("one", queuefs.Meta{})
	s.do("POST", "/consume/jobs", "").want(t, 200)
	s.submit("two", queuefs.Meta{})
	tests := []struct {
		method, path string
		status       int
		detail       string
	}{
		{"GET", "/", 404, "see /help"},
		{"GET", "/nothing", 404, "see /help"},
		{"GET", "/state/", 404, "see /help"},
		{"GET", "/state/jobs/", 404, "see /help"},
		{"GET", "/state/jobs/j000000000001/x", 404, "see /help"},
		{"GET", "/help/nothing", 404, "no help about"},
		{"GET", "/state/none", 404, "queue not found: none"},
		{"GET", "/state/jobs/j000000000009", 404, "job not found: j000000000009"},
		{"GET", "/state/jobs/9", 404, "job not found: 9"},
		{"GET", "/state/jobs/J000000000001", 404, "job not found"},
		{"GET", "/state/jobs/j000000000000", 404, "job not found"},
		{"GET", "/state/jobs/j999999999999", 404, "job not found"},
		{"GET", "/state/none/j000000000001", 404, "queue not found"},
		{"GET", "/state/jobs?status=held", 400, "held"},
		{"GET", "/state/jobs?after=7", 400, "j and twelve digits"},
		{"GET", "/state/jobs?limit=1001", 400, `parameter limit is "1001", not a number from 0 to 1000`},
		{"GET", "/state/jobs?limit=-1", 400, `parameter limit is "-1", not a number from 0 to 1000`},
		{"GET", "/state/jobs?limit=x", 400, "limit"},
		{"GET", "/state?t=bogus", 415, "unsupported response form"},
		{"GET", "/state?t=csv", 415, "unsupported response form"},
		{"GET", "/state/jobs?t=pdf", 415, "unsupported response form"},
		{"GET", "/state/jobs/j000000000001?t=bogus", 415, "unsupported response form"},
		{"GET", "/help?t=bogus", 415, "unsupported response form"},
		{"DELETE", "/content/jobs/j000000000002?t=bogus", 415, "unsupported response form"},
		{"POST", "/requeue/jobs/j000000000001?t=bogus", 415, "unsupported response form"},
		{"PUT", "/state/new?t=bogus", 415, "unsupported response form"},
		{"GET", "/content/none", 404, "queue not found"},
		{"GET", "/content/jobs/j000000000009", 404, "job not found"},
		{"POST", "/content/none", 404, "queue not found"},
		{"POST", "/consume/none", 404, "queue not found"},
		{"DELETE", "/content/none/j000000000001", 404, "queue not found"},
		{"DELETE", "/content/jobs/j000000000009", 404, "job not found"},
		{"DELETE", "/content/jobs/j000000000001", 409, "j000000000001: job not pending: it is consumed; requeue puts it back"},
		{"POST", "/requeue/jobs/j000000000009", 404, "job not found"},
		{"POST", "/requeue/jobs/j000000000001?end=x", 400, "neither true nor false"},
		{"POST", "/requeue/jobs/j000000000002?end", 409, "job not in a state for that"},
		{"POST", "/requeue/jobs?end", 400, "no jobs are selected"},
		{"POST", "/requeue/jobs/j000000000001?end&force", 400, "exclude each other"},
		{"POST", "/requeue/jobs?status=consumed&end&force", 400, "exclude each other"},
		{"POST", "/requeue/none?status=consumed", 404, "queue not found"},
		{"POST", "/requeue/jobs?status=consumed&reason=x", 400, "not known here"},
		{"POST", "/hold/jobs?limit=5", 400, "no jobs are selected"},
		{"POST", "/hold/jobs?status=held", 400, "held"},
		{"POST", "/hold/jobs?outcome=fine", 400, "none of completed, error, aborted"},
		{"POST", "/hold/jobs?batch=b7", 400, "batch"},
		{"POST", "/hold/jobs?batch=b000000000001-2", 404, "has no jobs"},
		{"POST", "/hold/jobs?older=soon", 400, "neither hours nor a duration"},
		{"POST", "/hold/jobs?older=-1h", 400, "neither hours nor a duration"},
		{"POST", "/hold/jobs?older=0", 400, "neither hours nor a duration"},
		{"POST", "/hold/jobs?older=99999999999h", 400, "neither hours nor a duration"},
		{"POST", "/hold/jobs?older=4000000000d", 400, "neither hours nor a duration"},
		{"POST", "/hold/jobs?status=pending&limit=0", 400, `parameter limit is "0", not a number from 1 to 10000`},
		{"POST", "/hold/jobs?status=pending&limit=-1", 400, `parameter limit is "-1", not a number from 1 to 10000`},
		{"POST", "/hold/jobs?status=pending&limit=10001", 400, `parameter limit is "10001", not a number from 1 to 10000`},
		{"POST", "/hold/jobs?status=pending&status=consumed", 400, "repeated"},
		{"POST", "/hold/jobs?job=7", 400, "j and twelve digits"},
		{"POST", "/hold/jobs?held=maybe", 400, "neither true nor false"},
		{"POST", "/hold/jobs/j000000000001", 409, "j000000000001: job not pending: it is consumed; requeue puts it back"},
		{"POST", "/hold/jobs/j000000000009", 404, "job not found"},
		{"POST", "/hold/jobs/j000000000002?why=x", 400, "not known here"},
		{"POST", "/hold/jobs/j000000000002?reason=a&reason=b", 400, "repeated"},
		{"POST", "/release/jobs/j000000000001", 409, "j000000000001: job not pending: it is consumed; requeue puts it back"},
		{"POST", "/delete/jobs/j000000000001", 409, "j000000000001: job not pending: it is consumed; requeue puts it back"},
		{"POST", "/delete/jobs/j000000000009", 404, "job not found"},
		{"POST", "/delete/jobs", 400, "no jobs are selected"},
		{"POST", "/abort/jobs/j000000000001", 409, "nobody works on it"},
		{"POST", "/abort/jobs/j000000000009", 404, "job not found"},
		{"POST", "/lease/jobs/j000000000001", 400, "no lease is shown"},
		{"POST", "/lease/jobs/j000000000001?lease=x", 410, "lease is gone"},
		{"POST", "/lease/jobs/j000000000002?lease=x", 410, "lease is gone"},
		{"POST", "/lease/jobs/j000000000009?lease=x", 404, "job not found"},
		{"POST", "/lease/jobs/j000000000001?lease=x&seconds=0", 400, "seconds above 0"},
		{"POST", "/lease/jobs/j000000000001?lease=x&seconds=86401", 400, "seconds"},
		{"POST", "/outcome/jobs/j000000000001?outcome=completed", 400, "no lease is shown"},
		{"POST", "/outcome/jobs/j000000000001?lease=x", 400, "none of completed, error, released"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=aborted", 400, "none of completed, error, released"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=error&type=odd", 400, "neither transient nor fatal"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=completed&type=fatal", 400, "of the outcome error only"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=completed", 410, "lease is gone"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=error&retryIn=5", 400, "of the type transient only"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=error&type=transient&retryIn=soon", 400, "not seconds"},
		{"POST", "/outcome/jobs/j000000000001?lease=x&outcome=error&type=transient&retryIn=2592001", 400, "not seconds"},
		{"POST", "/hold/jobs/j000000000001?until=tomorrow", 400, "not a time such as"},
		{"POST", "/content/jobs?not-before=tomorrow", 400, "not a time such as"},
		{"PUT", "/result/jobs/j000000000001/a", 400, "no lease is shown"},
		{"PUT", "/result/jobs/j000000000001/a?lease=x", 410, "lease is gone"},
		{"PUT", "/result/jobs/j000000000001/.a?lease=x", 400, "no dot first"},
		{"PUT", "/result/jobs/j000000000001/a%2fb?lease=x", 400, "bad name"},
		{"PUT", "/result/jobs/j000000000001/a?lease=x&digest-type=md5", 400, "digest-type without digest-value"},
		{"PUT", "/result/jobs/j000000000009/a?lease=x", 404, "job not found"},
		{"GET", "/result/jobs/j000000000001/a", 404, "result not found: a"},
		{"GET", "/result/jobs/j000000000001/..", 400, "not clean"},
		{"GET", "/result/jobs/j000000000009/a", 404, "job not found"},
		{"POST", "/state?identifier=jobs", 409, "queue exists already"},
		{"POST", "/state?name=jobs", 400, "no identifier"},
		{"POST", "/state/jobs", 400, "no property is given"},
		{"POST", "/state/none?S=pause", 404, "queue not found"},
		{"POST", "/state/jobs?S=stop", 400, "neither pause nor restart"},
		{"POST", "/state/jobs?M=wait", 400, "no property"},
		{"POST", "/state/jobs?identifier=other", 400, "create a queue of the new name and move the jobs"},
		{"PUT", "/state/jobs?identifier=other", 400, "create a queue of the new name and move the jobs"},
		{"POST", "/state/jobs?maxAttempts=1000001", 400, "maximum of attempts"},
		{"POST", "/state/jobs?maxAttempts=99999999999", 400, "maximum of attempts 99999999999 is not from 0 to 1000000"},
		{"POST", "/outcome/jobs/j000000000001?outcome=error&type=transient&retryIn=x&lease=x", 400, "not seconds from 0 to 2592000"},
		{"POST", "/state/jobs?leaseDuration=2592001", 400, "leaseDuration"},
		{"POST", "/state/jobs?retryDelay=2592001", 400, "retryDelay"},
		{"POST", "/state/jobs?retryFactor=101", 400, "retry factor"},
		{"POST", "/state/jobs?retryMax=x", 400, "retryMax"},
		{"POST", "/state/jobs?callback=ftp://x/", 400, "callback"},
		{"POST", "/state/jobs?acknowledge=maybe", 400, "acknowledge"},
		{"DELETE", "/state/jobs", 409, "queue not empty"},
		{"DELETE", "/state/none", 404, "queue not found"},
		{"POST", "/cull/none", 404, "queue not found"},
		{"POST", "/cull?dry=no", 400, "neither true nor false"},
		{"GET", "/schema/queue.rng", 404, "no such schema"},
		{"GET", "/state/jobs?outcome=fine", 400, "none of completed"},
		{"GET", "/state/jobs?batch=x", 400, "batch"},
		{"GET", "/state/jobs?batch=b000000000001-2", 404, "has no jobs"},
		{"POST", "/consume/jobs?max=-1", 400, `parameter max is "-1", not a number from 1 to 1000`},
		{"POST", "/consume/jobs?max=0", 400, `parameter max is "0", not a number from 1 to 1000`},
		{"POST", "/consume/jobs?max=1001", 400, `parameter max is "1001", not a number from 1 to 1000`},
		{"POST", "/consume/jobs?max=", 400, `parameter max is "", not a number from 1 to 1000`},
		{"POST", "/consume/jobs?max=1e3", 400, `parameter max is "1e3", not a number from 1 to 1000`},
		{"POST", "/consume/jobs?lease=0", 400, `parameter lease is "0", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?lease=1e-300", 400, `parameter lease is "1e-300", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?lease=-1", 400, `parameter lease is "-1", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?lease=", 400, `parameter lease is "", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?lease=1&lease=2", 400, "parameter lease is repeated"},
		{"POST", "/consume/jobs?lease=86401", 400, `parameter lease is "86401", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?lease=NaN", 400, `parameter lease is "NaN", not seconds above 0, 86400 at most`},
		{"POST", "/consume/jobs?wait=-1", 400, `parameter wait is "-1", not seconds from 0 to 60`},
		{"PUT", "/state/cutie-x", 400, "bad name"},
		{"PUT", "/state/..%2f..", 400, "bad name"},
		{"GET", "/state?%zz", 400, "query"},
		{"GET", "/state/jobs//", 400, "not clean"},
		{"GET", "/state/../state", 400, "not clean"},
		{"GET", "/./state", 400, "not clean"},
	}
	for _, tt := range tests {
		for _, form := range []state.Form{state.JSON, state.ANVL, state.Turtle, state.XHTML, state.XML, state.SOIF, state.HTML} {
			a := s.do(tt.method, tt.path, "", "Accept", form.MediaType())
			if a.StatusCode != tt.status || a.Header.Get("Content-Type") != form.MediaType() {
				t.Errorf("%s %s: got %s %s\n%s", tt.method, tt.path, a.Status, a.Header.Get("Content-Type"), a.body)
				continue
			}
			if got := a.exception(t); !strings.Contains(got, tt.detail) {
				t.Errorf("%s %s: got %q, want %q", tt.method, tt.path, got, tt.detail)
			}
			a.header(t, "Vary", "Accept")
			a.header(t, "Etag", "")
			a.header(t, "Location", "")
		}
	}
	s.wantCounts(1, 1, 0)
	if n := len(s.svc.Queues()); n != 1 {
		t.Errorf("got %d queues", n)
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

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
