package rest_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
	"cutie/queuefs/web"
)

// nasty is a sidecar that each form has to escape.
const nasty = "a\n\nb: <c> & \"d\" %41 @prefix\n</job:jobState>]"

// split takes a sequence of states apart, into documents that each stand alone.
func split(t *testing.T, form state.Form, body string) (states []string) {
	t.Helper()
	switch form {
	case state.ANVL:
		return strings.Split(body, "\n\n")
	case state.SOIF:
		for _, part := range strings.SplitAfter(body, "\n}\n") {
			if part != "" {
				states = append(states, part)
			}
		}
	case state.JSON:
		var all []json.RawMessage
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		for _, one := range all {
			states = append(states, string(one))
		}
	case state.XML:
		var all struct {
			XMLName xml.Name `xml:"http://uc3.cdlib.org/ontology/mrt/cutie/job jobStates"`
			States  []struct {
				Inner []byte `xml:",innerxml"`
			} `xml:"http://uc3.cdlib.org/ontology/mrt/cutie/job jobState"`
		}
		if err := xml.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		for _, one := range all.States {
			states = append(states, `<job:jobState xmlns:job="`+state.JobClass.Namespace+`">`+string(one.Inner)+`</job:jobState>`)
		}
	case state.Turtle:
		head, rest, ok := strings.Cut(body, "\n\n")
		if !ok || strings.Contains(rest, "\n@prefix") {
			t.Fatalf("not one head:\n%s", body)
		}
		for _, part := range strings.SplitAfter(rest, " .\n") {
			if part != "" {
				states = append(states, head+"\n\n"+part)
			}
		}
	}
	return states
}

// Each state in a sequence is the one that the job has by itself, in every form
// but that for people.
func TestStatesOfJobsInEveryForm(t *testing.T) {
	s, _ := newMixed(t)
	s.submit("10", job.Meta{Filename: "<x>.txt", Sidecar: nasty, MediaType: "text/plain"})
	for _, form := range statetest.Readable([]state.Form{state.ANVL, state.JSON, state.Turtle, state.XML, state.SOIF}) {
		a := s.do("GET", "/state/jobs?detail&t="+form.String(), "").want(t, 200)
		a.header(t, "Content-Type", form.MediaType())
		a.header(t, "Cache-Control", "no-store")
		a.header(t, "Link", "")
		states := split(t, form, a.body)
		if len(states) != 10 {
			t.Fatalf("%v: got %d states\n%s", form, len(states), a.body)
		}
		for i, text := range states {
			got, err := statetest.Read(form, state.JobClass, []byte(text))
			if err != nil {
				t.Fatalf("%v: %v\n%s", form, err, text)
			}
			alone := s.do("GET", fmt.Sprintf("/state/jobs/j%012d?t=%v", i+1, form), "").want(t, 200).decoded(t, state.JobClass)
			want(t, form.String(), form.Append(nil, &got), form.Append(nil, &alone))
		}
	}
	for _, form := range []state.Form{state.XHTML, state.HTML} {
		a := s.do("GET", "/state/jobs?detail", "", "Accept", form.MediaType()).want(t, 200)
		a.header(t, "Content-Type", form.MediaType())
		a.header(t, "Content-Security-Policy", state.PagePolicy)
		d := xml.NewDecoder(strings.NewReader(a.body))
		rows := 0
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, a.body)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "tr" {
				rows++
			}
		}
		if rows != 11 || !strings.Contains(a.body, `<a href="`+s.url+`/state/jobs/j000000000010?t=xhtml">`) || !strings.Contains(a.body, "&lt;x&gt;.txt") || !strings.Contains(a.body, "<style") {
			t.Errorf("%v: %d rows\n%s", form, rows, a.body)
		}
	}
	for _, form := range []state.Form{state.ANVL, state.JSON, state.XML} {
		a := s.do("GET", "/state/jobs?detail&status=pending&submitter=nobody", "", "Accept", form.MediaType()).want(t, 200)
		if body := a.body; form == state.ANVL && body != "" || form == state.JSON && body != "[\n]\n" || form == state.XML && strings.Count(body, "<") != 3 {
			t.Errorf("%v: nothing is %q", form, body)
		}
	}
	resp, err := http.Head(s.url + "/state/jobs?detail&t=anvl&limit=2")
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/x-anvl" || resp.Header.Get("Link") == "" {
		t.Errorf("HEAD: got %v, %v", resp, err)
	}
}

