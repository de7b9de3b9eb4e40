package dashboard_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/publisher/names"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
	"cutie/sitemap"
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
	text     string
}

// readPage returns the page of a document.
func readPage(t *testing.T, d *state.Document) page {
	t.Helper()
	return parsePage(t, dashboard.Pages{}.State(nil, d, rest.View{}))
}

// parsePage reads a page with an XML parser that knows no entities but those of
// XML, as browsers do for application/xhtml+xml.
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
			if p.text += string(x); inStyle {
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
	const jobID = "/uc3+cutie=01%5E20x/j000000000042?t=xhtml"
	jobIn := func(status job.Status, held bool) state.Document {
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
	// Every property that cutie set has, but the name and the callback.
	settings := func(q *state.Queue, d state.Document) string {
		form := "post " + at + "/state/" + q.Info.ID + "?t=xhtml"
		for i := range home.Properties {
			p := &home.Properties[i]
			if p.Option == "" && p.Name != "closed" || p.Name == "name" || p.Name == "callback" {
				continue
			}
			value := strings.Replace(d.Text(p.Name), "-1", "", 1)
			field := p.Name
			switch {
			case p.Kind() == home.Truth:
				value = cmp.Or(value, "false")
			case value != "" && p.Words == nil:
				field += "=" + value
			}
			form += " seen-" + p.Name + map[bool]string{true: "=" + value}[value != ""] + " " + field
		}
		return form
	}
	unset, full := settings(&running, state.OfQueue(statetest.Base, &running)), settings(&paused, state.OfQueue(statetest.Base, &paused))
	for _, tt := range []struct {
		name string
		d    state.Document
		want []string
	}{
		{"service", state.OfService(&svc), []string{"post " + at + "/state?t=xhtml identifier name description"}},
		{"running queue", state.OfQueue(statetest.Base, &running), []string{submit, "post " + at + "/consume/ingest?t=xhtml", "post " + at + "/state/ingest?t=xhtml S=pause", unset}},
		{"paused queue", state.OfQueue(statetest.Base, &open), []string{submit, "post " + at + "/state/ingest?t=xhtml S=restart", unset}},
		{"paused and closed queue", state.OfQueue(statetest.Base, &paused), []string{"post " + at + "/state/uc3+cutie=01?t=xhtml S=restart", full}},
		{"pending job", jobIn(job.Pending, false), []string{"post " + at + "/hold" + jobID + " reason until", "post " + at + "/delete" + jobID}},
		{"held job", jobIn(job.Pending, true), []string{"post " + at + "/release" + jobID, "post " + at + "/delete" + jobID}},
		{"job in work", state.OfJob(statetest.Base, &leased), []string{"post " + at + "/abort" + jobID + " message"}},
		{"consumed job", jobIn(job.Consumed, true), []string{"post " + at + "/requeue" + jobID}},
		{"deleted job", jobIn(job.Deleted, false), []string{"post " + at + "/requeue" + jobID}},
		{"job without place", said(jobIn(job.Pending, false)), nil},
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
	q.Jobs.IDs = []job.ID{3, 4, 5}
	held, failed := statetest.PlainJob(), statetest.FullJob()
	held.ID, held.Held, held.HeldFor, held.Filename = 3, statetest.Day, "a <reason>", "a\n&b"
	failed.ID, failed.Size = 5, 1234567
	full := statetest.FullJob()
	full.Sidecar = strings.Repeat("long & <hostile>\n", 100)
	view := rest.View{Now: statetest.Day.Add(3 * time.Hour), Jobs: []job.Job{held, failed}}
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
	q.Jobs.IDs = []job.ID{j.ID}
	d = state.OfQueue(statetest.Base, &q)
	page = string(dashboard.Pages{}.State(nil, &d, rest.View{Jobs: []job.Job{j}}))
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
		ids     []job.ID
		limit   int
		none    bool
	}{
		{0, nil, 0, true},
		{0, nil, 100, true},
		{3, nil, 0, false},
		{3, nil, 100, true}, // of the selection
		{3, []job.ID{1, 2, 3}, 100, false},
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

const aboutBase = "http://source.test/cutie/.well-known/resourcesync"

// aboutSource is a Source with more queues than it names.
func aboutSource() *names.About {
	queues := 3
	a := &names.About{About: aboutBase, Home: "http://source.test/cutie/", Title: "What http://source.test/cutie/ publishes", Description: names.SourceText, Version: "1.0", Software: home.Scheme,
		Hashes: []string{"sha-256"}, Retention: names.AboutRetention{Period: 86400, Keep: 5400, KeepOctets: 1 << 30}, Limits: names.AboutLimits{Entries: 9, Octets: 1e6, Package: 1 << 32},
		Follow: names.ChooseSet("/.well-known/resourcesync", "resourcesync"), Queues: &queues}
	for _, q := range []home.QueueInfo{{ID: "jobs", Name: `<b> & "jobs"`}, {ID: "a^20b"}} {
		for s := range names.Set(names.Sets) {
			docs := aboutBase + "/" + names.Escape(q.ID) + "/" + s.String() + "/"
			a.Sets = append(a.Sets, names.AboutDocument{URI: docs + "capabilitylist.xml", Text: names.SetTitle(s, q), About: docs + names.AboutPageName})
		}
	}
	return a
}

// aboutSet is a set with everything there can be.
func aboutSet() *names.About {
	a := aboutSource()
	a.Queues, a.Sets = nil, nil
	a.About, a.Title, a.Description = aboutBase+"/jobs/replica/capabilitylist.xml", `Replica of the queue <b> & "jobs"`, names.SetText(names.Replica)
	a.Mirrors, a.Via = []string{"https://mirror.test/a", "https://mirror.test/b"}, "https://first.test"
	a.Follow = names.FollowSet(sitemap.V10, true, true, true, true)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	a.AboutSet = &names.AboutSet{Set: "replica", Resources: 13, Octets: 12345,
		Queue: names.AboutQueue{ID: "jobs", Name: `<b> & "jobs"`, Description: "made for it's <script>", State: "http://source.test/cutie/state/jobs",
			Info: "http://source.test/cutie/queues/jobs/queue-info.txt", Created: at, LastEvent: at.Add(time.Hour), Events: 21, Pending: 1, Consumed: 2, Deleted: 3},
		Changes: names.AboutChanges{From: at, OpenFrom: at.Add(time.Minute), Open: 4, Closed: 5, Packages: 6},
		Dump:    &names.AboutDump{At: at.Add(time.Second), Made: at.Add(time.Minute), Packages: 7}}
	for _, d := range []struct {
		name names.Kind
		of   sitemap.Capability
	}{{names.OpenList, ""}, {names.ResourceList, sitemap.ResourceList}, {names.ChangeIndex, sitemap.ChangeList}, {names.ChangeDump, sitemap.ChangeDump}} {
		a.Documents = append(a.Documents, names.AboutDocument{URI: aboutBase + "/jobs/replica/" + d.name.Of().String(), Capability: string(d.of), Text: names.DocumentText(d.of)})
	}
	return a
}

func TestPagesAboutASourceAndItsSets(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    *names.About
		text []string
	}{
		{"source.html", aboutSource(), []string{"1 more queues stand in the Source Description"}},
		{"set.html", aboutSet(), []string{"made for it's <script>", "1 pending, 2 consumed, 3 deleted", "lastmod", "2026-03-01T13:00:00.123456Z",
			"of 2026-03-01T12:00:01.123456Z, 7 packages", "12345"}},
	} {
		page := dashboard.About.Print(tt.a)
		seen := parsePage(t, page)
		text := seen.text
		for _, want := range append(tt.text, tt.a.Title, tt.a.Description, tt.a.Version, "24h", "1h30m", "sha-256", "as long as it is kept", "somebody asks for it") {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", tt.name, want)
			}
		}
		refs := []string{tt.a.About, "about.json"}
		refs = append(refs, tt.a.Mirrors...)
		if tt.a.AboutSet != nil {
			refs = append(refs, tt.a.Via, tt.a.Queue.State, tt.a.Queue.Info, "../../about.html")
		}
		for _, d := range append(slices.Clone(tt.a.Documents), tt.a.Sets...) {
			if refs = append(refs, d.URI); d.About != "" {
				refs = append(refs, d.About)
			}
			if !strings.Contains(text, d.Text) {
				t.Errorf("%s does not say %q", tt.name, d.Text)
			}
		}
		for _, ref := range refs {
			if !slices.Contains(seen.anchors, ref) {
				t.Errorf("%s does not link to %s: %q", tt.name, ref, seen.anchors)
			}
		}
		for _, step := range tt.a.Follow {
			if !strings.Contains(text, step) {
				t.Errorf("%s does not say %q", tt.name, step)
			}
		}
		if seen.links["resourcesync"] != tt.a.About || seen.links["alternate"] != "about.json" {
			t.Errorf("%s: the head links to %v", tt.name, seen.links)
		}
		sum := sha256.Sum256([]byte(seen.style))
		policy := dashboard.About.Policy
		if seen.style != state.PageStyle || !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s does not look like other pages: policy %q", tt.name, policy)
		}
		compareGolden(t, "about-"+tt.name, page)
	}
}

