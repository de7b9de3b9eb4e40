package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/topics"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/testdata/tmpfs"
)

// A house is a service with its pages and its protocol.
type house struct {
	board   *dashboard.Board
	t       *testing.T
	svc     *queuefs.Service
	past    *dashboard.History
	sampler *dashboard.Sampler
	router  *web.Router
}

// build returns a house with queues.
func build(t *testing.T, queues ...string) *house {
	t.Helper()
	dir := t.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "A & <b>", Identifier: "x:y"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	svc.SetBaseURI("http://127.0.0.1:1/")
	for _, id := range queues {
		if _, err := svc.CreateQueue(context.Background(), home.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1, Acknowledge: job.AckRequired}); err != nil {
			t.Fatal(err)
		}
	}
	past, err := dashboard.OpenHistory(openDir(t, filepath.Join(dir, "log")))
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
	h := &house{t: t, svc: svc, past: past, sampler: dashboard.NewSampler(svc, nil, past)}
	b := &dashboard.Board{Service: svc, History: past, Published: pub, Hub: &dashboard.Hub{Every: time.Millisecond, Lifetime: 500 * time.Millisecond, Idle: time.Minute, Watchers: 9}}
	protocol := rest.New(svc, rest.Options{Taken: h.sampler.Taken, Concluded: h.sampler.Concluded, Pages: dashboard.Pages{Asides: b},
		Reads: func(r *http.Request, queue string) bool { return access.CallerOf(r.Context()).May(web.Read, queue) }})
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
	sample := func() dashboard.Point {
		t.Helper()
		if err := h.sampler.Sample(context.Background()); err != nil {
			t.Fatal(err)
		}
		return h.past.Of("", dashboard.Hour, time.Now())[dashboard.Points-1]
	}
	if p := sample(); p[dashboard.Pending] != 3 || p[dashboard.In] == p[dashboard.In] || p[dashboard.Oldest] <= 0 || p[dashboard.FreeDisk] <= 0 || p[dashboard.Memory] <= 0 {
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
	if p[dashboard.Pending] != 2 || p[dashboard.InWork] != 1 || p[dashboard.In] <= 0 || p[dashboard.Out] != 2*p[dashboard.In] || p[dashboard.Failed] != p[dashboard.In] ||
		p[dashboard.Queued] <= 0 || p[dashboard.Worked] <= 0 {
		t.Errorf("second: %v", p)
	}
	if h.past.Of("idle", dashboard.Hour, time.Now()) != nil {
		t.Error("an idle queue has a history")
	}
	if points := h.past.Of("q", dashboard.Hour, time.Now()); points == nil || points[dashboard.Points-1][dashboard.Out] != p[dashboard.Out] {
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

// The page of the service shows its reader the queues within their rights, and the form
// to create one to administrators alone.
func TestIndexShowsWhatTheReaderMay(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.svc.SetBaseURI("http://127.0.0.1:8080/base")
	for _, info := range []home.QueueInfo{{Identifier: "one", Name: "<script>&", CullingSize: -1, CullingAge: -1},
		{Identifier: "two", Paused: time.Now(), CullingSize: -1, CullingAge: -1}} {
		if _, err := h.svc.CreateQueue(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		rights            string
		one, two, creates bool
	}{
		{"all", true, true, true},
		{"read", true, true, false},
		{"read:two,admin:two", false, true, false},
	} {
		w := h.answer(tt.rights, "GET", "/", http.StatusOK, nil)
		page := w.Body.String()
		for text, want := range map[string]bool{
			`<a href="http://127.0.0.1:8080/base/state/one?t=xhtml">&lt;script&gt;&amp;</a>`:                        tt.one,
			`<a href="http://127.0.0.1:8080/base/state/two?t=xhtml">two</a> <span class="badge warn">paused</span>`: tt.two,
			`<form method="post" action="http://127.0.0.1:8080/base/state?t=xhtml">`:                                tt.creates,
			"<h1>A &amp; &lt;b&gt;</h1>": true,
			"<script>":                   false,
		} {
			if got := strings.Contains(page, text); got != want {
				t.Errorf("%s: page has %s: %v, want %v", tt.rights, text, got, want)
			}
		}
		if got := w.Header().Get("Content-Security-Policy"); got != dashboard.Policy {
			t.Errorf("%s: got policy %q", tt.rights, got)
		}
		parsePage(t, w.Body.Bytes())
	}
}

// Failed jobs are counted by reason, the most frequent first; those of one reason run again
// after a preview, and no others.
func TestFailuresHaveReasons(t *testing.T) {
	t.Parallel()
	h := build(t, "q")
	if page := h.ask("read", "GET", "/failures/q", http.StatusOK, nil); !strings.Contains(page, "No job has failed.") {
		t.Errorf("an empty queue has failures:\n%s", page)
	}
	for i, message := range []string{"", "<b>: no page 17", "scan-001.tif: no <i> page 17", "scan-002.tif: no <i> page 17", "status 404", "status 503", "done"} {
		h.submit("q", "<u>", "")
		taken := h.ask("all", "POST", "/consume/q", http.StatusOK, url.Values{"max": {"1"}, "lease": {"60"}})
		token := regexp.MustCompile(`(?i)cutie-lease: (\S+)`).FindStringSubmatch(taken)
		end := url.Values{"lease": {token[1]}, "outcome": {"error"}, "type": {"fatal"}, "message": {message}}
		if message == "done" {
			end = url.Values{"lease": end["lease"], "outcome": {"completed"}}
		}
		h.ask("all", "POST", fmt.Sprintf("/outcome/q/j%012d", i+1), http.StatusOK, end)
	}
	page := h.ask("all", "GET", "/failures/q", http.StatusOK, nil)
	var rows []string
	for _, m := range regexp.MustCompile(`<tr><td class="t"><b>(\d+) ×</b></td><td class="text">([^/]*)</td>.*?>j0*(\d+)</a></td><td class="text wide">&lt;u&gt;</td>.*name="jobs" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		rows = append(rows, strings.Join(m[1:], "; "))
	}
	want := "2; …: no &lt;i&gt; page 17; 4; j000000000003-j000000000004\n1; status 503; 6; j000000000006\n1; status 404; 5; j000000000005\n" +
		"1; &lt;b&gt;: no page 17; 2; j000000000002\n1; no reason given; 1; j000000000001"
	if got := strings.Join(rows, "\n"); got != want || !strings.Contains(page, "6 failed jobs by reason.") {
		t.Errorf("got reasons\n%s\nwant\n%s\n%s", got, want, page)
	}
	preview := h.ask("all", "POST", "/bulk/q", http.StatusOK, url.Values{"method": {"requeue"}, "jobs": {"j000000000003-j000000000004"}})
	if !strings.Contains(preview, "2 jobs would be requeued.") {
		t.Errorf("the preview has other jobs:\n%s", preview)
	}
	h.ask("all", "POST", "/requeue/q?t=xhtml", http.StatusOK, hidden(t, preview, "/requeue/q?t=xhtml"))
	if page := h.ask("read", "GET", "/failures/q", http.StatusOK, nil); !strings.Contains(page, "4 failed jobs by reason.") || strings.Contains(page, "&lt;i&gt;") || strings.Contains(page, "<form") {
		t.Errorf("after the requeue, for a reader:\n%s", page)
	}
}

// Whoever watches a job learns that it has changed after the event of the page, or is gone.
func TestJobsHaveNews(t *testing.T) {
	t.Parallel()
	h := build(t, "q")
	h.submit("q", "file", "")
	h.ask("all", "POST", "/delete/q/j000000000001", http.StatusAccepted, nil)
	for path, want := range map[string]string{
		"/live/q/j000000000001?sequence=1": "Now it is deleted. <a href=\"http://127.0.0.1:1/state/q/j000000000001?t=xhtml\">",
		"/live/q/j000000000001?sequence=2": "role=\"status\"></div>",
		"/live/q/j000000000009?sequence=1": "The job is gone",
	} {
		if got := h.ask("read", "GET", path, http.StatusOK, nil); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for _, bad := range []string{"j000000000001", "j000000000001?sequence=-1"} {
		h.ask("read", "GET", "/live/q/"+bad, http.StatusBadRequest, nil)
	}
	h.ask("read", "GET", "/live/q/x?sequence=1", http.StatusNotFound, nil)
}

var (
	hrefs   = regexp.MustCompile(`<a [^>]*href="http://127\.0\.0\.1:1([^"]*)"`)
	actions = regexp.MustCompile(`<form method="post" action="http://127\.0\.0\.1:1([^"]*)"`)
)

func found(r *regexp.Regexp, page string) (all []string) {
	for _, m := range r.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// A caller without the right to read finds at / and /own the things to be done with other
// rights, and nothing that can only be refused.
func TestCallersWhoMayNotReadHaveTheirPages(t *testing.T) {
	h := build(t, "jobs", "hidden")
	h.submit("jobs", "secret.txt", "")
	for _, tt := range []struct {
		rights       string
		index, links []string
		forms        []string
	}{
		{"submit:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/content/jobs?t=xhtml"}},
		{"consume:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/consume/jobs?t=xhtml"}},
		{"consume:jobs,submit:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/content/jobs?t=xhtml", "/consume/jobs?t=xhtml"}},
		{"delete:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/hold/jobs?t=xhtml", "/release/jobs?t=xhtml", "/delete/jobs?t=xhtml"}},
	} {
		page := h.ask(tt.rights, "GET", "/", http.StatusOK, nil)
		if got := found(hrefs, page); !slices.Equal(got, tt.index) || strings.Contains(page, "hidden") {
			t.Errorf("%s: got links %q, want %q: %s", tt.rights, got, tt.index, page)
		}
		page = h.ask(tt.rights, "GET", "/own/jobs", http.StatusOK, nil)
		if got := found(hrefs, page); !slices.Equal(got, tt.links) {
			t.Errorf("%s: got links %q, want %q", tt.rights, got, tt.links)
		}
		if got := found(actions, page); !slices.Equal(got, tt.forms) || strings.Contains(page, "secret.txt") {
			t.Errorf("%s: got forms %q, want %q: %s", tt.rights, got, tt.forms, page)
		}
		h.ask(tt.rights, "GET", "/own/hidden", http.StatusUnauthorized, nil)
	}
	// Readers of some queues find the others beside theirs.
	page := h.ask("read:hidden,submit:jobs", "GET", "/", http.StatusOK, nil)
	if got := found(hrefs, page); !slices.Contains(got, "/own/jobs") || !slices.Contains(got, "/state/hidden?t=xhtml") || slices.Contains(got, "/own/hidden") || slices.Contains(got, "/state/jobs?t=xhtml") {
		t.Errorf("got links %q", got)
	}
}

