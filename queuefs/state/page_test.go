package state_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A page is what a browser sees of a document.
type page struct {
	style    string
	links    map[string]string // rel of the head and its last href
	anchors  []string
	forms    []string // "post URL name[=value] …"
	elements []string
}

// readPage reads a page with an XML parser that knows no entities but those of
// XML, as browsers do for application/xhtml+xml.
func readPage(t *testing.T, d *state.Document) page {
	t.Helper()
	p := page{links: map[string]string{}}
	text := state.XHTML.Append(nil, d)
	dec := xml.NewDecoder(bytes.NewReader(text))
	inStyle := false
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
			inStyle = x.Name.Local == "style"
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
			inStyle = false
		case xml.CharData:
			if inStyle {
				p.style += string(x)
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
	queueForms := func(q, next string) []string {
		return []string{
			"post " + at + "/content/" + q + "?t=xhtml as multipart/form-data file sidecar",
			"post " + at + "/consume/" + q + "?t=xhtml",
			"get " + at + "/state/" + q + " t=xhtml status",
			"post " + at + "/state/" + q + "?t=xhtml S=" + next,
		}
	}
	svc.BaseURI = at + "/"
	for _, tt := range []struct {
		name string
		d    state.Document
		want []string
	}{
		{"service", state.OfService(&svc), []string{"post " + at + "/state?t=xhtml identifier name description"}},
		{"running queue", state.OfQueue(base, &running), queueForms("ingest", "pause")},
		{"paused queue", state.OfQueue(base, &paused), queueForms("uc3+cutie=01", "restart")},
		{"pending job", jobIn(queuefs.Pending, false), []string{"post " + at + "/hold" + job, "post " + at + "/delete" + job}},
		{"held job", jobIn(queuefs.Pending, true), []string{"post " + at + "/release" + job, "post " + at + "/delete" + job}},
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
	// The way, 5 references with two jobs each way, and 4 other forms.
	if want := 3 + 1 + 2 + 1 + 2 + 4; n != want {
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
