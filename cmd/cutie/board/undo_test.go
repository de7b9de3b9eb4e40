package board_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

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
			u, err := s.Add(queuefs.Meta{})
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