func TestClientGivesJobs(t *testing.T) {
	s, _ := newMixed(t)
	c := client.New(s.url, nil)
	const more = 2 * state.MaxJobs
	for range more {
		s.submit("x", job.Meta{Sidecar: nasty})
	}
	all := func(p bulk.Filter) (ids []job.ID) {
		t.Helper()
		for j, err := range c.Jobs(ctx, "jobs", p) {
			if err != nil {
				t.Fatal(err)
			}
			alone, err := s.q.Job(j.ID)
			if alone.Extra = nil; err != nil || j.ID%500 == 0 && fmt.Sprint(j) != fmt.Sprint(alone) {
				t.Errorf("got %+v, %v, want %+v", j, err, alone)
			}
			ids = append(ids, j.ID)
		}
		return ids
	}
	if got := all(bulk.Filter{}); len(got) != 9+more || got[0] != 1 || got[more] != more+1 || !slices.IsSorted(got) {
		t.Errorf("got %d jobs", len(got))
	}
	if got := all(bulk.Filter{Limit: state.MaxJobs + 1, After: 4}); len(got) != state.MaxJobs+1 || got[0] != 5 {
		t.Errorf("got %d jobs", len(got))
	}
	want(t, "submitter", all(bulk.Filter{Submitter: "other"}), []job.ID{7})
	want(t, "held", all(bulk.Filter{Held: true, Status: job.Pending, Limit: 3}), []job.ID{6})
	for j, err := range c.Jobs(ctx, "jobs", bulk.Filter{}) {
		if err != nil || j.ID != 1 {
			t.Errorf("got %v, %v", j.ID, err)
		}
		break
	}
	for _, err := range c.Jobs(ctx, "none", bulk.Filter{}) {
		if !errors.Is(err, ledger.ErrNoQueue) {
			t.Errorf("got %v", err)
		}
	}
	in, next, err := c.JobStates(ctx, state.JSON, "jobs", bulk.Filter{Limit: 2, After: 3})
	if err != nil || next != 5 {
		t.Fatalf("got %v, %v", next, err)
	}
	text, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil || len(split(t, state.JSON, string(text))) != 2 {
		t.Errorf("got %s, %v", text, err)
	}
}

// breaking takes some octets and no more.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("broken")
	}
	return b.ResponseWriter.Write(p)
}

// What has been sent takes as much memory as one state, and an answer that is
// broken off does not end like a whole one.
func TestStatesOfJobsAreSentAsTheyAreRead(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	sidecar := strings.Repeat("x", 8<<10)
	for range 40 {
		s.submit("x", job.Meta{Sidecar: sidecar})
	}
	w := &breaking{httptest.NewRecorder(), 100 << 10}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("got %v, want %v", p, http.ErrAbortHandler)
			}
		}()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/state/jobs?detail&t=json", nil))
	}()
	body := w.ResponseWriter.(*httptest.ResponseRecorder).Body.Bytes()
	if len(body) < 60<<10 || bytes.HasSuffix(body, []byte("]\n")) {
		t.Errorf("got %d octets, %q at the end", len(body), body[max(0, len(body)-10):])
	}
	if errs := s.logged.all(); len(errs) != 1 || errs[0].Error() != "broken" {
		t.Errorf("logged %v", errs)
	}

	// A client notices.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&breaking{w, 100 << 10}, r) }))
	defer srv.Close()
	var last error
	n := 0
	for _, err := range client.New(srv.URL, nil).Jobs(ctx, "jobs", bulk.Filter{}) {
		if last = err; err == nil {
			n++
		}
	}
	if !errors.Is(last, io.ErrUnexpectedEOF) || n == 0 || n == 40 {
		t.Errorf("got %d jobs, %v", n, last)
	}
}

