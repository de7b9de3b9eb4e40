package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs/rest"
)

// Names from outside reach neither the file system nor another queue.
func TestHostileNames(t *testing.T) {
	s := newSite(t, rest.Options{})
	long := strings.Repeat("x", 10_000)
	names := []string{"..", ".", "%2e%2e", "%2E", "%2f", "..%2f..%2fetc%2fpasswd", "%00", "jobs%00", "jobs%2fpending", "jobs%0a", "cutie-lock", "MRT",
		"%ff", "%e4%b8%ad%e6%96%87", "%F0%9F%98%80", "%3Cscript%3E", "*", "~", "-rf", "%20", "jobs%20", "JOBS", "%25", "jobs%252f", long, "\\", "queues.txt", "..;"}
	for _, name := range names {
		for _, r := range [][2]string{
			{"GET", "/state/" + name}, {"GET", "/content/" + name}, {"POST", "/content/" + name}, {"POST", "/consume/" + name},
			{"GET", "/state/jobs/" + name}, {"GET", "/content/jobs/" + name}, {"DELETE", "/content/jobs/" + name}, {"POST", "/requeue/jobs/" + name},
			{"GET", "/queues/" + name + "/queue-info.txt"}, {"GET", "/queues/" + name + "/payload/j000000000001"},
			{"GET", "/queues/jobs/" + name}, {"GET", "/queues/jobs/payload/" + name}, {"GET", "/queues/jobs/pending/" + name},
			{"GET", "/queues/jobs/" + name + "/j000000000001"}, {"GET", "/help/" + name},
		} {
			a := s.do(r[0], r[1], "")
			if a.StatusCode != 404 && a.StatusCode != 400 {
				t.Errorf("%s %.80s: got %s", r[0], r[1], a.Status)
				continue
			}
			if got := a.exception(t); got == "" || len(got) > 400 {
				t.Errorf("%s %.80s: got %q", r[0], r[1], got)
			}
		}
	}
	s.wantCounts(0, 0, 0)
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

// A path whose slashes are encoded, before or behind a base, names nothing; it
// is never redirected to something else.
func TestEncodedSlashesLeadNowhere(t *testing.T) {
	s := newSite(t, rest.Options{})
	h := rest.New(s.svc, rest.Options{})
	defer h.Close()
	for _, tt := range []struct {
		base, path string
		status     int
	}{
		{"", "/content/jobs%2f..", 404},
		{"", "/content/jobs%2F%2e%2e/j000000000001", 404},
		{"", "/content/%2e%2e", 404},
		{"", "/state%2f..%2fstate", 404},
		{"", "/%2fstate", 404},
		{"/base", "/base/content/jobs%2f..", 404},
		{"/base", "/base%2fcontent/jobs", 400},
		{"/base", "/base%2f..%2fx", 400},
		{"/base", "/base%2fstate", 400},
		{"/base", "/base/%2fstate", 404},
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			req := httptest.NewRequest(method, "http://example.org"+tt.path, nil)
			req.Header.Set("Accept", "application/json")
			w := httptest.NewRecorder()
			http.StripPrefix(tt.base, h).ServeHTTP(w, req)
			a := answer{w.Result(), w.Body.String()}
			if a.StatusCode != tt.status && a.StatusCode != 405 || a.exception(t) == "" {
				t.Errorf("%s %s: got %s, %v\n%s", method, tt.path, a.Status, a.Header, a.body)
			}
		}
	}
}

// References are built from the baseURI, whatever the client says.
func TestReferencesComeFromTheBaseURI(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.svc.SetBaseURI("https://queue.example.org/a/b") // one slash is added
	req := s.request("POST", "/content/jobs", strings.NewReader("x"))
	req.Host = "evil.example.com"
	a := s.send(req).want(t, 201)
	a.header(t, "Location", "https://queue.example.org/a/b/state/jobs/j000000000001")
	for _, path := range []string{"/state", "/state/jobs", "/state/jobs/j000000000001", "/content/jobs", "/queues/jobs/payload/j000000000001"} {
		req := s.request(http.MethodGet, path, nil)
		req.Host = "evil.example.com"
		a := s.send(req).want(t, 200)
		if all := fmt.Sprint(a.Header) + a.body; strings.Contains(all, "evil") || !strings.Contains(all, "https://queue.example.org/a/b/") {
			t.Errorf("%s: got %s", path, all)
		}
	}
}
