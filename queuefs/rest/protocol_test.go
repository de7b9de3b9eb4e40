package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
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
		{"GET", "/state/jobs?limit=1001", 400, "limit"},
		{"GET", "/state/jobs?limit=-1", 400, "limit"},
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
		{"DELETE", "/content/jobs/j000000000001", 409, "job not pending"},
		{"POST", "/requeue/jobs/j000000000009", 404, "job not found"},
		{"POST", "/requeue/jobs/j000000000001?end=x", 400, "neither true nor false"},
		{"POST", "/requeue/jobs/j000000000002?end", 409, "job not in a state for that"},
		{"POST", "/requeue/jobs?end", 400, "no jobs are selected"},
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
		{"POST", "/hold/jobs?status=pending&limit=0", 400, "limit"},
		{"POST", "/hold/jobs?status=pending&limit=10001", 400, "limit"},
		{"POST", "/hold/jobs?status=pending&status=consumed", 400, "repeated"},
		{"POST", "/hold/jobs?job=7", 400, "j and twelve digits"},
		{"POST", "/hold/jobs?held=maybe", 400, "neither true nor false"},
		{"POST", "/hold/jobs/j000000000001", 409, "job not pending"},
		{"POST", "/hold/jobs/j000000000009", 404, "job not found"},
		{"POST", "/hold/jobs/j000000000002?why=x", 400, "not known here"},
		{"POST", "/hold/jobs/j000000000002?reason=a&reason=b", 400, "repeated"},
		{"POST", "/release/jobs/j000000000001", 409, "job not pending"},
		{"POST", "/delete/jobs/j000000000001", 409, "job not pending"},
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
		{"POST", "/state/jobs?leaseDuration=2592001", 400, "leaseDuration"},
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
		{"POST", "/consume/jobs?lease=0", 400, "seconds above 0"},
		{"POST", "/consume/jobs?lease=86401", 400, "seconds"},
		{"POST", "/consume/jobs?lease=NaN", 400, "seconds"},
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
		{&rest.Error{Status: 401, Message: "who are you"}, 401, "who are you", 0},
		{fmt.Errorf("user x: %w", &rest.Error{Status: 403, Message: "no right to submit"}), 403, "no right to submit", 0},
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

func TestQueueNamesMayBePercentEncoded(t *testing.T) {
	s := newSite(t, rest.Options{})
	a := s.do("PUT", "/state/uc3%3Acutie%2F01", "name=Queue%2001&cullingSizeThreshold=7", "Content-Type", "application/x-www-form-urlencoded").want(t, 201)
	a.header(t, "Location", s.url+"/state/uc3+cutie=01")
	for i, name := range []string{"uc3%3Acutie%2F01", "uc3:cutie%2f01", "uc3+cutie=01", "uc3%2Bcutie%3D01", "Queue%2001"} {
		a := s.do("POST", "/content/"+name, "x").want(t, 201)
		a.header(t, "Location", s.url+"/state/uc3+cutie=01/"+queuefs.JobID(i+1).String())
		s.do("GET", "/state/"+name, "").want(t, 200)
	}
}