// A job whose file cannot be read does not end the list of jobs: it is listed as unreadable.
func TestAListNamesJobsThatCannotBeRead(t *testing.T) {
	reads := 0
	was := newServiceWith(t, queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "job file" {
			if reads++; reads%3 == 2 {
				return &os.PathError{Op: "read", Path: "x", Err: syscall.EIO}
			}
		}
		return do()
	}})
	s := was.serve(rest.Options{})
	for range 3 {
		s.submit("payload", job.Meta{Submitter: "s"})
	}
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"anvl", "json", "xml", "ttl", "xhtml"} {
		for _, query := range []string{"", "&submitter=s"} {
			reads = 0
			body := s.direct("GET", "/state/jobs?detail&t="+form+query, "").want(t, 200).body
			for _, want := range []string{"j000000000001", "j000000000002", "j000000000003"} {
				if !strings.Contains(body, want) {
					t.Errorf("%s%s: %s is missing in %s", form, query, want, body)
				}
			}
			if form != "xhtml" && strings.Count(body, "unreadable: input/output error") != 1 {
				t.Errorf("%s%s: nothing says why one is unreadable: %s", form, query, body)
			}
		}
	}
}

// Cutie 0.3, 3.2: jobStates are those of all jobs, if the client asks.
func TestWholeState(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	s.do("POST", "/state/jobs?description=j999999999999", "").want(t, 200) // a trap
	add := func(n int) {
		t.Helper()
		sub := s.q.Begin()
		defer sub.Discard()
		for range n {
			if _, err := sub.Add(job.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, more := range []int{0, 1, 1, 1, 9997, 5000} {
		if more > 0 {
			add(more)
		}
		total += more
		for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML} {
			a := s.do("GET", "/state/jobs?limit=all", "", "Accept", form.MediaType())
			got := a.queue(t)
			if len(got.Jobs.IDs) != total || got.Jobs.More || got.Info.Description != "j999999999999" {
				t.Errorf("%v: got %d of %d jobs, %q", form, len(got.Jobs.IDs), total, got.Info.Description)
			}
			for i, id := range got.Jobs.IDs {
				if id != job.ID(i+1) {
					t.Fatalf("%v: job %d is %v", form, i, id)
				}
			}
			if total <= 3 && form != state.XHTML { // it is the state, but for the length of the page
				part := s.do("GET", "/state/jobs?t="+form.String(), "").body
				for _, limit := range []string{"jobsLimit: 100\n", `"jobsLimit":100,`, " ;\n    que:jobsLimit 100", "<que:jobsLimit>100</que:jobsLimit>\n", "    <que:jobsLimit>100</que:jobsLimit>\n"} {
					if got := strings.Replace(part, limit, "", 1); got == a.body {
						part = got
					}
				}
				want(t, form.String(), a.body, part)
			}
		}
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	if got := s.do("GET", "/state/jobs?limit=all&status=consumed", "", "Accept", "application/json").queue(t); len(got.Jobs.IDs) != 1 {
		t.Errorf("got %v", got.Jobs.IDs)
	}
	if got := s.do("GET", "/state/jobs?limit=all&after=j000000014990", "", "Accept", "application/json").queue(t); len(got.Jobs.IDs) != 10 {
		t.Errorf("got %v", got.Jobs.IDs)
	}
	s.do("GET", "/state/jobs?limit=all&t=soif", "").want(t, 400)
	s.do("GET", "/state/jobs?limit=all&limit=1", "").want(t, 400)
	s.do("GET", "/state/jobs?limit=ALL", "").want(t, 400)
}

// TestTheServiceNamesItsQueuesInPages follows the pages of a home with more queues than
// one has, by their links and with the client.
func TestTheServiceNamesItsQueuesInPages(t *testing.T) {
	s := newSite(t, rest.Options{})
	for n := range state.MaxQueues + 5 {
		if _, err := s.svc.CreateQueue(t.Context(), home.QueueInfo{Identifier: fmt.Sprintf("many%04d", n)}); err != nil {
			t.Fatal(err)
		}
	}
	all := s.svc.Queues()
	next := func(query string) string {
		t.Helper()
		r, err := http.Get(s.url + "/state?t=anvl" + query)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.Header.Get("Link")
	}
	last := all[state.MaxQueues-1].ID()
	if got := next(""); !strings.Contains(got, "after="+last) || !strings.HasSuffix(got, `>; rel="next"`) {
		t.Errorf("got Link %q", got)
	}
	if got := next("&after=" + last); got != "" {
		t.Errorf("last page: got Link %q", got)
	}
	if got := next("&limit=3"); !strings.Contains(got, "after="+all[2].ID()) {
		t.Errorf("limit: got Link %q", got)
	}
	got, err := client.New(s.url, nil).Service(t.Context())
	if err != nil || len(got.Queues) != len(all) {
		t.Fatalf("client: got %d of %d queues, %v", len(got.Queues), len(all), err)
	}
	for i, q := range all {
		if got.Queues[i] != q.ID() {
			t.Fatalf("queue %d is %s, want %s", i, got.Queues[i], q.ID())
		}
	}
}

// TestTagsOfStatesNeverLieWhileJobsCome compares all answers that came with
// one entity tag, and the parts of one answer with each other.
func TestTagsOfStatesNeverLieWhileJobsCome(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{})
	const pending, rounds = 200, 150
	for range pending {
		s.submit("x", job.Meta{})
	}
	moving := "j000000000001"
	done := make(chan struct{})
	var writer, readers, reading sync.WaitGroup
	reading.Add(3)
	writer.Go(func() {
		defer close(done)
		reading.Wait()
		for range rounds {
			if _, err := s.q.NextN(ctx, "worker", 1); err != nil {
				t.Error(err)
			}
			if _, err := s.q.Requeue(ctx, 1); err != nil {
				t.Error(err)
			}
		}
	})
	var mu sync.Mutex
	seen := map[string]string{}
	tagged, untagged := 0, 0
	for _, path := range []string{"/state/jobs?status=pending&limit=1000&t=json", "/state/jobs?status=consumed&t=json", "/state/jobs/" + moving + "?t=json"} {
		readers.Go(func() {
			for n := 0; ; n++ {
				if n == 1 {
					reading.Done()
				}
				select {
				case <-done:
					return
				default:
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				body, tag := w.Body.String(), w.Header().Get("Etag")
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d %s", path, w.Code, body)
					if n == 0 {
						reading.Done()
					}
					return
				}
				mu.Lock()
				if tag == "" {
					untagged++
				} else if tagged++; seen[path+tag] == "" {
					seen[path+tag] = body
				} else if seen[path+tag] != body {
					t.Errorf("%s: tag %s stands for two answers", path, tag)
				}
				mu.Unlock()
				if tag != "" && strings.Contains(path, "status=") {
					listed, counted := jobsIn(t, body, strings.Contains(path, "=pending"))
					if listed != counted {
						t.Errorf("%s: %d jobs listed, %d counted", path, listed, counted)
					}
				}
			}
		})
	}
	readers.Wait()
	writer.Wait()
	if tagged == 0 || untagged > tagged {
		t.Errorf("%d answers with entity tag, %d without", tagged, untagged)
	}
	t.Logf("%d answers with entity tag, %d without", tagged, untagged)
}

// jobsIn returns how many jobs the state of a queue lists, and how many it
// counts of the status that is listed.
func jobsIn(t testing.TB, body string, pending bool) (listed, counted int) {
	t.Helper()
	var q map[string]any
	if err := json.Unmarshal([]byte(body), &q); err != nil {
		t.Fatal(err)
	}
	name := "numCompletedJobs"
	if pending {
		name = "numPendingJobs"
	}
	n, ok := q[name].(float64)
	if !ok {
		t.Fatalf("no %s in %s", name, body)
	}
	return strings.Count(body, "/state/jobs/j0"), int(n)
}

func TestLastModifiedOfAJobFileWaitsUntilItsSecondIsOver(t *testing.T) {
	age := time.Hour // of what happens
	dir := t.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 2 << 20, Now: func() time.Time { return time.Now().Add(-age) }})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, svc: svc, q: q}
	h := rest.New(svc, rest.Options{})
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	old := s.submit("x", job.Meta{}).ID.String()
	age = 0
	fresh := s.submit("y", job.Meta{}).ID.String()

	w := get("/queues/jobs/pending/" + old)
	if w.Header().Get("Last-Modified") == "" {
		t.Error("an old job file has no Last-Modified")
	}
	if got := get("/queues/jobs/pending/"+old, "If-Modified-Since", w.Header().Get("Last-Modified")); got.Code != 304 {
		t.Errorf("old job file: %d, want 304", got.Code)
	}
	// Whatever date a client has, a file this young may change once more in it.
	soon := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
	for _, path := range []string{"/queues/jobs/pending/" + fresh, "/queues/jobs/queue-info.txt"} {
		w := get(path, "If-Modified-Since", soon)
		if w.Code != 200 || w.Header().Get("Last-Modified") != "" {
			t.Errorf("%s: %d, Last-Modified %q", path, w.Code, w.Header().Get("Last-Modified"))
		}
	}
	// A file that somebody has edited is not as old as the last event.
	name := filepath.Join(dir, "queues", "jobs", "pending", old)
	if err := svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, "note: edited\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := get("/queues/jobs/pending/"+old, "If-Modified-Since", soon); w.Code != 200 || !strings.Contains(w.Body.String(), "edited") {
		t.Errorf("edited job file: %d %s", w.Code, w.Body)
	}
}

