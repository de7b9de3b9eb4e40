package dashboard_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"flag"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
	"cutie/wellknown"
)

// Who has the lease of a job has the forms of a consumer, as far as they may use
// them, and as long as the job is in work.
func TestPagesOfALeaseHaveTheFormsOfAConsumer(t *testing.T) {
	const at, job = "post http://cutie.example.org/base/", "/uc3+cutie=01%5E20x/j000000000042?t=xhtml"
	j := statetest.FullJob()
	j.Outcome = 0
	leased, done := state.OfJob(statetest.Base, &j), statetest.FullJob()
	ended := state.OfJob(statetest.Base, &done)
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
		v := rest.View{Lease: `"<k>`, May: func(_, path string) bool { return strings.HasPrefix(path, tt.may) }}
		text := dashboard.Pages{}.State(nil, tt.d, v)
		if got := parsePage(t, text).forms; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if shown := bytes.Contains(text, []byte(`>&#34;&lt;k&gt;<`)); shown != (tt.d == &leased) {
			t.Errorf("%s: the token is shown: %v", tt.name, shown)
		}
		if back, err := statetest.Read(state.XHTML, state.JobClass, text); err != nil || len(back.Properties) != len(tt.d.Properties) {
			t.Errorf("%s: got %+v, %v", tt.name, back, err)
		}
	}
}

