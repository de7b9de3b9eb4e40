package uws_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
	"cutie/testdata/tmpfs"
)

// A world is a service with one queue, served to clients.
type world struct {
	maxListed int // 0: the default
	t         testing.TB
	dir       string

	mu  sync.Mutex
	now time.Time
	as  uws.Caller // of the next requests

	security uws.Security

	quiet bool // errors of the Handler are expected

	fault durable.Fault // of the service and the Handler, from the next opening on

	svc *queuefs.Service
	q   *queuefs.Queue
	h   *uws.Handler
	srv *httptest.Server
	web *http.Client
}

// newWorld makes one whose queue has these further settings.
func newWorld(t testing.TB, settings string) *world {
	t.Helper()
	return newWorldIn(t, t.TempDir(), settings)
}

// newWorldIn makes one below a directory.
func newWorldIn(t testing.TB, dir, settings string) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(dir, "home"), now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), as: uws.Caller{Admin: true}}
	w.web = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if err := home.Init(w.dir, home.ServiceInfo{}); err != nil {
		t.Fatal(err)
	}
	w.open(func(svc *queuefs.Service) {
		if _, err := svc.CreateQueue(context.Background(), home.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	})
	if settings != "" {
		w.close()
		name := filepath.Join(w.dir, "queues", "q", "queue-info.txt")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(text, settings...), 0o666); err != nil {
			t.Fatal(err)
		}
		w.open(nil)
	}
	t.Cleanup(w.close)
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) sleep(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
}

func (w *world) open(first func(*queuefs.Service)) {
	w.t.Helper()
	var err error
	if w.svc, err = queuefs.Open(w.dir, queuefs.Options{Now: w.clock, Fault: w.fault, Segment: 1 << 20}); err != nil {
		w.t.Fatal(err)
	}
	if first != nil {
		first(w.svc)
	}
	w.q = w.svc.Queues()[0]
	w.h = uws.New(w.svc, uws.Options{Page: dashboard.Pages{}.UWS, Now: w.clock, MaxListed: w.maxListed, Caller: func(*http.Request, string) uws.Caller { return w.as },
		Security: func(string) uws.Security { return w.security },
		Log: func(r *http.Request, err error) {
			if !w.quiet {
				w.t.Errorf("%s %s: %v", r.Method, r.URL, err)
			}
		}})
	w.srv = httptest.NewServer(web.NewRouter(web.Plain, w.h.Routes()...))
	w.svc.SetBaseURI(w.srv.URL + "/")
}

func (w *world) close() {
	w.srv.Close()
	if err := w.h.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.svc.Close(); err != nil {
		w.t.Error(err)
	}
}

// spooled returns the files of uploads that are on their way.
func (w *world) spooled() []string {
	w.t.Helper()
	if err := w.svc.Checkpoint(context.Background()); err != nil { // payloads get their names
		w.t.Fatal(err)
	}
	return names(w.t, filepath.Join(w.dir, "cutie-tmp"))
}

// cull culls what may be culled, and returns it.
func (w *world) cull() (all []job.ID) {
	w.t.Helper()
	for c, err := range w.svc.Cull(context.Background(), queuefs.CullOptions{Queue: "q", Keep: &queuefs.Thresholds{}}) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, c.Job)
	}
	return all
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		all = append(all, e.Name())
	}
	return all
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func (w *world) tick() {
	w.t.Helper()
	if err := w.h.Tick(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// do sends a request; where may be below /uws/q or a whole URL. A body is a
// form unless a header says otherwise.
func (w *world) do(method, where, body string, header ...string) (status int, location, text string) {
	w.t.Helper()
	if !strings.HasPrefix(where, "http") {
		where = w.srv.URL + "/uws/q/" + where
	}
	r, err := http.NewRequest(method, where, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.web.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(data)
}

// want does it and compares the status.
func (w *world) want(status int, method, where, body string, header ...string) (location, text string) {
	w.t.Helper()
	got, location, text := w.do(method, where, body, header...)
	if got != status {
		w.t.Fatalf("%s %s %s: got %d %s, want %d", method, where, body, got, text, status)
	}
	return location, text
}

// create makes a job and returns its URL.
func (w *world) create(form string, header ...string) string {
	w.t.Helper()
	job, _ := w.want(303, "POST", "async", form, header...)
	if !strings.HasPrefix(job, w.srv.URL+"/uws/q/async/") {
		w.t.Fatalf("got Location %s, want one below the list", job)
	}
	return job
}

func (w *world) get(where string) string {
	w.t.Helper()
	_, text := w.want(200, "GET", where, "")
	return text
}

func (w *world) phase(job, want string) {
	w.t.Helper()
	if got := w.get(job + "/phase"); got != want {
		w.t.Fatalf("got phase %s, want %s", got, want)
	}
	if got := element(w.get(job), "phase"); got != want {
		w.t.Fatalf("got phase %s in the job, want %s", got, want)
	}
}

// take takes a job as a worker does.
func (w *world) take() queuefs.Taken {
	w.t.Helper()
	taken, err := w.q.Take(context.Background(), queuefs.Take{By: "worker", Lease: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	return taken[0]
}

func (w *world) finish(t queuefs.Taken, c job.Conclusion, results ...string) {
	w.t.Helper()
	ctx := context.Background()
	for _, name := range results {
		d, err := w.q.NewResult(ctx, t.ID, t.Token, name, "text/plain", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		io.WriteString(d, "result "+name)
		if _, err := d.Commit(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.q.Conclude(ctx, t.ID, t.Token, c); err != nil {
		w.t.Fatal(err)
	}
}

// element returns the content of the first element of that name.
func element(text, name string) string {
	m := regexp.MustCompile(`(?s)<uws:` + name + `[^>/]*>(.*?)</uws:` + name + `>`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// ids returns the jobs of a list, in its order.
func ids(list string) (all []string) {
	for _, m := range regexp.MustCompile(`jobref id="([^"]*)"`).FindAllStringSubmatch(list, -1) {
		all = append(all, m[1])
	}
	return all
}

func idOf(job string) string { return job[strings.LastIndex(job, "/")+1:] }

// valid checks documents against a schema of the published test material.
func valid(t testing.TB, version string, texts ...string) {
	t.Helper()
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	schema := filepath.Join(shared, "xsd", "UWS-v"+version+".xsd")
	if _, err := os.Stat(schema); err != nil {
		t.Log("documents are not validated: the schemas are not in ../shared/xsd, nor below $CUTIE_SHARED")
		return
	}
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Log("documents are not validated: xmllint is not installed")
		return
	}
	for _, text := range texts {
		cmd := exec.Command("xmllint", "--nonet", "--noout", "--schema", schema, "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
}

// parts is a body of several files and fields, and its type.
func parts(t testing.TB, files map[string]string, fields ...string) (body, mediaType string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		m.WriteField(fields[i], fields[i+1])
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p, err := m.CreateFormFile(name, name+`"x.bin`)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(p, files[name])
	}
	m.Close()
	return b.String(), m.FormDataContentType()
}

// damage gives the job file of a pending job another text between two openings of the home.
func (w *world) damage(id job.ID, edit func(text string) string) {
	w.t.Helper()
	w.close()
	name := filepath.Join(w.dir, "queues", "q", "pending", id.String())
	text, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, name, edit(string(text)))
	w.quiet = true
	w.open(nil)
}

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}
