package rest_test

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

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
		{fmt.Errorf("disk 7: %w", ledger.ErrNoSpace), 507, "no space left for the queue", 1},
		{fmt.Errorf("secret: %w", ledger.ErrFailed), 503, "storage failed, open the home again", 1},
		{fmt.Errorf("many jobs: %w", job.ErrTooBig), 413, "many jobs: too big", 0},
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

// reopened returns a site with the queues "jobs", with a job, and "other", whose home is opened
// again after harm.
func reopened(t *testing.T, harm func(jobs string) error, o queuefs.Options) *site {
	t.Helper()
	was := newService(t)
	was.submit("a", job.Meta{})
	if _, err := was.svc.CreateQueue(ctx, home.QueueInfo{Identifier: "other"}); err != nil {
		t.Fatal(err)
	}
	dir := was.svc.Dir()
	if err := was.svc.Close(); err != nil {
		t.Fatal(err)
	}
	if err := harm(filepath.Join(dir, "queues/jobs")); err != nil {
		t.Fatal(err)
	}
	o.Segment = 4 << 20
	svc, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	return (&site{t: t, svc: svc}).serve(rest.Options{})
}

// service returns the state of the service.
func (s *site) service() string {
	return s.direct("GET", "/state", "", "Accept", "text/x-anvl").want(s.t, 200).body
}

// TestAQueueWhosePropertiesCannotBeRead answers every request to it with its name and the
// way out. The state of the service names it, and other queues are served.
func TestAQueueWhosePropertiesCannotBeRead(t *testing.T) {
	var reads atomic.Int32 // of jobs is the first one
	s := reopened(t, func(jobs string) error {
		now := time.Now()
		return os.Chtimes(filepath.Join(jobs, "queue-info.txt"), now, now) // or nobody reads it
	}, queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "properties" && reads.Add(1) == 1 {
			return syscall.EIO
		}
		return do()
	}})
	for _, r := range []string{"GET /state/jobs", "GET /state/jobs/j000000000001", "POST /consume/jobs", "GET /content/jobs", "POST /content/jobs", "PUT /state/jobs",
		"DELETE /state/jobs", "POST /hold/jobs/j000000000001", "POST /cull/jobs", "GET /queues/jobs/queue-info.txt", "GET /queues/jobs/payload/j000000000001", "GET /events/jobs"} {
		method, path, _ := strings.Cut(r, " ")
		body := s.direct(method, path, "").want(t, 503).body
		if !strings.Contains(body, "queue jobs is shut: queue-info.txt cannot be read now: input/output error") || !strings.Contains(body, "opens by itself") {
			t.Errorf("%s: got %s", r, body)
		}
	}
	s.direct("GET", "/state/other", "").want(t, 200)
	if got := s.service(); !strings.Contains(got, "shutQueue: ") {
		t.Errorf("the service: got %s", got)
	}
	if _, err := s.svc.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	s.direct("GET", "/state/jobs", "").want(t, 200)
	if got := s.service(); strings.Contains(got, "shut") {
		t.Errorf("the service: got %s", got)
	}
}

// Every request to a queue whose directory is lost is answered with the reason and the cure,
// and DELETE with lost removes the queue.
func TestAQueueWhoseDirectoryIsLost(t *testing.T) {
	s := reopened(t, os.RemoveAll, queuefs.Options{})
	for _, r := range []string{"GET /state/jobs", "POST /consume/jobs", "POST /content/jobs", "PUT /state/jobs", "DELETE /state/jobs", "GET /queues/jobs/payload/j000000000001", "GET /events/jobs"} {
		method, path, _ := strings.Cut(r, " ")
		if body := s.direct(method, path, "").want(t, 503).body; !strings.Contains(body, "queue jobs is not served: its directory queues/jobs is lost") || !strings.Contains(body, "rmqueue --lost jobs") {
			t.Errorf("%s: got %s", r, body)
		}
	}
	if got := s.service(); !strings.Contains(got, "lostQueue: ") {
		t.Errorf("the service: got %s", got)
	}
	s.direct("DELETE", "/state/other?lost", "").want(t, 409)
	s.direct("DELETE", "/state/none?lost", "").want(t, 404)
	s.direct("DELETE", "/state/jobs?lost=x", "").want(t, 400)
	s.direct("DELETE", "/state/jobs?lost", "").want(t, 200)
	s.direct("GET", "/state/jobs", "").want(t, 404)
	if got := s.service(); strings.Contains(got, "lost") {
		t.Errorf("the service: got %s", got)
	}
	s.direct("PUT", "/state/jobs", "").want(t, 201)
}

