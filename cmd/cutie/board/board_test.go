package board_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/board"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/history"
	"cutie/cmd/cutie/live"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/web"
)

// A house is a service with its pages and its protocol.
type house struct {
	board   *board.Board
	t       *testing.T
	svc     *queuefs.Service
	past    *history.History
	sampler *board.Sampler
	router  *web.Router
}

// build returns a house with queues.
func build(t *testing.T, queues ...string) *house {
	t.Helper()
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "service", Identifier: "x:y"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	svc.SetBaseURI("http://127.0.0.1:1/")
	for _, id := range queues {
		if _, err := svc.CreateQueue(context.Background(), queuefs.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1, Acknowledge: queuefs.AckRequired}); err != nil {
			t.Fatal(err)
		}
	}
	past, err := history.Open(filepath.Join(dir, "log", "history"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { past.Close() })
	pub, err := publisher.New(svc, publisher.Options{BaseURI: "http://127.0.0.1:1/", Page: dashboard.About})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	svc.Follow(pub)
	h := &house{t: t, svc: svc, past: past, sampler: board.NewSampler(svc, nil, past)}
	b := &board.Board{Service: svc, History: past, Published: pub, Hub: &live.Hub{Every: time.Millisecond, Lifetime: 500 * time.Millisecond, Idle: time.Minute, Watchers: 9}}
	protocol := rest.New(svc, rest.Options{Taken: h.sampler.Taken, Concluded: h.sampler.Concluded, Pages: dashboard.Pages{Asides: b}})
	t.Cleanup(protocol.Close)
	h.board, h.router = b, web.NewRouter(web.Plain, append(protocol.Routes(), b.Routes()...)...)
	return h
}

// ask sends a request with rights, and expects a status.
func (h *house) ask(rights, method, path string, status int, body url.Values) string {
	h.t.Helper()
	if w := h.answer(rights, method, path, status, body); w != nil {
		return w.Body.String()
	}
	return ""
}

// location sends a form of a page, and returns the way it leads.
func (h *house) location(rights, path string, body url.Values) string {
	h.t.Helper()
	return h.answer(rights, "POST", path, http.StatusSeeOther, body).Header().Get("Location")
}

// answer sends a request with rights, and expects a status; nil: it was not admitted.
func (h *house) answer(rights, method, path string, status int, body url.Values) *httptest.ResponseRecorder {
	h.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body.Encode()))
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("User-Agent", "agent/1")
	if strings.Contains(path, "t=xhtml") { // a browser
		r.Header.Set("Accept", "text/html")
	}
	parsed, err := access.ParseRights(rights)
	if err != nil {
		h.t.Fatal(err)
	}
	gate, err := access.New(access.Options{Anonymous: parsed, Queue: func(name string) (string, bool) { return name, true }})
	if err != nil {
		h.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m := h.router.Match(r)
	caller, err := gate.Admit(w.Header(), r, m.Need(), m.Queue(), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			h.t.Fatalf("%s %s: %v", method, path, err)
		}
		return nil
	}
	may := func(method, path string) bool {
		u, err := url.Parse(path)
		if err != nil {
			return false
		}
		m := h.router.Find(method, u)
		return m.Route != nil && gate.Allows(caller, m.Need(), m.Queue())
	}
	m.Serve(w, r.WithContext(web.WithMay(access.WithCaller(r.Context(), caller), may)))
	if w.Code != status {
		h.t.Fatalf("%s %s: got %d %.300s", method, path, w.Code, w.Body)
	}
	return w
}

func (h *house) submit(queue, name, sidecar string) {
	h.t.Helper()
	h.ask("all", "POST", "/content/"+queue+"?filename="+url.QueryEscape(name)+"&sidecar="+url.QueryEscape(sidecar), http.StatusCreated, nil)
}

