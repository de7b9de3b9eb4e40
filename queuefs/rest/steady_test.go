package rest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// TestTagsOfStatesNeverLieWhileJobsCome compares all answers that came with
// one entity tag, and the parts of one answer with each other.
func TestTagsOfStatesNeverLieWhileJobsCome(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{})
	const pending, rounds = 200, 150
	for range pending {
		s.submit("x", queuefs.Meta{})
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
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 2 << 20, Now: func() time.Time { return time.Now().Add(-age) }})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	q, err := svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
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
	old := s.submit("x", queuefs.Meta{}).ID.String()
	age = 0
	fresh := s.submit("y", queuefs.Meta{}).ID.String()

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
		types = append(types, [2]string{bad, queuefs.DefaultMediaType})
	}
	s := newSite(t, rest.Options{})
	first := s.submit("payload", queuefs.Meta{MediaType: "image/png"}).ID.String()
	dir := s.svc.Dir()
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "queues/jobs/pending", first))
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range types {
		id := queuefs.JobID(i + 2).String()
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
		id := queuefs.JobID(i + 2).String()
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