// Forms lead these callers back to a page of theirs, and the holder of a lease sees the
// beginning of the payload.
func TestFormsLeadBackToPagesOfTheirSenders(t *testing.T) {
	h := build(t, "jobs")
	for _, tt := range []struct{ rights, path, want string }{
		{"submit:jobs", "/content/jobs?t=xhtml", "/own/jobs?job=j000000000001"},
		{"read:jobs,submit:jobs", "/content/jobs?t=xhtml", "/state/jobs/j000000000002?t=xhtml"},
	} {
		if got := h.location(tt.rights, tt.path, url.Values{"payload": {"x"}}); got != "http://127.0.0.1:1"+tt.want {
			t.Errorf("%s: got %s, want %s", tt.rights, got, tt.want)
		}
	}
	for range 2 {
		page := h.ask("consume:jobs", "POST", "/consume/jobs?t=xhtml", http.StatusOK, url.Values{"lease": {"60"}})
		for _, want := range []string{"You have this job until", "<h2>Payload</h2>", "/outcome/jobs/"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not on %s", want, page)
			}
		}
		if links := found(hrefs, page[:strings.Index(page, "<h2 id=\"properties\">")]); !slices.Equal(links, []string{"/", "/own/jobs", "/manual"}) {
			t.Errorf("got links %q", links)
		}
	}
	if got := h.location("consume:jobs", "/consume/jobs?t=xhtml", url.Values{}); got != "http://127.0.0.1:1/own/jobs?taken=none" {
		t.Errorf("without a job: got %s", got)
	}
	for query, want := range map[string]string{"?job=j000000000001": "Done: job j000000000001", "?jobs=2": "Submitted: 2 jobs", "?taken=none": "No job is pending", "?job=<b>": "Submit a job"} {
		if page := h.ask("submit:jobs", "GET", "/own/jobs"+query, http.StatusOK, nil); !strings.Contains(page, want) || strings.Contains(page, "<b>") {
			t.Errorf("%s: %q is not on %s", query, want, page)
		}
	}
}

