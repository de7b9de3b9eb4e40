package dashboard_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// A payload is shown as text, as digits, or by the URL of an image, and never as a part of
// the page.
func TestPreviewsShowWithoutRunning(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	large := strings.Repeat("ü", dashboard.PreviewOctets)
	for _, tt := range []struct {
		name, media, payload string
		size                 int64 // 0: that of the payload
		text, image, note    string
	}{
		{"text", "text/plain", "one\ntwo\r\n", 0, "one\ntwo\r\n", "", ""},
		{"markup", "text/html", "<script>x</script>", 0, "<script>x</script>", "", ""},
		{"drawing", "image/svg+xml", "<svg onload='x'/>", 0, "<svg onload='x'/>", "", ""},
		{"JSON", "application/json; charset=utf-8", `{"a":[1,"<b>"]}`, 0, "{\n  \"a\": [\n    1,\n    \"<b>\"\n  ]\n}", "", "JSON, with line ends added."},
		{"JSON without a type", "", ` {"a":1}`, 0, "{\n  \"a\": 1\n}", "", "JSON, with line ends added."},
		{"no JSON", "application/json", `{"a":`, 0, `{"a":`, "", ""},
		{"part of JSON", "application/json", `{"a":1}`, 999, `{"a":1}`, "", "The first 7 of 999 octets."},
		{"image", "image/png", png, 0, "", "http://x/p", ""},
		{"image by name alone", "image/png", "<html>", 0, "<html>", "", ""},
		{"markup with an image in it", "text/html", png, 0, "00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|\n", "", ""},
		{"huge image", "image/png", png, 1 << 40, "00000000  89 50 4e 47 0d 0a 1a 0a  00 00 00 0d 49 48 44 52  |.PNG........IHDR|\n", "", "The first 16 of 1,099,511,627,776 octets."},
		{"octets", "text/plain", "\x00\x01", 0, "00000000  00 01                                             |..|\n", "", ""},
		{"not for pages", "text/plain", "a\ufffe", 0, "00000000  61 ef bf be                                       |a...|\n", "", ""},
		{"cut character", "text/plain", large[:dashboard.PreviewOctets-1], int64(len(large)), large[:dashboard.PreviewOctets-2], "", "The first 16383 of 32,768 octets."},
		{"empty", "text/plain", "", 0, "", "", "It is empty."},
	} {
		size := tt.size
		if size == 0 {
			size = int64(len(tt.payload))
		}
		if p := dashboard.NewPreview(tt.media, size, []byte(tt.payload), "http://x/p"); p.Text != tt.text || p.Image != tt.image || p.Note != tt.note {
			t.Errorf("%s: got %+v, want %.200q, %q, %q", tt.name, *p, tt.text, tt.image, tt.note)
		}
	}
}

// asides are the same for all queues and jobs.
type asides struct {
	results []queuefs.Result
	queue   *dashboard.QueueAside
	text    string
}

func (a asides) Queue(string) *dashboard.QueueAside { return a.queue }

func (a asides) Job(_ string, _ queuefs.JobID, url string) *dashboard.JobAside {
	return &dashboard.JobAside{Results: a.results, Preview: dashboard.NewPreview("text/plain", int64(len(a.text)), []byte(a.text), url)}
}

// The page of a job tells its life in order, with the payload as text.
func TestPagesTellTheLifeOfAJob(t *testing.T) {
	at := statetest.Day
	j := statetest.PlainJob()
	j.Status, j.Submitted, j.Owner, j.Requeued, j.Requeues = queuefs.Consumed, at, "ann & <b>", at.Add(time.Hour), 2
	j.Consumed, j.Consumer, j.Attempts, j.Finished, j.Outcome, j.Message = at.Add(90*time.Minute), "<worker>", 3, at.Add(91*time.Minute), queuefs.Failed, "no <route>"
	d := state.OfJob(statetest.Base, &j)
	page := dashboard.Pages{Asides: asides{text: "<script>x</script>"}}.State(nil, &d, rest.View{})
	parsePage(t, page)
	text := string(page)
	for _, want := range []string{"by ann &amp; &lt;b&gt;", "2 times in all", "by &lt;worker&gt;, attempt 3, after 30 min", "after 60 s, no &lt;route&gt;", "&lt;script&gt;x&lt;/script&gt;</pre>"} {
		at := strings.Index(text, want)
		if at < 0 {
			t.Fatalf("no %q after the last one in %s", want, page)
		}
		text = text[at:]
	}
	if bytes.Contains(page, []byte("<script>x")) {
		t.Error("the payload is markup")
	}
	if back, err := statetest.Read(state.XHTML, state.JobClass, page); err != nil || len(back.Properties) != len(d.Properties) {
		t.Errorf("the table is another: %v", err)
	}
}

// points are an hour with some figures.
func points(m dashboard.Measure, figures ...float32) []dashboard.Point {
	all := make([]dashboard.Point, dashboard.Points)
	for i := range all {
		all[i] = dashboard.Unknown()
		if at := i - (dashboard.Points - len(figures)); at >= 0 {
			all[i][m] = figures[at]
		}
	}
	return all
}