// Every method answers in each of the five forms, asked for by ?t= or by
// Accept, and what it says can be read back.
func TestEveryMethodAnswersInEveryForm(t *testing.T) {
	s := newSite(t, rest.Options{})
	const manifest = "#%checkm_0.7\n#%eof\n"
	tests := []struct {
		method, path string
		body         string
		header       []string
		status       int
		class        *state.Class
	}{
		{"GET", "/help", "", nil, 200, state.HelpClass},
		{"GET", "/help/submitJob", "", nil, 200, state.HelpClass},
		{"GET", "/state", "", nil, 200, state.ServiceClass},
		{"POST", "/state", "identifier=NEW", []string{"Content-Type", "application/x-www-form-urlencoded"}, 201, state.QueueClass},
		{"DELETE", "/state/NEW", "", nil, 200, state.ServiceClass},
		{"PUT", "/state/NEW", "name: NEW\n", []string{"Content-Type", "text/x-anvl"}, 201, state.QueueClass},
		{"PUT", "/state/NEW", `{"description":"d"}`, []string{"Content-Type", "application/json"}, 200, state.QueueClass},
		{"POST", "/state/NEW?S=pause", "", nil, 200, state.QueueClass},
		{"GET", "/state/jobs?limit=2", "", nil, 200, state.QueueClass},
		{"GET", "/state/jobs/CONSUMED", "", nil, 200, state.JobClass},
		{"POST", "/content/jobs", "x", nil, 201, state.JobClass},
		{"POST", "/content/jobs", newForm().file("a", "1").file("b", "2").end(), []string{"Content-Type", "multipart/form-data; boundary=b0undary"}, 201, state.QueueClass},
		{"POST", "/content/jobs?type=batch-manifest", manifest, nil, 400, state.ExceptionClass},
		{"DELETE", "/content/jobs/PENDING", "", nil, 202, state.JobClass},
		{"POST", "/delete/jobs/PENDING", "", nil, 202, state.JobClass},
		{"POST", "/delete/jobs?job=PENDING", "", nil, 200, state.QueueClass},
		{"POST", "/hold/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/hold/jobs", "PENDING\n", []string{"Content-Type", "text/plain"}, 200, state.QueueClass},
		{"POST", "/release/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/release/jobs?held", "", nil, 200, state.QueueClass},
		{"POST", "/requeue/jobs/CONSUMED", "", nil, 200, state.JobClass},
		{"POST", "/requeue/jobs/CONSUMED?end", "", nil, 201, state.JobClass},
		{"POST", "/requeue/jobs?status=deleted&dry", "", nil, 200, state.QueueClass},
		{"POST", "/abort/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/lease/jobs/LEASED", "", []string{"Cutie-Lease", "TOKEN"}, 200, state.JobClass},
		{"PUT", "/result/jobs/LEASED/out", "r", []string{"Cutie-Lease", "TOKEN"}, 201, state.JobClass},
		{"POST", "/outcome/jobs/LEASED?outcome=completed", "", []string{"Cutie-Lease", "TOKEN"}, 200, state.JobClass},
		{"POST", "/cull", "", nil, 200, state.ServiceClass},
		{"POST", "/cull/jobs?dry", "", nil, 200, state.QueueClass},
	}
	// A queue that is made is made once for each form, under another name.
	made := 0
	for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		for _, byName := range []bool{true, false} {
			made++
			name := "new" + strings.Repeat("x", made)
			for _, tt := range tests {
				pending := s.submit("p", job.Meta{}).ID.String()
				consumed, leased, token := s.consumed(t)
				fill := strings.NewReplacer("NEW", name, "PENDING", pending, "CONSUMED", consumed, "LEASED", leased, "TOKEN", token).Replace
				path, header := fill(tt.path), []string{}
				for _, h := range tt.header {
					header = append(header, fill(h))
				}
				switch {
				case !byName:
					header = append(header, "Accept", form.MediaType())
				case strings.Contains(path, "?"):
					path += "&t=" + form.String()
				default:
					path += "?t=" + form.String()
				}
				a := s.do(tt.method, path, fill(tt.body), header...)
				if a.StatusCode != tt.status || a.Header.Get("Content-Type") != form.MediaType() {
					t.Errorf("%s %s: got %s %s, want %d %s\n%s", tt.method, path, a.Status, a.Header.Get("Content-Type"), tt.status, form.MediaType(), a.body)
					continue
				}
				if d := a.decoded(t, tt.class); len(d.Properties) < 3 {
					t.Errorf("%s %s: got %+v", tt.method, path, d)
				}
				policy := ""
				if form == state.XHTML {
					policy = state.PagePolicy
				}
				a.header(t, "Content-Security-Policy", policy)
				a.header(t, "X-Content-Type-Options", "nosniff")
				if location := a.Header.Get("Location"); (location == "") != (tt.status != 201) {
					t.Errorf("%s %s: %s with Location %q", tt.method, path, a.Status, location)
				}
			}
		}
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

// consumed puts two jobs into the queue and takes them, the second
// with a lease.
func (s *site) consumed(t *testing.T) (consumed, leased, token string) {
	t.Helper()
	a, b := s.submit("c", job.Meta{}).ID, s.submit("l", job.Meta{}).ID
	for {
		j, err := s.q.Next(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if j.ID == a {
			break
		}
		if _, err := s.q.Requeue(ctx, j.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.q.Hold(ctx, j.ID, ""); err != nil { // out of the way
			t.Fatal(err)
		}
	}
	taken, err := s.q.Take(ctx, queuefs.Take{Lease: 1e12})
	if err != nil || taken[0].ID != b {
		t.Fatalf("got %v, %v, want %v", taken, err, b)
	}
	return a.String(), b.String(), taken[0].Token
}

// Every form on a page goes to a method that knows its fields.
func TestFormsOfPagesAreServed(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", job.Meta{})
	pages := []string{"/state", "/state/jobs", "/state/jobs/j000000000001"}
	seen := 0
	for _, page := range pages {
		body := s.do("GET", page+"?t=xhtml", "").want(t, 200).body
		for _, form := range strings.Split(body, `<form method="post" action="`)[1:] {
			action, _, _ := strings.Cut(form, `"`)
			path := strings.TrimPrefix(strings.ReplaceAll(action, "&amp;", "&"), s.url)
			if a := s.do("POST", path+"&h", "").want(t, 200); !strings.Contains(a.body, "helpState") {
				t.Errorf("%s: no help about %s", page, path)
			}
			seen++
		}
	}
	if seen != 7 {
		t.Errorf("got %d forms, want 7", seen)
	}
}

func TestSchemasAreServed(t *testing.T) {
	s := newSite(t, rest.Options{})
	served := func(name, media string, schema []byte) {
		a := s.do("GET", "/schema/"+name, "").want(t, 200)
		a.header(t, "Content-Type", media)
		want(t, name, a.body, string(schema))
		s.do("GET", "/schema/"+name, "", "If-None-Match", a.Header.Get("Etag")).want(t, 304)
	}
	for name, class := range state.Facts {
		served(name+".json", "application/schema+json", state.JSONSchema(class))
		s.do("GET", "/schema/"+name+".xsd", "").want(t, 404)
	}
	for name, class := range state.Schemas {
		served(name+".json", "application/schema+json", state.JSONSchema(class))
		served(class.Root+".json", "application/schema+json", state.JSONSchema(class))
		served(name+".xsd", "application/xml", state.XMLSchema(class))
	}
}

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

// Whatever a form is like, it is stored as its answer says or not at all.
func FuzzForm(f *testing.F) {
	s := newService(f)
	nowhere, err := outbound.New(outbound.Options{Wait: 1}) // a manifest may name anything
	if err != nil {
		f.Fatal(err)
	}
	h := rest.New(s.svc, rest.Options{Log: s.logged.add, Fetch: nowhere})
	f.Add(newForm().file("m", "http://a/b md5 00\n", "Content-Type: text/checkm").end())
	f.Add(newForm().file("m", "http://192.0.2.1/b\n").field("type", "batch").end())
	f.Add(newForm().file("a", "hello\n").field("digest-type", "md5").field("digest-value", md5OfHello).field("sidecar", "x").end())
	f.Add(newForm().file("a", "b").file("c", "d", "Content-Type: text/plain", "Cutie-Sidecar: x%20").end())
	f.Add(newForm().add(nested("1", "2"), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").end())
	f.Add(newForm().file("a", "b").String())
	f.Fuzz(func(t *testing.T, body string) {
		before := s.q.State()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/content/jobs?t=anvl", strings.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b0undary")
		h.ServeHTTP(w, r)
		after := s.q.State()
		stored := after.Pending - before.Pending
		switch w.Code {
		case 201:
			if !strings.Contains(body, "--b0undary--") {
				t.Error("a form without an end was stored")
			}
			want := int64(1)
			if d, err := state.Decode(state.QueueClass, w.Body.Bytes()); err == nil && d.Property("submittedJobStates") != nil {
				want = int64(len(d.Property("submittedJobStates").Items))
			}
			if stored != want {
				t.Errorf("%d jobs were stored, the answer says %d", stored, want)
			}
		case 400, 413:
			if stored != 0 {
				t.Errorf("%d jobs were stored, the answer is %d", stored, w.Code)
			}
		default:
			t.Errorf("got %d %s, logged %v", w.Code, w.Body, s.logged.all())
		}
		for range stored {
			if _, err := s.q.Next(ctx, "fuzz"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	s := newService(f)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	f.Add("attachment; filename*=UTF-8''a%20b", "x%0Ay", "sha-256=:AA==:, md5=:AA:", "text/plain", "*/*;q=0.1, a/b")
	f.Fuzz(func(t *testing.T, disposition, sidecar, digest, media, accept string) {
		r := httptest.NewRequest("POST", "/content/jobs", strings.NewReader("x"))
		r.Header["Content-Disposition"] = []string{disposition}
		r.Header["Cutie-Sidecar"] = []string{sidecar}
		r.Header["Repr-Digest"] = []string{digest}
		r.Header["Content-Type"] = []string{media}
		r.Header["Accept"] = []string{accept}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("got %d %s, logged %v", w.Code, w.Body, s.logged.all())
		}
		if w.Code != 201 {
			return
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/consume/jobs", nil))
		a := answer{w.Result(), w.Body.String()}
		parts := a.parts(t, "multipart/form-data")
		if parts[0].body != "x" {
			t.Errorf("payload: got %q", parts[0].body)
		}
		_, id, err := state.ParseJobRef(a.Header.Get("Content-Location"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.q.Job(id)
		if err != nil {
			t.Fatal(err)
		}
		if j.Sidecar != "" && parts[1].body != j.Sidecar {
			t.Errorf("sidecar: got %q, want %q", parts[1].body, j.Sidecar)
		}
	})
}

// nested returns a multipart/mixed body of files.
func nested(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "--inner\r\nContent-Disposition: file; filename=\"n%s\"\r\n\r\n%s\r\n", f, f)
	}
	return b.String() + "--inner--\r\n"
}