// The answer to a change is the same for programs that ask for a page: without the right to
// read, nothing of the job or of the queue beside it is in it.
func TestPagesOfChangesKeepToTheRightsOfTheirSenders(t *testing.T) {
	h := build(t, "jobs")
	for range 2 {
		h.ask("all", "POST", "/content/jobs?filename=secret-name&sidecar=secret-sidecar", http.StatusCreated, url.Values{"payload": {"secret-payload"}})
	}
	for _, rights := range []string{"delete:jobs", "delete:jobs,consume:jobs,submit:jobs"} {
		for _, path := range []string{"/hold/jobs/j000000000001", "/release/jobs/j000000000001", "/hold/jobs?status=pending", "/release/jobs?status=pending&dry", "/release/jobs?status=pending"} {
			for _, form := range []string{"xhtml", "html"} {
				ref := path + "?t=" + form
				if strings.Contains(path, "?") {
					ref = path + "&t=" + form
				}
				page := h.ask(rights, "POST", ref, http.StatusOK, nil)
				if !strings.Contains(page, "<html") || strings.Contains(page, "secret") {
					t.Errorf("%s: %s: got %s", rights, ref, page)
				}
			}
		}
	}
	if page := h.ask("all", "POST", "/hold/jobs/j000000000001?t=xhtml", http.StatusOK, nil); !strings.Contains(page, "secret-payload") {
		t.Errorf("a reader got %s", page)
	}
}