// TestPagesAboutAreValidXHTML needs the DTD, which is not fetched.
func TestPagesAboutAreValidXHTML(t *testing.T) {
	dtd := ""
	for _, name := range []string{"/usr/share/xml/xhtml/schema/dtd/1.0/xhtml1-strict.dtd", "/usr/share/xml/w3c-sgml-lib/schema/dtd/REC-xhtml1-20020801/xhtml1-strict.dtd"} {
		if _, err := os.Stat(name); err == nil {
			dtd = name
		}
	}
	if _, err := exec.LookPath("xmllint"); err != nil || dtd == "" {
		t.Skip("xmllint or the DTD of XHTML 1.0 is not installed")
	}
	for _, a := range []*names.About{aboutSource(), aboutSet()} {
		name := filepath.Join(t.TempDir(), "about.html")
		if err := os.WriteFile(name, dashboard.About.Print(a), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("xmllint", "--noout", "--nonet", "--dtdvalid", dtd, name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", a.About, err, out)
		}
	}
}

// A page of a document has words beside its terms, and no link to a resource deleted by its
// last entry.
func TestDocumentsAreShownInWords(t *testing.T) {
	base := string(statetest.Base)
	list := base + "/.well-known/resourcesync/q/replica/changelist.xml"
	d := &dashboard.Document{URI: list, Tree: base + "/.well-known/resourcesync", Pages: base + "/read",
		Head: sitemap.Head{Capability: sitemap.ChangeList, Links: []sitemap.Link{{Rel: "up", Href: base + "/up"}, {Rel: "odd", Href: base + "/odd"}, {Rel: "hub", Href: base + "/hub"}}},
		Entries: []sitemap.Entry{{Loc: base + "/a", Change: sitemap.Created}, {Loc: base + "/b", Change: sitemap.Deleted}, {Loc: base + "/a", Change: sitemap.Deleted},
			{Loc: base + "/b", Change: sitemap.Created}, {Loc: base + "/n", Capability: sitemap.ChangeNotification}}}
	page := string(dashboard.Read(dashboard.Site{Base: statetest.Base}, d))
	var got []string
	for _, line := range strings.Split(page[strings.Index(page, "<h1>"):], "\n") {
		if strings.Contains(line, "<h1>") || strings.Contains(line, "<li>") || strings.HasPrefix(line, "<tr><td") {
			line, _, _ = strings.Cut(line, `<td class="t"`)
			got = append(got, line)
		}
	}
	link := func(path string) string { return `<a href="` + base + path + `">` + path + `</a>` }
	want := []string{"<h1>Change List</h1>",
		`<ul><li>Above <span class="dim">(up)</span>: ` + link("/up") + `</li>`, `<li>odd: ` + link("/odd") + `</li>`,
		`<li>Hub for subscriptions <span class="dim">(hub)</span>: /hub</li>`,
		`<tr><td class="text">/a</td><td>created</td>`, `<tr><td class="text">` + link("/b") + `</td><td>deleted</td>`, `<tr><td class="text">/a</td><td>deleted</td>`,
		`<tr><td class="text">` + link("/b") + `</td><td>created</td>`,
		`<tr><td class="text">` + link("/n") + `</td><td>Messages about changes <span class="dim">(changelist-notification)</span></td>`}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The page of an error says what was refused and why, and leads to pages open to its reader.
func TestPagesOfErrorsHaveAWayOut(t *testing.T) {
	at := string(statetest.Base)
	here, home, manual := at+"/state/ingest?t=xhtml", at+"/", at+"/manual"
	for _, tt := range []struct {
		name  string
		f     web.Failure
		may   []string
		title string
		says  []string
		links []string
	}{
		{"no user", web.Failure{Status: 401, Method: "GET", Path: "/"}, nil, "A name and a password are needed", nil, []string{manual, manual + "/access"}},
		{"no right", web.Failure{Status: 403, Method: "POST", Path: "/content/ingest"}, []string{"/", "/state/ingest"}, "You may not do this",
			[]string{"POST /content/ingest", "Nothing was changed."}, []string{home, manual, home, manual + "/access"}},
		{"no job", web.Failure{Status: 404, Method: "GET", Path: "/state/ingest/j000000000009", Queue: "ingest", Job: "j000000000009"}, []string{"/", "/state/ingest"}, "There is nothing here",
			nil, []string{home, here, manual, here}},
		{"conflict", web.Failure{Status: 409, Method: "POST", Path: "/hold/ingest/j000000000009", Queue: "ingest", Job: "j000000000009"}, []string{"/", "/state/ingest"}, "This does not fit the present state",
			[]string{"Nothing was changed."}, []string{home, here, manual, at + "/state/ingest/j000000000009?t=xhtml", here}},
		{"too much", web.Failure{Status: 429, Method: "POST", Path: "/content/ingest", Queue: "ingest", After: "90"}, nil, "Too many requests",
			[]string{"Another try can succeed in 90 s."}, []string{manual, manual + "/limits"}},
		{"fault", web.Failure{Status: 500, Method: "POST", Path: "/content/ingest"}, []string{"/"}, "Something is wrong with the service",
			nil, []string{home, manual, home, manual + "/operating#what-to-do-when"}},
		{"full disk", web.Failure{Status: 507, Method: "POST", Path: "/content/ingest"}, nil, "The disk of the service is full",
			[]string{"Nothing was changed.", "cutie cull"}, []string{manual, manual + "/operating#the-disk-is-nearly-full"}},
		{"unknown", web.Failure{Status: 418, Method: "GET", Path: `/"><script>`}, nil, "This request is not understood", []string{`GET /"><script>`}, []string{manual}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Detail = `why & <how>`
			tt.f.May = func(method, path string) bool {
				return method == "GET" && (strings.HasPrefix(path, "/manual") || slices.Contains(tt.may, path))
			}
			d := state.OfException(state.Exception{Status: tt.f.Status, Detail: tt.f.Detail})
			d.Base = statetest.Base
			ofState := dashboard.Pages{}.State(nil, &d, rest.View{Failure: &tt.f})
			if got, err := statetest.Read(state.XHTML, d.Class, ofState); err != nil || got.Text("detail") != tt.f.Detail {
				t.Errorf("read back: got %+v, %v", got, err)
			}
			for name, text := range map[string][]byte{"state": ofState, "UWS": dashboard.Pages{}.UWS(&uws.Page{Base: statetest.Base, Body: &tt.f})} {
				p := parsePage(t, text)
				if want := append([]string{"#main"}, tt.links...); !slices.Equal(p.anchors, want) {
					t.Errorf("%s: got links %q, want %q", name, p.anchors, want)
				}
				for _, want := range append(tt.says, fmt.Sprintf(`<h1>%s <span class="badge bad">%d</span></h1>`, tt.title, tt.f.Status), tt.f.Detail) {
					if !strings.Contains(html.UnescapeString(string(text)), want) {
						t.Errorf("%s: %q is not in %s", name, want, text)
					}
				}
			}
		})
	}
}

// UWS answers everything that a queue rejects with 403.
func TestRefusalsOfUWSAreNotOnesOfRights(t *testing.T) {
	f := &web.Failure{Status: 403, Detail: "too many jobs", Method: "POST", Path: "/uws/ingest/async", Queue: "ingest"}
	text := string(dashboard.Pages{}.UWS(&uws.Page{Base: statetest.Base, Body: f}))
	if !strings.Contains(text, `<h1>The queue refuses this <span class="badge bad">403</span></h1>`) || strings.Contains(text, "cutie user") {
		t.Errorf("got %s", text)
	}
}

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
	results []job.Result
	queue   *dashboard.QueueAside
	text    string
}