// Nothing is to be done with a mirror, nor with its jobs.
func TestPagesOfAMirrorHaveNoForms(t *testing.T) {
	for name, d := range statetest.Documents() {
		got := parsePage(t, dashboard.Pages{}.State(nil, &d, rest.View{Mirror: true})).forms
		if len(got) > 0 {
			t.Errorf("%s: got %q", name, got)
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
	return parsePage(t, dashboard.Pages{}.State(nil, d, rest.View{}))
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
	for name, d := range statetest.Documents() {
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
		j := statetest.FullJob()
		j.Status = status
		if !held {
			j.Held = time.Time{}
		}
		return state.OfJob(statetest.Base, &j)
	}
	running, paused, svc := statetest.EmptyQueue(), statetest.FullQueue(), statetest.Service()
	open := statetest.EmptyQueue()
	open.Info.Paused = statetest.Day
	submit := "post " + at + "/content/ingest?t=xhtml as multipart/form-data file sidecar"
	leased := statetest.FullJob()
	leased.Outcome = 0
	svc.BaseURI = at + "/"
	unset := "/state/ingest?t=xhtml seen-description description seen-closed=false closed seen-acknowledge=none acknowledge seen-leaseDuration leaseDuration seen-maxAttempts maxAttempts seen-cullingSizeThreshold cullingSizeThreshold seen-cullingAgeThreshold cullingAgeThreshold"
	full := "/state/uc3+cutie=01?t=xhtml seen-description=UC3 primary <ingest> & queue description=UC3 primary <ingest> & queue seen-closed=true closed seen-acknowledge=required acknowledge seen-leaseDuration=90 leaseDuration=90 seen-maxAttempts=5 maxAttempts=5 seen-cullingSizeThreshold=100 cullingSizeThreshold=100 seen-cullingAgeThreshold=0 cullingAgeThreshold=0"
	for _, tt := range []struct {
		name string
		d    state.Document
		want []string
	}{
		{"service", state.OfService(&svc), []string{"post " + at + "/state?t=xhtml identifier name description"}},
		{"running queue", state.OfQueue(statetest.Base, &running), []string{submit, "post " + at + "/consume/ingest?t=xhtml", "post " + at + "/state/ingest?t=xhtml S=pause", "post " + at + unset}},
		{"paused queue", state.OfQueue(statetest.Base, &open), []string{submit, "post " + at + "/state/ingest?t=xhtml S=restart", "post " + at + unset}},
		{"paused and closed queue", state.OfQueue(statetest.Base, &paused), []string{"post " + at + "/state/uc3+cutie=01?t=xhtml S=restart", "post " + at + full}},
		{"pending job", jobIn(queuefs.Pending, false), []string{"post " + at + "/hold" + job + " reason until", "post " + at + "/delete" + job}},
		{"held job", jobIn(queuefs.Pending, true), []string{"post " + at + "/release" + job, "post " + at + "/delete" + job}},
		{"job in work", state.OfJob(statetest.Base, &leased), []string{"post " + at + "/abort" + job + " message"}},
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
	q := statetest.FullQueue()
	d := state.OfQueue(statetest.Base, &q)
	p := readPage(t, &d)
	source := string(statetest.Base) + "/.well-known/resourcesync"
	text := string(dashboard.Pages{}.State(nil, &d, rest.View{}))
	if got, want := wellknown.HTMLLinks(text), []string{source + "/uc3+cutie=01/pending/capabilitylist.xml", source + "/uc3+cutie=01/replica/capabilitylist.xml"}; !slices.Equal(got, want) {
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
	e.Base = statetest.Base
	if got := readPage(t, &e).links["resourcesync"]; got != source {
		t.Errorf("exception with a statetest.Base: resourcesync is %q", got)
	}
}

func TestPagesLinkNothingThatRuns(t *testing.T) {
	for _, ref := range []string{"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "data:text/html,x", "vbscript:x", "//evil.example.org/"} {
		q, svc := statetest.EmptyQueue(), statetest.Service()
		q.Info.Callback, svc.SupportURI = ref, ref
		for _, d := range []state.Document{state.OfQueue(statetest.Base, &q), state.OfService(&svc)} {
			if p := readPage(t, &d); slices.Contains(p.anchors, ref) {
				t.Errorf("%q is a link", ref)
			}
		}
	}
}

func TestPagesOfferWhatTheReaderMayDo(t *testing.T) {
	q, svc, j := statetest.EmptyQueue(), statetest.Service(), statetest.PlainJob()
	for _, tt := range []struct {
		d    state.Document
		may  string
		want []string
	}{
		{state.OfQueue(statetest.Base, &q), "/content/ingest", []string{"post " + string(statetest.Base) + "/content/ingest?t=xhtml as multipart/form-data file sidecar"}},
		{state.OfQueue(statetest.Base, &q), "/state", nil},
		{state.OfService(&svc), "/state", []string{"post " + string(statetest.Base) + "/state?t=xhtml identifier name description"}},
		{state.OfService(&svc), "/state/ingest", nil},
		{state.OfJob(statetest.Base, &j), "/delete/ingest/j000000000001", []string{"post " + string(statetest.Base) + "/delete/ingest/j000000000001?t=xhtml"}},
	} {
		view := rest.View{May: func(method, path string) bool { return method == "POST" && path == tt.may }}
		p := parsePage(t, dashboard.Pages{}.State(nil, &tt.d, view))
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
	q := statetest.FullQueue()
	q.Jobs.IDs = []queuefs.JobID{3, 4, 5}
	held, failed := statetest.PlainJob(), statetest.FullJob()
	held.ID, held.Held, held.HeldFor, held.Filename = 3, statetest.Day, "a <reason>", "a\n&b"
	failed.ID, failed.Size = 5, 1234567
	full := statetest.FullJob()
	full.Sidecar = strings.Repeat("long & <hostile>\n", 100)
	view := rest.View{Now: statetest.Day.Add(3 * time.Hour), Jobs: []queuefs.Job{held, failed}}
	for _, d := range []state.Document{state.OfQueue(statetest.Base, &q), state.OfJob(statetest.Base, &full)} {
		text := dashboard.Pages{}.State(nil, &d, view)
		parsePage(t, text)
		got, err := statetest.Read(state.XHTML, d.Class, text)
		if err != nil || !reflect.DeepEqual(got, said(d)) {
			t.Errorf("read back: got %+v, %v, want %+v", got, err, said(d))
		}
	}
	d := state.OfQueue(statetest.Base, &q)
	page := string(dashboard.Pages{}.State(nil, &d, view))
	for _, want := range []string{
		`j000000000003</a></td><td class="t"><span class="badge cool">pending</span> <span class="badge warn">on hold</span> </td>`,
		"a\n&amp;b <span class=\"dim\">a &lt;reason&gt;</span>",
		`j000000000004</a></td><td class="t"></td>`,
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
		if got := state.Ago(statetest.Day, statetest.Day.Add(-d)); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// said is the document as its table has it.
func said(d state.Document) state.Document {
	d.Subject, d.Base = "", ""
	return d
}

var update = flag.Bool("update", false, "write the golden files")

// elsewhere is what the golden pages leave out: the style sheet, which is in pages, and the
// table of a state, which is in the golden bodies of queuefs/state.
var elsewhere = regexp.MustCompile(`(?s)(<style[^>]*>).*?(</style>)|(<table class="state" summary="\w+:[^>]*>).*?(</table>)`)

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	got = elsewhere.ReplaceAll(got, []byte("$1$2$3$4"))
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s, %v", name, got, want, err)
	}
}

func TestPagesAreAsTheyWere(t *testing.T) {
	for name, d := range statetest.Documents() {
		got := dashboard.Pages{}.State(nil, &d, rest.View{})
		compareGolden(t, name+".html", got)
		back, err := statetest.Read(state.XHTML, d.Class, got)
		if err != nil || !reflect.DeepEqual(back, said(d)) {
			t.Errorf("%s: read back: got %+v, %v", name, back, err)
		}
	}
}

func TestPagesSayUntilWhenAJobIsHeld(t *testing.T) {
	j := statetest.PlainJob()
	j.Held, j.HeldFor, j.HeldUntil, j.Message = statetest.Day, "waits <so>", statetest.Day.Add(time.Hour), "no route"
	d := state.OfJob(statetest.Base, &j)
	page := string(dashboard.Pages{}.State(nil, &d, rest.View{}))
	if want := "On hold until 2010-04-20 17:00:00 UTC: waits &lt;so&gt;"; !strings.Contains(page, want) {
		t.Errorf("no %q in %s", want, page)
	}
	q := statetest.FullQueue()
	q.Jobs.IDs = []queuefs.JobID{j.ID}
	d = state.OfQueue(statetest.Base, &q)
	page = string(dashboard.Pages{}.State(nil, &d, rest.View{Jobs: []queuefs.Job{j}}))
	if want := "no route; waits &lt;so&gt;"; !strings.Contains(page, want) {
		t.Errorf("no %q in %s", want, page)
	}
	j.HeldFor, j.Message = "", ""
	d = state.OfJob(statetest.Base, &j)
	page = string(dashboard.Pages{}.State(nil, &d, rest.View{}))
	if want := "On hold until 2010-04-20 17:00:00 UTC<"; !strings.Contains(page, want) {
		t.Errorf("no %q in %s", want, page)
	}
}

// A state made without the list of jobs, as after a change or with limit=0, does not say
// that there are none.
func TestPagesDoNotDenyJobsThatTheyDoNotList(t *testing.T) {
	for _, tt := range []struct {
		pending int64
		ids     []queuefs.JobID
		limit   int
		none    bool
	}{
		{0, nil, 0, true},
		{0, nil, 100, true},
		{3, nil, 0, false},
		{3, nil, 100, true}, // of the selection
		{3, []queuefs.JobID{1, 2, 3}, 100, false},
	} {
		q := state.Queue{Jobs: state.Jobs{IDs: tt.ids, Limit: tt.limit}}
		q.Info.ID, q.Pending = "jobs", tt.pending
		d := state.OfQueue(statetest.Base, &q)
		text := dashboard.Pages{}.State(nil, &d, rest.View{})
		if got := bytes.Contains(text, []byte(">None.<")); got != tt.none {
			t.Errorf("%+v: the page says None: %v", tt, got)
		}
		if got := bytes.Contains(text, []byte(">All jobs<")); got != (tt.pending > 0 && tt.limit == 0) {
			t.Errorf("%+v: the page leads to all jobs: %v", tt, got)
		}
	}
}
