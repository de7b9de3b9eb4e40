package board_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

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