// Everybody reads the manual: each topic and example is reached by links, and every link to a
// heading has one.
func TestTheManualIsReachedByLinks(t *testing.T) {
	t.Parallel()
	h := build(t)
	pages, anchors := map[string]string{}, map[string]bool{}
	for left := []string{"/manual"}; len(left) > 0; left = left[1:] {
		if pages[left[0]] != "" {
			continue
		}
		page := h.ask("none", "GET", left[0], http.StatusOK, nil)
		pages[left[0]] = page
		for _, m := range regexp.MustCompile(`href="http://127\.0\.0\.1:1(/manual/[^"#]*)(#[^"]*)?"`).FindAllStringSubmatch(page, -1) {
			left = append(left, m[1])
			if m[2] != "" {
				anchors[m[1]+m[2]] = true
			}
		}
	}
	for _, topic := range topics.All() {
		if page := pages["/manual/"+topic.Name]; !strings.Contains(page, "<h1>") {
			t.Errorf("no link leads to %s", topic.Name)
		}
	}
	if example := pages["/manual/worker.py"]; !strings.Contains(example, "import ") || strings.Contains(example, "<html") {
		t.Errorf("got %s", example)
	}
	if len(anchors) == 0 {
		t.Error("no link leads to a heading")
	}
	for ref := range anchors {
		path, id, _ := strings.Cut(ref, "#")
		if !strings.Contains(pages[path], `<h2 id="`+id+`">`) {
			t.Errorf("no heading %s", ref)
		}
	}
	h.ask("none", "GET", "/manual/none", http.StatusNotFound, nil)
}