// jobs are the jobs of the rows of a page, in their order.
func jobs(page string) string {
	var ids []string
	for _, m := range regexp.MustCompile(`<td class="t"><a href="[^"]*">j0*(\d+)</a></td>`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return strings.Join(ids, " ")
}

// next is the reference of a page to go on.
func next(page string) string {
	if m := regexp.MustCompile(`<a rel="next" href="http://127\.0\.0\.1:1([^"#]*)(?:#found)?"`).FindStringSubmatch(page); m != nil {
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	return ""
}

// A search goes back from the newest job, over as many pages as it takes.
func TestSearchGoesBackFromTheNewest(t *testing.T) {
	t.Parallel()
	h := build(t, "q")
	for i := 1; i <= 250; i++ {
		h.submit("q", fmt.Sprintf("scan-%03d", i), map[bool]string{true: "Box Seven"}[i%50 == 0])
	}
	h.ask("all", "POST", "/consume/q", http.StatusOK, url.Values{"max": {"3"}, "lease": {"60"}})
	h.ask("all", "POST", "/hold/q/j000000000100", http.StatusOK, url.Values{"reason": {"wait for SEVEN more"}})
	for _, tt := range []struct{ query, want string }{
		{"text=box+sev", "250 200 150 100 50"},
		{"text=SCAN-01", "19 18 17 16 15 14 13 12 11 10"},
		{"text=box&held=true", "100"},
		{"status=consumed", "3 2 1"},
		{"worker=AGENT", "3 2 1"},
		{"worker=other", ""},
		{"submitter=agent/1&text=-249", "249"},
		{"submitter=agent", ""},
		{"since=2100-01-01T00:00Z", ""},
		{"until=2100-01-01T00:00Z&text=-001", "1"},
		{"outcome=error", ""},
	} {
		page := h.ask("read", "GET", "/find/q?"+tt.query, http.StatusOK, nil)
		if got := jobs(page); got != tt.want || next(page) != "" || !strings.Contains(page, "back to the first one") {
			t.Errorf("%s: got %q, want %q; next %q", tt.query, got, tt.want, next(page))
		}
	}
	var all []string
	for path, n := "/find/q?text=scan", 0; path != ""; n++ {
		page := h.ask("read", "GET", path, http.StatusOK, nil)
		all = append(all, strings.Fields(jobs(page))...)
		if path = next(page); n > 3 {
			t.Fatal("no end")
		}
	}
	if len(all) != 250 || all[0] != "250" || all[249] != "1" {
		t.Errorf("pages together have %d jobs, %v", len(all), all)
	}
	for _, bad := range []string{"status=x", "outcome=x", "since=yesterday", "before=1", "text=" + strings.Repeat("x", 1001)} {
		h.ask("read", "GET", "/find/q?"+bad, http.StatusBadRequest, nil)
	}
}

// A preview of a change says how many jobs it concerns, changes nothing, and its form
// makes this change, for readers with the right alone.
func TestAPreviewIsTheChange(t *testing.T) {
	t.Parallel()
	h := build(t, "q")
	for i := range 5 {
		h.submit("q", fmt.Sprint("scan-", i), "")
	}
	h.ask("all", "POST", "/hold/q/j000000000002", http.StatusOK, nil)
	page := h.ask("all", "GET", "/bulk/q?method=delete&held=true", http.StatusOK, nil)
	if !strings.Contains(page, "1 job would be deleted.") || !strings.Contains(page, `name="held" value="true"`) {
		t.Errorf("got %s", page)
	}
	page = h.ask("all", "GET", "/bulk/q?method=hold&job=j000000000001&job=j000000000004&job=j000000000009&status=", http.StatusOK, nil)
	for _, want := range []string{"2 jobs would be put on hold.", "j000000000009: job not found", `action="http://127.0.0.1:1/hold/q?t=xhtml"`,
		`name="job" value="j000000000001"`, `name="reason"`, "can undo it: release"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if q, _ := h.svc.Queue("q"); q.State().Held != 1 {
		t.Error("the preview has changed jobs")
	}
	if page := h.ask("read", "GET", "/bulk/q?method=hold&status=pending", http.StatusOK, nil); strings.Contains(page, "<form") || !strings.Contains(page, "4 jobs would be put on hold.") {
		t.Errorf("a reader may change: %s", page)
	}
	if page := h.ask("read", "GET", "/find/q", http.StatusOK, nil); strings.Contains(page, `type="checkbox"`) {
		t.Error("a reader may choose")
	}
	for _, bad := range []string{"method=consume&status=pending", "method=hold", "method=hold&job=x"} {
		h.ask("all", "GET", "/bulk/q?"+bad, http.StatusBadRequest, nil)
	}
}

// No page shows a queue to a reader without the right, nor figures of all queues together.
func TestPagesKeepQueuesApart(t *testing.T) {
	t.Parallel()
	h := build(t, "open", "secret")
	h.submit("open", "open-file", "")
	h.submit("secret", "secret-file", "")
	for _, q := range []string{"open", "secret"} {
		h.ask("all", "POST", "/consume/"+q, http.StatusOK, url.Values{"lease": {"60"}})
	}
	if err := h.sampler.Sample(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/workers", "/live", "/live?page=workers"} {
		page := h.ask("read:open", "GET", path, http.StatusOK, nil)
		if strings.Contains(page, "secret") || strings.Contains(page, "<svg") || !strings.Contains(page, "open") {
			t.Errorf("%s: got %s", path, page)
		}
		if page = h.ask("read", "GET", path, http.StatusOK, nil); !strings.Contains(page, "secret") || !strings.Contains(path, "workers") && !strings.Contains(page, "<svg") {
			t.Errorf("%s, all queues: got %s", path, page)
		}
	}
	for _, path := range []string{"/history", "/history/secret", "/workers/secret", "/find/secret", "/failures/secret", "/batches/secret", "/bulk/secret?method=hold&status=pending", "/live/secret", "/live/secret?page=workers", "/live/secret/j000000000001?sequence=1"} {
		h.ask("read:open", "GET", path, http.StatusForbidden, nil)
		h.ask("read", "GET", path, http.StatusOK, nil)
		if strings.HasSuffix(path, "secret") {
			h.ask("read:open", "GET", strings.Replace(path, "secret", "open", 1), http.StatusOK, nil)
		}
	}
}

// Documents of ResourceSync are pages with links to pages, within the rights of the
// reader.
func TestDocumentsAreReadByLinks(t *testing.T) {
	t.Parallel()
	h := build(t, "open", "secret")
	h.submit("open", "a & <b>", "")
	page := h.ask("read:open", "GET", "/read", http.StatusOK, nil)
	if strings.Contains(page, "secret") {
		t.Errorf("the page names a queue without the right to read it: %s", page)
	}
	seen := map[string]bool{}
	for left := []string{"/read"}; len(left) > 0; left = left[1:] {
		if seen[left[0]] {
			continue
		}
		seen[left[0]] = true
		for _, m := range regexp.MustCompile(`href="http://127\.0\.0\.1:1(/read[^"]*)"`).FindAllStringSubmatch(h.ask("read:open", "GET", left[0], http.StatusOK, nil), -1) {
			left = append(left, m[1])
		}
	}
	for _, path := range []string{"/read/open/replica/capabilitylist.xml", "/read/open/replica/resourcelist.xml", "/read/open/pending/changelist.xml"} {
		if !seen[path] {
			t.Errorf("no link leads to %s: %v", path, seen)
		}
	}
	if page := h.ask("read:open", "GET", "/read/open/replica/changelist.xml", http.StatusOK, nil); !strings.Contains(page, `href="http://127.0.0.1:1/queues/open/payload/j000000000001"`) {
		t.Errorf("no payload in %s", page)
	}
	h.ask("read:open", "GET", "/read/secret/replica/changelist.xml", http.StatusForbidden, nil)
	h.ask("read", "GET", "/read/secret/replica/changelist.xml", http.StatusOK, nil)
	for _, path := range []string{"/read/open/replica/none.xml", "/read/none/replica/changelist.xml", "/read/open/replica/about.json", "/read/x"} {
		h.ask("all", "GET", path, http.StatusNotFound, nil)
	}
}

// The figures cover the time between two samples.
func TestSamplesAreOfTheTimeBetween(t *testing.T) {
	t.Parallel()
	h := build(t, "q", "idle")
	for i := range 3 {
		h.submit("q", fmt.Sprint(i), "")
	}
	sample := func() history.Point {
		t.Helper()
		if err := h.sampler.Sample(context.Background()); err != nil {
			t.Fatal(err)
		}
		points, ok := h.past.Of("", history.Hour, time.Now())
		if !ok {
			t.Fatal("no history")
		}
		return points[history.Points-1]
	}
	if p := sample(); p[history.Pending] != 3 || p[history.In] == p[history.In] || p[history.Oldest] <= 0 || p[history.FreeDisk] <= 0 || p[history.Memory] <= 0 {
		t.Errorf("first: %v", p)
	}
	h.submit("q", "more", "")
	taken := h.ask("all", "POST", "/consume/q", http.StatusOK, url.Values{"max": {"2"}, "lease": {"60"}})
	token := regexp.MustCompile(`(?i)cutie-lease: (\S+)`).FindStringSubmatch(taken)
	if token == nil {
		t.Fatalf("no lease in %s", taken)
	}
	h.ask("all", "POST", "/outcome/q/j000000000001", http.StatusOK, url.Values{"lease": {token[1]}, "outcome": {"error"}, "type": {"fatal"}})
	p := sample()
	if p[history.Pending] != 2 || p[history.InWork] != 1 || p[history.In] <= 0 || p[history.Out] != 2*p[history.In] || p[history.Failed] != p[history.In] ||
		p[history.Queued] <= 0 || p[history.Worked] <= 0 {
		t.Errorf("second: %v", p)
	}
	if _, ok := h.past.Of("idle", history.Hour, time.Now()); ok {
		t.Error("an idle queue has a history")
	}
	if points, ok := h.past.Of("q", history.Hour, time.Now()); !ok || points[history.Points-1][history.Out] != p[history.Out] {
		t.Error("the queue has not the figures of the service")
	}
	for _, path := range []string{"/history", "/history/q?span=day", "/history/idle", "/state/q?t=xhtml"} {
		page := h.ask("read", "GET", path, http.StatusOK, nil)
		if got := strings.Contains(page, "<svg"); got != !strings.Contains(path, "idle") {
			t.Errorf("%s: charts %v", path, got)
		}
	}
	h.ask("read", "GET", "/history?span=year", http.StatusBadRequest, nil)
	if err := h.svc.RemoveQueue(context.Background(), "idle"); err != nil {
		t.Fatal(err)
	}
	sample()
}

// The first screen is small, with many queues and jobs too.
func TestFirstScreensAreSmall(t *testing.T) {
	t.Parallel()
	var queues []string
	for i := range dashboard.IndexQueues + 1 {
		queues = append(queues, fmt.Sprintf("a-rather-long-name-of-a-queue-%d", i))
	}
	h := build(t, queues...)
	for i := range 150 {
		h.submit(queues[0], fmt.Sprintf("a-rather-long-name-of-a-file-%d.tiff", i), "")
	}
	h.sampler.Sample(context.Background())
	for _, path := range []string{"/", "/state/" + queues[0] + "?t=xhtml"} {
		if page := h.ask("read", "GET", path, http.StatusOK, nil); len(page) > 100_000 {
			t.Errorf("%s has %d octets", path, len(page))
		}
	}
}

// The script has one URL for each text of it, for ever.
func TestTheScriptIsCached(t *testing.T) {
	t.Parallel()
	h := build(t)
	page := h.ask("read", "GET", "/", http.StatusOK, nil)
	m := regexp.MustCompile(`<script type="text/javascript" src="http://127.0.0.1:1(/[^"]*)" integrity="(sha256-[^"]*)"></script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no script in %s", page)
	}
	w := httptest.NewRecorder()
	h.router.ServeHTTP(w, httptest.NewRequest("GET", m[1], nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || !strings.Contains(dashboard.Policy, "script-src '"+strings.ReplaceAll(m[2], "&#43;", "+")+"'") ||
		strings.Contains(dashboard.Policy, "unsafe") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), dashboard.Policy)
	}
	h.ask("read", "GET", "/dashboard/live.0.js", http.StatusNotFound, nil)
}
