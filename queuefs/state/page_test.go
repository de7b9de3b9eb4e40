package state_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// Who has the lease of a job has the forms of a consumer, as far as they may use
// them, and as long as the job is in work.
func TestPagesOfALeaseHaveTheFormsOfAConsumer(t *testing.T) {
	const at, job = "post http://cutie.example.org/base/", "/uc3+cutie=01%5E20x/j000000000042?t=xhtml"
	j := fullJob()
	j.Outcome = 0
	leased, done := state.OfJob(base, &j), fullJob()
	ended := state.OfJob(base, &done)
	report := at + "outcome" + job + ` lease="<k>`
	extend, abort := at+"lease"+job+` lease="<k>`, at+"abort"+job+" message"
	for _, tt := range []struct {
		name string
		d    *state.Document
		may  string // "": everything
		want []string
	}{
		{"all", &leased, "", []string{report + " message outcome=completed", report + " outcome=error message type=transient type=fatal",
			report + " message outcome=released", extend, abort}},
		{"extend", &leased, "/lease/", []string{extend}},
		{"ended", &ended, "/outcome/", nil},
	} {
		v := state.View{Lease: `"<k>`, May: func(_, path string) bool { return strings.HasPrefix(path, tt.may) }}
		text := state.AppendPage(nil, tt.d, v)
		if got := parsePage(t, text).forms; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if shown := bytes.Contains(text, []byte(`>&quot;&lt;k&gt;<`)) || bytes.Contains(text, []byte(`>"&lt;k&gt;<`)); shown != (tt.d == &leased) {
			t.Errorf("%s: the token is shown: %v", tt.name, shown)
		}
		if back, err := statetest.Read(state.XHTML, state.JobClass, text); err != nil || len(back.Properties) != len(tt.d.Properties) {
			t.Errorf("%s: got %+v, %v", tt.name, back, err)
		}
	}
}

// A page is what a browser sees of a document.
type page struct {
	style    string
	links    map[string]string // rel of the head and its last href
	anchors  []string
	forms    []string // "post URL name[=value] …"
	elements []string
	headings []string // h2
}

// readPage reads a page with an XML parser that knows no entities but those of
// XML, as browsers do for application/xhtml+xml.
func readPage(t *testing.T, d *state.Document) page {
	t.Helper()
	return parsePage(t, state.XHTML.Append(nil, d))
}

func parsePage(t *testing.T, text []byte) page {
	t.Helper()
	p := page{links: map[string]string{}}
	dec := xml.NewDecoder(bytes.NewReader(text))
	inStyle, inHeading := false, false
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return p
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch x := token.(type) {
		case xml.StartElement:
			a := map[string]string{}
			for _, attr := range x.Attr {
				a[attr.Name.Local] = attr.Value
			}
			inStyle, inHeading = x.Name.Local == "style", x.Name.Local == "h2"
			p.elements = append(p.elements, x.Name.Local)
			switch x.Name.Local {
			case "link":
				p.links[a["rel"]] = a["href"]
			case "a":
				p.anchors = append(p.anchors, a["href"])
			case "form":
				p.forms = append(p.forms, a["method"]+" "+a["action"])
				if a["enctype"] != "" {
					p.forms[len(p.forms)-1] += " as " + a["enctype"]
				}
			case "input", "textarea", "select", "button":
				if a["name"] == "" {
					break
				}
				field := " " + a["name"]
				if a["value"] != "" {
					field += "=" + a["value"]
				}
				p.forms[len(p.forms)-1] += field
			}
			for name := range a {
				if strings.HasPrefix(name, "on") || name == "style" {
					t.Errorf("attribute %s would break the policy", name)
				}
			}
		case xml.EndElement:
			inStyle, inHeading = false, false
		case xml.CharData:
			if inStyle {
				p.style += string(x)
			}
			if inHeading {
				p.headings = append(p.headings, string(x))
			}
		}
	}
}