// The page of the mirrors says of each whether it is true, and names the differences.
func TestMirrorsAreTrueOrNot(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	audit := func(faults int64) home.Audit {
		return home.Audit{Time: now.Add(-time.Hour), Files: 1234, Faults: faults}
	}
	fresh := home.Progress{Known: 12, Synced: now.Add(-time.Minute)}
	state := func(queue string, m home.Mirror, p home.Progress, seq job.Seq) ledger.State {
		return ledger.State{Info: home.QueueInfo{ID: queue}, Mirror: &m, Progress: p, Seq: seq}
	}
	page := string(dashboard.Mirrors(dashboard.Site{Base: "http://127.0.0.1:1/"}, []ledger.State{
		state("true", home.Mirror{Source: "http://<first>/", Audit: audit(0)}, fresh, 12),
		state("late", home.Mirror{}, fresh, 10),
		state("alone", home.Mirror{}, home.Progress{Trouble: "no <route>"}, 0),
		state("bad", home.Mirror{Audit: audit(3)}, fresh, 12),
	}, func(string) []string { return []string{"payload/j000000000001"} }, now))
	var rows []string
	for _, row := range regexp.MustCompile(`<tr><td.*</tr>`).FindAllString(page, -1) {
		rows = append(rows, strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(row, "</td>", " "), "")), " "))
	}
	want := []string{
		"true follows http://&lt;first&gt;/ 0 events had all events 1 minute ago 60 minutes ago: 1,234 files, all as at the original Audit now",
		"late behind 2 events had all events 1 minute ago not audited yet Audit now",
		"alone does not follow 0 events had all events never not audited yet Audit now",
		"bad differs 0 events had all events 1 minute ago 60 minutes ago: 3 of 1,234 files not as at the original Audit now",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	for _, want := range []string{"alone does not follow: no &lt;route&gt;", "<li>payload/j000000000001</li>", "And 2 more: cutie audit --mirror bad"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// hidden are the hidden fields of the form with an action in a page.
func hidden(t *testing.T, page, action string) url.Values {
	t.Helper()
	_, form, ok := strings.Cut(page, `<form method="post" action="http://127.0.0.1:1`+action+`"`)
	form, _, ended := strings.Cut(form, "</form>")
	if !ok || !ended {
		t.Fatalf("no form to %s in %s", action, page)
	}
	values := url.Values{}
	for _, m := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		values.Add(m[1], m[2])
	}
	return values
}

// Each change of many jobs by a page can be undone from its answer, after a preview: then the
// queue is as before.
func TestChangesOfManyJobsAreUndone(t *testing.T) {
	t.Parallel()
	h := build(t, "q")
	for i := range 7 {
		h.submit("q", fmt.Sprint("scan-", i), "")
	}
	q, _ := h.svc.Queue("q")
	counts := func() [4]int64 {
		s := q.State()
		return [4]int64{s.Pending, s.Held, s.Consumed, s.Deleted}
	}
	for _, tt := range []struct {
		method, back string
		choice       url.Values
		changed      [4]int64
		jobs         string
	}{
		{"hold", "release", url.Values{"job": {"j000000000001", "j000000000002", "j000000000003", "j000000000005"}}, [4]int64{7, 4, 0, 0}, "j000000000001-j000000000003 j000000000005"},
		{"delete", "requeue", url.Values{"status": {"pending"}}, [4]int64{0, 0, 0, 7}, "j000000000001-j000000000007"},
	} {
		before := counts()
		page := h.ask("all", "POST", "/"+tt.method+"/q?t=xhtml", http.StatusOK, tt.choice)
		if got := counts(); got != tt.changed {
			t.Fatalf("%s: got %v, want %v", tt.method, got, tt.changed)
		}
		undo := hidden(t, page, "/bulk/q")
		if undo.Get("method") != tt.back || undo.Get("jobs") != tt.jobs {
			t.Errorf("%s: the form is %v", tt.method, undo)
		}
		preview := h.ask("all", "POST", "/bulk/q", http.StatusOK, undo)
		if got := counts(); got != tt.changed {
			t.Fatalf("%s: the preview has changed jobs: %v", tt.method, got)
		}
		h.ask("all", "POST", "/"+tt.back+"/q?t=xhtml", http.StatusOK, hidden(t, preview, "/"+tt.back+"/q?t=xhtml"))
		if got := counts(); got != before {
			t.Errorf("%s, undone: got %v, want %v", tt.method, got, before)
		}
	}
	h.ask("all", "POST", "/hold/q", http.StatusOK, url.Values{"status": {"pending"}})
	page := h.ask("all", "POST", "/release/q?t=xhtml", http.StatusOK, url.Values{"held": {"true"}})
	if undo := hidden(t, page, "/bulk/q"); undo.Get("method") != "hold" || undo.Get("jobs") != "j000000000001-j000000000007" {
		t.Errorf("release: the form is %v", undo)
	}
	h.ask("all", "POST", "/delete/q", http.StatusOK, url.Values{"job": {"j000000000002", "j000000000004"}})
	page = h.ask("all", "POST", "/requeue/q?t=xhtml", http.StatusOK, url.Values{"status": {"deleted"}})
	if hold := hidden(t, page, "/bulk/q"); hold.Get("method") != "hold" || hold.Get("jobs") != "j000000000002 j000000000004" || strings.Contains(page, "Undo") {
		t.Errorf("requeue: the form is %v", hold)
	}
	if page := h.ask("delete", "POST", "/delete/q?t=xhtml", http.StatusOK, url.Values{"status": {"pending"}}); strings.Contains(page, "/bulk/q") {
		t.Error("a form for readers without the right to requeue")
	}
	for _, bad := range []string{"j000000000002-j000000000001", "j000000000001-", "j000000000001-j000000020000", "x"} {
		h.ask("all", "POST", "/bulk/q", http.StatusBadRequest, url.Values{"method": {"hold"}, "jobs": {bad}})
	}
	h.ask("read", "POST", "/bulk/q", http.StatusRequestEntityTooLarge, url.Values{"method": {"hold"}, "jobs": {"j000000000001-j000000009999 j000000000001-j000000000002"}})
}

// Batches are listed newest first with their counts, also between jobs of no batch, and each
// has a page.
func TestBatchesAreCounted(t *testing.T) {
	t.Parallel()
	h := build(t, "q", "none")
	q, _ := h.svc.Queue("q")
	batch := func(n int) string {
		t.Helper()
		s := q.Begin()
		s.Group()
		for i := range n {
			u, err := s.Add(job.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(u, "file ", i)
		}
		jobs, err := s.Commit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return jobs[0].Batch
	}
	first := batch(3)
	h.submit("q", "alone", "")
	second := batch(5)
	taken := h.ask("all", "POST", "/consume/q", http.StatusOK, url.Values{"max": {"2"}, "lease": {"60"}})
	token := regexp.MustCompile(`(?i)cutie-lease: (\S+)`).FindStringSubmatch(taken)
	h.ask("all", "POST", "/outcome/q/j000000000001", http.StatusOK, url.Values{"lease": {token[1]}, "outcome": {"error"}, "type": {"fatal"}, "message": {"no <disk>"}})
	h.ask("all", "POST", "/delete/q/j000000000006", http.StatusAccepted, nil)

	page := h.ask("read", "GET", "/batches/q", http.StatusOK, nil)
	var rows [][]string
	for _, row := range regexp.MustCompile(`<tr><td.*</tr>`).FindAllString(page, -1) {
		rows = append(rows, strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(row, "</td>", " "), ""))[:7])
	}
	want := fmt.Sprint([][]string{{second, "5", "4", "0", "0", "0", "1"}, {first, "3", "1", "1", "2", "1", "0"}})
	if got := fmt.Sprint(rows); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	page = h.ask("read", "GET", "/batches/q/"+first, http.StatusOK, nil)
	for _, want := range []string{"1 of 3 done, 33%", "no &lt;disk&gt;", "/find/q?batch=" + first + "&amp;outcome=error"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if strings.Contains(page, "/bulk/") {
		t.Error("changes for a reader")
	}
	if page = h.ask("all", "GET", "/batches/q/"+first, http.StatusOK, nil); !strings.Contains(page, "requeue the failed") {
		t.Errorf("no changes in %s", page)
	}
	if page = h.ask("read", "GET", "/batches/none", http.StatusOK, nil); !strings.Contains(page, "No jobs were submitted together") {
		t.Errorf("got %s", page)
	}
	h.ask("read", "GET", "/batches/q/b000000000004-2", http.StatusNotFound, nil)
	h.ask("read", "GET", "/batches/q/x", http.StatusBadRequest, nil)
	h.ask("read:none", "GET", "/batches/q", http.StatusForbidden, nil)
	h.ask("read:none", "GET", "/batches/q/"+first, http.StatusForbidden, nil)
}

// Batches without jobs stand before the others: manifests on their way, and failed ones.
func TestBatchesOnTheirWayAreListed(t *testing.T) {
	t.Parallel()
	h := build(t, "q", "none")
	h.board.Batches = func(queue string) []state.Batch {
		if queue != "q" {
			return nil
		}
		return []state.Batch{{ID: "ABC", Status: state.BatchFetching, Lines: 1200, Fetched: 7}, {Status: state.BatchFailed, Lines: 2, Errors: []string{"line 3: <md5> without value"}}}
	}
	page := h.ask("read", "GET", "/batches/q", http.StatusOK, nil)
	for _, want := range []string{"Not submitted yet", `<a href="http://127.0.0.1:1/batch/q/ABC?t=xhtml">ABC</a>`, "7 of 1,200", "fetching", "failed", "line 3: &lt;md5&gt; without value"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if page := h.ask("read", "GET", "/batches/none", http.StatusOK, nil); strings.Contains(page, "Not submitted yet") {
		t.Errorf("got %s", page)
	}
}

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}

// serve serves pages by a hub; the path is the key, and render gets it.
func serve(t *testing.T, h *dashboard.Hub, render func(key string) []dashboard.Part) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.Serve(w, r, r.URL.Path, func() []dashboard.Part { return render(r.URL.Path) }); err != nil {
			web.Plain(w, r, err)
		}
	}))
	t.Cleanup(func() {
		srv.Close()
		h.Close()
	})
	return srv
}