// labelsOf returns the text of drawings.
func labelsOf(page string) (labels []string) {
	for _, m := range regexp.MustCompile(`<text [^>]*>([^<]+)</text>`).FindAllStringSubmatch(page, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// Charts say in words what they draw, and the page of a queue has its parts.
func TestChartsSayWhatTheyDraw(t *testing.T) {
	nan := float32(math.NaN())
	q := statetest.FullQueue()
	failed := statetest.FullJob()
	failed.Consumer = "<w>"
	a := &dashboard.QueueAside{Points: points(dashboard.Pending, 0, 2, 1500, 7, nan, nan), Failed: []queuefs.Job{failed}, Newest: []queuefs.Job{failed}}
	q.Jobs = state.Jobs{Limit: 100}
	d := state.OfQueue(statetest.Base, &q)
	page := dashboard.Pages{Asides: asides{queue: a}}.State(nil, &d, rest.View{Now: statetest.Day})
	text := string(page)
	for _, want := range []string{`aria-label="Jobs over the last hour: now pending 7, in work –, at most 1,500 (15:59)"`, ">Failed last<", "&lt;w&gt;", `data-live="` + string(statetest.Base) + `/live/`, `id="newest"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "In work<") || strings.Contains(text, "NaN") || strings.Count(text, "<svg") != 1 {
		t.Errorf("charts without figures, or a list without jobs: %s", text)
	}
	for dec := xml.NewDecoder(bytes.NewReader(page)); ; {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range dashboard.QueueParts(statetest.Base, &q.QueueState, a, true, statetest.Day) {
		if want := ` id="` + part.ID + `"`; !bytes.Contains(part.Text, []byte(want)) || !strings.Contains(text, want) || !bytes.HasSuffix(bytes.TrimSpace(part.Text), []byte(">")) {
			t.Errorf("part %s is no element of the page: %s", part.ID, part.Text)
		}
	}
	for _, c := range []struct {
		m      dashboard.Measure
		figure float32
		most   string    // the greatest figure
		levels [2]string // labels of the grid lines, from the top down
	}{
		{dashboard.Pending, 1, "1", [2]string{"2", "1"}}, {dashboard.Pending, 7, "7", [2]string{"8", "4"}}, {dashboard.Pending, 1500, "1,500", [2]string{"2,000", "1,000"}}, {dashboard.Pending, 0, "0", [2]string{"2", "1"}},
		{dashboard.In, 0.25, "0.25", [2]string{"0.3", "0.15"}}, {dashboard.Failed, 144000, "8,640,000", [2]string{"10,000,000", "5,000,000"}},
		{dashboard.Oldest, 0.4, "400 ms", [2]string{"400 ms", "200 ms"}}, {dashboard.Oldest, 31, "31 s", [2]string{"60 s", "30 s"}}, {dashboard.Oldest, 3000, "50 min", [2]string{"60 min", "30 min"}},
		{dashboard.Queued, 50000, "13.9 h", [2]string{"24 h", "12 h"}}, {dashboard.Queued, 144000, "40 h", [2]string{"2 days", "24 h"}}, {dashboard.Queued, 864000, "10 days", [2]string{"10 days", "5 days"}},
		{dashboard.FreeDisk, 144000, "144 kB", [2]string{"200 kB", "100 kB"}}, {dashboard.Memory, 2.5e9, "2.5 GB", [2]string{"3 GB", "1.5 GB"}},
	} {
		page := string(dashboard.Charts(dashboard.Site{Base: statetest.Base}, "q", "q", dashboard.Month, points(c.m, c.figure), points(c.m, 3, c.figure), statetest.Day))
		most := ">at most " + c.most + " (04-20 16:00)<"
		if c.figure == 0 {
			most = ">at most 0<"
		}
		labels := strings.Join(labelsOf(page), " ")
		if want := "03-22 03-29 04-05 04-12 04-19 0 " + c.levels[1] + " " + c.levels[0]; labels != want {
			t.Errorf("%v of %v: labels: got %s, want %s", c.m, c.figure, labels, want)
		}
		if !strings.Contains(page, most) {
			t.Errorf("%v of %v: no %s in %s", c.m, c.figure, most, page)
		}
		if strings.Count(page, "<th scope=\"row\"") != 1 || strings.Contains(page, `class="most `) != (c.figure > 0) {
			t.Errorf("%v of %v: the table has not one row, or no dot is at the greatest figure: %s", c.m, c.figure, page)
		}
	}
	if page := string(dashboard.Charts(dashboard.Site{Base: statetest.Base}, "q", "q", dashboard.Hour, nil, nil, statetest.Day)); strings.Contains(page, "<svg") || !strings.Contains(page, "busiest") {
		t.Errorf("without figures: %s", page)
	}
}

// A time without figures is a gap of a chart, unless it is one step. Nothing has a style
// attribute, refused by the policy of pages.
func TestChartsHaveGaps(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		steps []float32 // of three points
		lines int
	}{
		{[]float32{5}, 1}, {[]float32{5, nan, 5}, 1}, {[]float32{5, nan, nan, 5}, 2}, {[]float32{5, 5, nan, inf, 5, nan}, 2}, {[]float32{5, nan, nan, nan, 5, nan, nan, nan, 5, 4}, 3}, {[]float32{5, nan, nan}, 1},
	} {
		var figures []float32
		for _, f := range c.steps {
			figures = append(figures, f, f, f)
		}
		all := points(dashboard.Oldest, figures...)
		page := string(dashboard.Charts(dashboard.Site{Base: statetest.Base}, "", "", dashboard.Hour, all, all, statetest.Day))
		if got := strings.Count(page, `class="line0 stroke"`); got != c.lines {
			t.Errorf("%v: got %d lines, want %d", c.steps, got, c.lines)
		}
		for _, bad := range []string{"style=", "NaN", "Inf", `d=""`} {
			if strings.Contains(page, bad) {
				t.Errorf("%v: %s in %s", c.steps, bad, page)
			}
		}
	}
}