func TestPagesKeepTheirPolicy(t *testing.T) {
	for name, d := range documents() {
		p := readPage(t, &d)
		sum := sha256.Sum256([]byte(p.style))
		if got, want := "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", state.StyleHash; got != want {
			t.Errorf("%s: style: got %s, want %s", name, got, want)
		}
		for _, bad := range []string{"script", "img", "iframe", "object", "base"} {
			if slices.Contains(p.elements, bad) {
				t.Errorf("%s: element %s", name, bad)
			}
		}
	}
	if !strings.Contains(state.PagePolicy, state.StyleHash) {
		t.Error("policy does not allow the style")
	}
}

func TestPagesOfferWhatMayBeDone(t *testing.T) {
	const at = "http://cutie.example.org/base"
	const job = "/uc3+cutie=01%5E20x/j000000000042?t=xhtml"
	jobIn := func(status queuefs.Status, held bool) state.Document {
		j := fullJob()
		j.Status = status
		if !held {
			j.Held = time.Time{}
		}
		return state.OfJob(base, &j)
	}
	running, paused, svc := emptyQueue(), fullQueue(), service()
	open := emptyQueue()
	open.Info.Paused = day
	submit := "post " + at + "/content/ingest?t=xhtml as multipart/form-data file sidecar"
	leased := fullJob()
	leased.Outcome = 0
	svc.BaseURI = at + "/"
	for _, tt := range []struct {
		name string
		d    state.Document
		want []string
	}{
		{"service", state.OfService(&svc), []string{"post " + at + "/state?t=xhtml identifier name description"}},
		{"running queue", state.OfQueue(base, &running), []string{submit, "post " + at + "/consume/ingest?t=xhtml", "post " + at + "/state/ingest?t=xhtml S=pause"}},
		{"paused queue", state.OfQueue(base, &open), []string{submit, "post " + at + "/state/ingest?t=xhtml S=restart"}},
		{"paused and closed queue", state.OfQueue(base, &paused), []string{"post " + at + "/state/uc3+cutie=01?t=xhtml S=restart"}},
		{"pending job", jobIn(queuefs.Pending, false), []string{"post " + at + "/hold" + job + " reason", "post " + at + "/delete" + job}},
		{"held job", jobIn(queuefs.Pending, true), []string{"post " + at + "/release" + job, "post " + at + "/delete" + job}},
		{"job in work", state.OfJob(base, &leased), []string{"post " + at + "/abort" + job + " message"}},
		{"consumed job", jobIn(queuefs.Consumed, true), []string{"post " + at + "/requeue" + job}},
		{"deleted job", jobIn(queuefs.Deleted, false), []string{"post " + at + "/requeue" + job}},
		{"job without place", said(jobIn(queuefs.Pending, false)), nil},
		{"exception", state.OfException(state.Exception{Status: 404}), nil},
	} {
		if got := readPage(t, &tt.d).forms; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPagesLinkToStatesAsPages(t *testing.T) {
	q := fullQueue()
	d := state.OfQueue(base, &q)
	p := readPage(t, &d)
	if got, want := p.links["resourcesync"], string(base)+"/.well-known/resourcesync"; got != want {
		t.Errorf("resourcesync: got %s, want %s", got, want)
	}
	n := 0
	for _, ref := range p.anchors {
		u, err := url.Parse(ref)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(u.Path, "/base/state") {
			n++
			if _, err := state.ParseForm(u.Query().Get("t")); err != nil || len(u.Query()["t"]) != 1 {
				t.Errorf("%s asks for no form", ref)
			}
		}
	}
	// The way, 5 tiles, the list, its next and the whole, 5 references with two
	// jobs each way, and 5 other forms.
	if want := 2 + 5 + 2 + 2 + 1 + 2 + 1 + 2 + 5; n != want {
		t.Errorf("got %d links to states, want %d: %q", n, want, p.anchors)
	}
	e := state.OfException(state.Exception{Status: 404})
	e.Base = base
	if got := readPage(t, &e).links["resourcesync"]; got != p.links["resourcesync"] {
		t.Errorf("exception with a base: resourcesync is %q", got)
	}
}

func TestPagesLinkNothingThatRuns(t *testing.T) {
	for _, ref := range []string{"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "data:text/html,x", "vbscript:x", "//evil.example.org/"} {
		q, svc := emptyQueue(), service()
		q.Info.Callback, svc.SupportURI = ref, ref
		for _, d := range []state.Document{state.OfQueue(base, &q), state.OfService(&svc)} {
			if p := readPage(t, &d); slices.Contains(p.anchors, ref) {
				t.Errorf("%q is a link", ref)
			}
		}
	}
}

func TestPagesOfferWhatTheReaderMayDo(t *testing.T) {
	q, svc, j := emptyQueue(), service(), plainJob()
	for _, tt := range []struct {
		d    state.Document
		may  string
		want []string
	}{
		{state.OfQueue(base, &q), "/content/ingest", []string{"post " + string(base) + "/content/ingest?t=xhtml as multipart/form-data file sidecar"}},
		{state.OfQueue(base, &q), "/state", nil},
		{state.OfService(&svc), "/state", []string{"post " + string(base) + "/state?t=xhtml identifier name description"}},
		{state.OfService(&svc), "/state/ingest", nil},
		{state.OfJob(base, &j), "/delete/ingest/j000000000001", []string{"post " + string(base) + "/delete/ingest/j000000000001?t=xhtml"}},
	} {
		view := state.View{May: func(method, path string) bool { return method == "POST" && path == tt.may }}
		p := parsePage(t, state.AppendPage(nil, &tt.d, view))
		if !slices.Equal(p.forms, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.may, p.forms, tt.want)
		}
		if got := slices.Contains(p.headings, "Actions"); got != (tt.want != nil) {
			t.Errorf("%s: heading of the forms is there: %v", tt.may, got)
		}
	}
}

// What a view adds is on the page and not in what is read back from it.
func TestViewsSayNothingInTheTable(t *testing.T) {
	q := fullQueue()
	q.Jobs.IDs = []queuefs.JobID{3, 4, 5}
	held, failed := plainJob(), fullJob()
	held.ID, held.Held, held.HeldFor, held.Filename = 3, day, "a <reason>", "a\n&b"
	failed.ID, failed.Size = 5, 1234567
	full := fullJob()
	full.Sidecar = strings.Repeat("long & <hostile>\n", 100)
	view := state.View{Now: day.Add(3 * time.Hour), Jobs: []queuefs.Job{held, failed}}
	for _, d := range []state.Document{state.OfQueue(base, &q), state.OfJob(base, &full)} {
		text := state.AppendPage(nil, &d, view)
		parsePage(t, text)
		got, err := statetest.Read(state.XHTML, d.Class, text)
		if err != nil || !reflect.DeepEqual(got, said(d)) {
			t.Errorf("read back: got %+v, %v, want %+v", got, err, said(d))
		}
	}
	d := state.OfQueue(base, &q)
	page := string(state.AppendPage(nil, &d, view))
	for _, want := range []string{
		`j000000000003</a></td><td><span class="badge cool">pending</span> <span class="badge warn">on hold</span> </td>`,
		"a\n&amp;b <span class=\"dim\">a &lt;reason&gt;</span>",
		`j000000000004</a></td><td></td>`,
		`<td class="n">1,234,567</td><td class="t minor">2010-04-20 16:00:00 <span class="dim">3 hours ago</span></td>`,
		`<span class="said" title="2 hours ago">2010-04-20T17:00:00.000000Z</span>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "just now", -time.Millisecond: "just now", time.Second: "1 second ago", 59 * time.Second: "59 seconds ago",
		time.Minute: "1 minute ago", 119 * time.Minute: "119 minutes ago", 2 * time.Hour: "2 hours ago",
		47 * time.Hour: "47 hours ago", 48 * time.Hour: "2 days ago", 729 * 24 * time.Hour: "729 days ago",
		800 * 24 * time.Hour: "2 years ago", -5 * time.Minute: "in 5 minutes",
	} {
		if got := state.Ago(day, day.Add(-d)); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