func TestQueueStateListsJobsByPage(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 250 {
		s.submit("", queuefs.Meta{})
	}
	s.do("POST", "/consume/jobs?max=7", "").want(t, 200)
	// Following jobsNext shows every job once.
	for _, query := range []string{"", "?limit=0", "?limit=1000", "?limit=50&status=pending", "?status=consumed", "?limit=3&status=consumed&after=j000000000002", "?status=deleted"} {
		var got []string
		next := s.url + "/state/jobs" + query
		pages := 0
		for next != "" {
			a := s.do("GET", strings.TrimPrefix(next, s.url), "", "Accept", "text/x-anvl").want(t, 200)
			d, err := state.ANVL.Decode(state.QueueClass, []byte(a.body))
			if err != nil {
				t.Fatal(err)
			}
			q, err := d.Queue()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range q.Jobs.IDs {
				got = append(got, id.String())
			}
			if len(q.Jobs.IDs) > q.Jobs.Limit {
				t.Errorf("%s: %d jobs, limit %d", next, len(q.Jobs.IDs), q.Jobs.Limit)
			}
			next = ""
			if p := d.Property("jobsNext"); p != nil {
				next = p.Text
			}
			if pages++; pages > 20 {
				t.Fatalf("%s: no end", query)
			}
		}
		o := queuefs.ListOptions{Limit: 1000}
		switch {
		case strings.Contains(query, "pending"):
			o.Status = queuefs.Pending
		case strings.Contains(query, "consumed"):
			o.Status = queuefs.Consumed
		case strings.Contains(query, "deleted"):
			o.Status = queuefs.Deleted
		}
		if strings.Contains(query, "after") {
			o.After = 2
		}
		var want []string
		for _, id := range s.q.IDs(o) {
			want = append(want, id.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestStateIsNotSentAgainUnlessItChanged(t *testing.T) {
	s := newSite(t, rest.Options{})
	id := s.submit("x", queuefs.Meta{}).ID.String()
	paths := []string{"/state", "/state/jobs", "/state/jobs?limit=0", "/state/jobs?limit=0&t=anvl", "/state/jobs?status=pending", "/state/jobs?after=" + id,
		"/state/jobs/" + id, "/state/jobs/" + id + "?t=anvl"}
	tags := map[string]string{}
	for _, path := range paths {
		a := s.do("GET", path, "").want(t, 200)
		tag := a.Header.Get("Etag")
		for other, used := range tags {
			if tag == used || tag == "" {
				t.Errorf("%s: same tag %s as %s", path, tag, other)
			}
		}
		tags[path] = tag
		not := s.do("GET", path, "", "If-None-Match", `"x", W/`+tag).want(t, 304)
		not.header(t, "Etag", tag)
		if not.body != "" {
			t.Errorf("%s: got %q", path, not.body)
		}
		s.do("HEAD", path, "", "If-None-Match", tag).want(t, 304)
		s.do("HEAD", path, "").want(t, 200).header(t, "Content-Length", a.Header.Get("Content-Length"))
		s.do("GET", path, "", "If-None-Match", `"x"`).want(t, 200)
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	s.do("PUT", "/state/another", "").want(t, 201)
	for _, path := range paths {
		s.do("GET", path, "", "If-None-Match", tags[path]).want(t, 200)
	}
}

func TestDeleteAndRequeueAreIdempotent(t *testing.T) {
	s := newSite(t, rest.Options{})
	id := s.submit("x", queuefs.Meta{}).ID.String()
	states := func(a answer, want queuefs.Status) {
		t.Helper()
		d, err := state.ANVL.Decode(state.JobClass, []byte(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := d.Job(); err != nil || j.Status != want {
			t.Errorf("got %+v, %v, want %s", j, err, want)
		}
	}
	for range 2 {
		states(s.do("DELETE", "/content/jobs/"+id, "", "Accept", "text/anvl").want(t, 202), queuefs.Deleted)
		s.wantCounts(0, 0, 1)
	}
	for range 2 {
		states(s.do("POST", "/requeue/jobs/"+id+"?t=anvl", "").want(t, 200), queuefs.Pending)
		s.wantCounts(1, 0, 0)
	}
	if got := s.only(); got.Requeues != 1 {
		t.Errorf("requeued %d times", got.Requeues)
	}
}

func TestCreateQueueTakesPropertiesInEveryForm(t *testing.T) {
	s := newSite(t, rest.Options{})
	multi := newForm().field("name", "N").field("description", "D").field("cullingSizeThreshold", "5").field("verifyOnRead", "false").end()
	const (
		form = "application/x-www-form-urlencoded"
		anvl = "text/x-anvl"
		json = "application/json"
	)
	tests := []struct {
		media, body string
		status      int
		want        string
	}{
		{"", "", 201, ""},
		{form, "name=N&description=D&cullingSizeThreshold=5&verifyOnRead=false", 201, "N"},
		{"multipart/form-data; boundary=b0undary", multi, 201, "N"},
		{"text/anvl; charset=utf-8", "name: N\ndescription: D\ncullingSizeThreshold: 5\nverifyOnRead: false\n", 201, "N"},
		{json, `{"name":"N","description":"D","cullingSizeThreshold":5,"verifyOnRead":false,"cullingAgeThreshold":null}`, 201, "N"},
		{json, `{"que:queueState":{"xmlns:que":"x","que:name":"N","que:description":"D","que:cullingSizeThreshold":"5","que:verifyOnRead":false}}`, 201, "N"},
		{"", "name=N", 400, "Content-Type"},
		{"text/plain", "name=N", 415, "unsupported request form"},
		{"application/xml", "<x/>", 415, "unsupported request form"},
		{form, "name=N&name=M", 400, "repeated"},
		{form, "colour=red", 400, "no property"},
		{form, "name=%zz", 400, "form"},
		{form, "cullingSizeThreshold=-1", 400, "number from 0"},
		{form, "verifyOnRead=yes", 400, "neither true nor false"},
		{form, "identifier=other", 400, "not that of the path"},
		{form, "identifier=cutie", 400, "bad name"},
		{anvl, "no colon\n", 400, "no colon"},
		{json, `[]`, 400, "JSON"},
		{json, `{"name":["N"]}`, 400, "no value"},
		{json, `{"name":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "octets"},
		{"multipart/form-data; boundary=b0undary", multi[:40], 400, "ends before"},
		{"multipart/form-data", multi, 400, "boundary"},
	}
	for i, tt := range tests {
		name := fmt.Sprint("q", i)
		tt.body = strings.ReplaceAll(tt.body, `"N"`, `"`+name+` name"`) // names are unique
		tt.body = strings.NewReplacer("name=N", "name="+name+" name", "name: N", "name: "+name+" name", "\r\n\r\nN\r\n", "\r\n\r\n"+name+" name\r\n").Replace(tt.body)
		var header []string
		if tt.media != "" {
			header = []string{"Content-Type", tt.media}
		}
		a := s.do("PUT", "/state/"+name, tt.body, header...)
		if a.StatusCode != tt.status {
			t.Errorf("%s %.60q: got %s\n%s", tt.media, tt.body, a.Status, a.body)
			continue
		}
		q, err := s.svc.Queue(name)
		if tt.status != 201 {
			if got := a.exception(t); !strings.Contains(got, tt.want) || err == nil {
				t.Errorf("%s %.60q: got %q, %v, want %q", tt.media, tt.body, got, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, want := q.Info(), queuefs.QueueInfo{ID: name, Identifier: name, CullingSize: -1, CullingAge: -1, VerifyOnWrite: true}
		if tt.want != "" {
			want.Name, want.Description, want.CullingSize, want.VerifyOnRead = name+" name", "D", 5, false
		}
		want.Created = got.Created
		if got != want {
			t.Errorf("%s: got %+v, want %+v", tt.media, got, want)
		}
		a.header(t, "Location", s.url+"/state/"+name)
	}
}

func TestHelp(t *testing.T) {
	s := newSite(t, rest.Options{})
	all := s.do("GET", "/help", "", "Accept", "text/plain").want(t, 200)
	all.header(t, "Content-Type", "text/plain; charset=utf-8")
	for _, method := range []string{"Help", "Get-service-state", "Get-Queue-State", "get-job-state", "submit-job", "get-next-job", "peek-at-job", "delete-job",
		"submitJob", "SUBMITJOB", "deleteItem", "peek", "requeueJob", "createQueue",
		"setQueueBehavior", "removeQueue", "cull", "getBatchState", "hold-job", "releaseJob", "extendLease", "reportOutcome", "abortJob", "putResult", "getResult", "watch"} {
		text := s.do("GET", "/help/"+method, "", "Accept", "text/plain").want(t, 200)
		request := strings.Split(text.body, "\n")[2]
		if !strings.Contains(all.body, request+"\n") || request == "" {
			t.Errorf("%s: %q is not in the overview", method, request)
		}
		d, err := state.JSON.Decode(state.HelpClass, []byte(s.do("GET", "/help/"+method+"?t=json", "").want(t, 200).body))
		if err != nil || d.Property("request").Text != request {
			t.Errorf("%s: got %+v, %v", method, d, err)
		}
	}
	d, err := state.ANVL.Decode(state.HelpClass, []byte(s.do("GET", "/help", "", "Accept", "text/anvl").want(t, 200).body))
	if err != nil || len(d.Property("methods").Items) != 22 {
		t.Errorf("got %+v, %v", d, err)
	}
	// ?h and ?V are instead of the method.
	if got := s.do("POST", "/content/jobs?h", "x").want(t, 200); got.body != s.do("GET", "/help/submitJob", "").body || got.Header.Get("Content-Type") != state.XHTML.MediaType() {
		t.Errorf("?h: got %q", got.body)
	}
	if got := s.do("GET", "/state?V", "").want(t, 200); got.body != queuefs.Scheme+"\n" {
		t.Errorf("?V: got %q", got.body)
	}
	s.wantCounts(0, 0, 0)
}

// References are built from the baseURI, whatever the client says.
func TestReferencesComeFromTheBaseURI(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.svc.SetBaseURI("https://queue.example.org/a/b/")
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