func (a asides) Queue(string) *dashboard.QueueAside { return a.queue }

func (a asides) Job(_ string, _ job.ID, url string) *dashboard.JobAside {
	return &dashboard.JobAside{Results: a.results, Preview: dashboard.NewPreview("text/plain", int64(len(a.text)), []byte(a.text), url)}
}

// The page of a job tells its life in order, with the payload as text.
func TestPagesTellTheLifeOfAJob(t *testing.T) {
	at := statetest.Day
	j := statetest.PlainJob()
	j.Status, j.Submitted, j.Owner, j.Requeued, j.Requeues = job.Consumed, at, "ann & <b>", at.Add(time.Hour), 2
	j.Consumed, j.Consumer, j.Attempts, j.Finished, j.Outcome, j.Message = at.Add(90*time.Minute), "<worker>", 3, at.Add(91*time.Minute), job.Failed, "no <route>"
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
	a := &dashboard.QueueAside{Points: points(dashboard.Pending, 0, 2, 1500, 7, nan, nan), Failed: []job.Job{failed}, Newest: []job.Job{failed}}
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
	parsePage(t, page)
	for _, part := range dashboard.QueueParts(statetest.Base, &q.State, a, true, statetest.Day) {
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
		if strings.Count(page, "<th scope=\"row\"") != 1 || strings.Contains(page, `class="most"`) != (c.figure > 0) {
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
		if got := strings.Count(page, `<path class="line0"`); got != c.lines {
			t.Errorf("%v: got %d lines, want %d", c.steps, got, c.lines)
		}
		for _, bad := range []string{"style=", "NaN", "Inf", `d=""`} {
			if strings.Contains(page, bad) {
				t.Errorf("%v: %s in %s", c.steps, bad, page)
			}
		}
	}
}

// BenchmarkJobPage writes the page that a client without a wish for a form gets for each
// submission.
func BenchmarkJobPage(b *testing.B) {
	j := statetest.PlainJob()
	pages, now := dashboard.Pages{Asides: asides{text: "hello"}}, time.Now()
	var page []byte
	b.ReportAllocs()
	for b.Loop() {
		d := state.OfJob(statetest.Base, &j)
		page = pages.State(page[:0], &d, rest.View{Now: now})
	}
	b.SetBytes(int64(len(page)))
}
