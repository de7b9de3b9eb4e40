package board_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/topics"
	"cutie/queuefs"
)

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
	audit := func(faults int64) queuefs.MirrorAudit {
		return queuefs.MirrorAudit{Time: now.Add(-time.Hour), Files: 1234, Faults: faults}
	}
	fresh := queuefs.MirrorProgress{Known: 12, Synced: now.Add(-time.Minute)}
	page := string(dashboard.Mirrors(dashboard.Site{Base: "http://127.0.0.1:1/"}, []dashboard.Mirror{
		{Queue: "true", Facts: queuefs.Mirror{Source: "http://<first>/", Audit: audit(0)}, Progress: fresh, Seq: 12},
		{Queue: "late", Facts: queuefs.Mirror{}, Progress: fresh, Seq: 10},
		{Queue: "alone", Progress: queuefs.MirrorProgress{Trouble: "no <route>"}},
		{Queue: "bad", Facts: queuefs.Mirror{Audit: audit(3)}, Progress: fresh, Seq: 12, Differences: []string{"payload/j000000000001"}},
	}, now))
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