// watch opens a stream, and returns a function for the next event.
func watch(t *testing.T, ctx context.Context, url string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	lines := bufio.NewReader(a.Body)
	return func() string {
		event := ""
		for {
			line, err := lines.ReadString('\n')
			switch line = strings.TrimSuffix(line, "\n"); {
			case err != nil:
				return "end"
			case line == "" && event != "":
				return event
			case strings.HasPrefix(line, "data: "):
				event += strings.TrimPrefix(line, "data: ") + "|"
			}
		}
	}
}

// All watchers of a page share its rendering, get what has changed alone, and the last
// one ends it.
func TestAPageIsRenderedOnceForAll(t *testing.T) {
	var figure, rendered atomic.Int64
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Minute, Idle: time.Minute, Watchers: 100}
	srv := serve(t, h, func(key string) []dashboard.Part {
		if key == "/p" {
			rendered.Add(1)
		}
		return []dashboard.Part{{ID: "same", Text: []byte("<p>" + key + "</p>")}, {ID: "n", Text: fmt.Appendf(nil, "<p>\n%d\n</p>\n", figure.Load())}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begun, got := make(chan struct{}, 50), make(chan string, 50)
	for range 50 {
		next := watch(t, ctx, srv.URL+"/p")
		wg.Go(func() {
			first := next() + next()
			begun <- struct{}{}
			got <- first + next()
		})
	}
	for range 50 {
		<-begun
	}
	figure.Store(7)
	for range 50 {
		if got, want := <-got, "same|<p>/p</p>|n|<p>|0|</p>|n|<p>|7|</p>|"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got := watch(t, t.Context(), srv.URL+"/other")(); got != "same|<p>/other</p>|" {
		t.Errorf("another page: %q", got)
	}
	cancel()
	wg.Wait()
	for at := int64(-1); rendered.Load() != at; time.Sleep(20 * time.Millisecond) { // it ends some time
		at = rendered.Load()
	}
}

// A panic of one page is told, and the others go on. Too many watchers are refused.
func TestAHubHasBounds(t *testing.T) {
	panicked := make(chan any, 1)
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Minute, Idle: time.Minute, Watchers: 2, Panicked: func(p any) {
		select {
		case panicked <- p:
		default:
		}
	}}
	srv := serve(t, h, func(key string) []dashboard.Part {
		if key == "/bad" {
			panic("of this page")
		}
		return []dashboard.Part{{ID: "a", Text: []byte("<p/>")}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch(t, ctx, srv.URL+"/bad")
	good := watch(t, ctx, srv.URL+"/good")
	if got := <-panicked; got != "of this page" {
		t.Errorf("told %v", got)
	}
	if got := good(); got != "a|<p/>|" {
		t.Errorf("got %q", got)
	}
	a, err := http.Get(srv.URL + "/third")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Content-Type") == "text/event-stream" {
		t.Errorf("%s %s", a.Status, text)
	}
}

// A stream ends after its lifetime, and its page with it.
func TestStreamsEnd(t *testing.T) {
	h := &dashboard.Hub{Every: time.Millisecond, Lifetime: time.Millisecond, Idle: time.Minute, Watchers: 1}
	srv := serve(t, h, func(string) []dashboard.Part { return []dashboard.Part{{ID: "a", Text: []byte("<p/>")}} })
	for range 3 { // each has the one place of the former
		next := watch(t, t.Context(), srv.URL+"/p")
		for next() != "end" {
		}
		h.Close()
	}
}