// TestMediaTypesThatNobodyCouldSubmit has jobs in the directory with media types that
// would break out of a header.
func TestMediaTypesThatNobodyCouldSubmit(t *testing.T) {
	types := [][2]string{ // in the file, and in answers
		{"text/plain", "text/plain"},
		{`text/plain; charset="utf-8"`, `text/plain; charset="utf-8"`},
	}
	for _, bad := range []string{"text/html%0d%0aX-Evil: 1", "text/html%0d%0a%0d%0a<script>", "text/html%0d%0a", "%0d%0atext/html", "text/html%0d%0a;charset=utf-8",
		`text/html; charset="a%0d%0ab"`, "text/html;%00", "text/html; charset", "text", "/", "text/", "multipart/mixed; boundary=x; boundary=y", "nonsense of some length"} {
		types = append(types, [2]string{bad, job.DefaultMediaType})
	}
	s := newSite(t, rest.Options{})
	first := s.submit("payload", job.Meta{MediaType: "image/png"}).ID.String()
	dir := s.svc.Dir()
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "queues/jobs/pending", first))
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range types {
		id := job.ID(i + 2).String()
		edited := strings.NewReplacer("image/png", typ[0], first, id).Replace(string(text))
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "queues/jobs/pending", id), []byte(edited), 0o600),
			os.WriteFile(filepath.Join(dir, "queues/jobs/payload", id), []byte("payload"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	s.svc = svc
	s.serve(rest.Options{})
	check := func(typ [2]string, what string, header http.Header, body string) {
		t.Helper()
		if got := header.Get("Content-Type"); got != typ[1] || body != "payload" || len(header["X-Evil"]) > 0 {
			t.Errorf("%q, %s: got %v %q, want %q", typ[0], what, header, body, typ[1])
		}
	}
	for i, typ := range types {
		id := job.ID(i + 2).String()
		a := s.do("GET", "/queues/jobs/payload/"+id, "").want(t, 200)
		check(typ, "file", a.Header, a.body)
		a = s.do("GET", "/content/jobs/"+id, "", "Accept", "application/octet-stream").want(t, 200)
		check(typ, "bare", a.Header, a.body)
		for _, media := range []string{"multipart/form-data", "multipart/mixed"} {
			parts := s.do("GET", "/content/jobs/"+id, "", "Accept", media).want(t, 200).parts(t, media)
			check(typ, media, http.Header(parts[0].header), parts[0].body)
		}
	}
	parts := s.do("POST", "/consume/jobs?max=100", "").want(t, 200).parts(t, "multipart/mixed")
	if len(parts) != len(types)+1 {
		t.Fatalf("got %d parts", len(parts))
	}
	for i, typ := range types {
		check(typ, "several", http.Header(parts[i+1].header), parts[i+1].body)
	}
}

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
	s.submit("x", job.Meta{})
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

// tag returns the entity tag of a state.
func (s *site) tag(t *testing.T, path string) string {
	t.Helper()
	tag := s.do("GET", path, "").want(t, 200).Header.Get("Etag")
	if tag == "" {
		t.Fatalf("%s has no tag", path)
	}
	return tag
}

// Of several who change the same state one does.
func TestOneOfManyChangesTheStateThatTheyHaveSeen(t *testing.T) {
	s := newSite(t, rest.Options{})
	tag := s.tag(t, "/state/jobs")
	var (
		all     sync.WaitGroup
		changed atomic.Int64
	)
	for n := range 8 {
		all.Go(func() {
			a := s.do("POST", fmt.Sprint("/state/jobs?description=by+", n), "", "If-Match", tag)
			switch a.StatusCode {
			case 200:
				changed.Add(1)
			case 412:
			default:
				t.Errorf("got %s", a.Status)
			}
		})
	}
	all.Wait()
	want(t, "changes", int(changed.Load()), 1)
}
