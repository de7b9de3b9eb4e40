// Package dashboard serves every page for people: the service with its queues, the states
// of the Cutie protocol with forms for everything the reader may do (Cutie 0.3, section 5),
// charts, workers, searches, previews of changes, and the documents of ResourceSync to
// read. A [Board] answers the requests, a [Hub] keeps open pages up to date, and a
// [Sampler] gathers the figures of a [History] for the charts.
//
// A page is well-formed as XHTML and as HTML, and is whole without scripts and without
// other resources. Pages of the service, of a queue and of workers have [Script], which
// brings them up to date, and the page of a job, where it says that the job has changed;
// [Policy] is their Content-Security-Policy. The table of a state has exactly the text of
// the other forms. Everything else on a page is outside of the table, or in attributes.
//
// Readers see only their queues: routes ask for the right to read the queue, and pages
// over several queues leave out queues without it. A request looks at a bounded number of
// jobs, and says how far it has looked.
package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

//go:embed pages
var files embed.FS

// pages returns the templates. They are parsed for the first page: most commands write none.
// The style is a part of their text, so that no page escapes it again.
var pages = sync.OnceValue(func() *template.Template {
	all := template.New("").Funcs(template.FuncMap{
		"kind": func(word string) string { return kinds[word] },
		"base": path.Base,
	})
	names, err := fs.Glob(files, "pages/*.html")
	for _, name := range names {
		text, e := files.ReadFile(name)
		err = errors.Join(err, e)
		template.Must(all.Parse(strings.ReplaceAll(string(text), "{{style}}", state.PageStyle)))
	}
	if err != nil {
		panic(err)
	}
	return all
})

// kinds are the classes of badges. A word without a class is neither good nor bad.
var kinds = map[string]string{
	"pending": "cool", "fetching": "cool", "leased": "cool",
	"running": "good", "completed": "good", "done": "good",
	"paused": "warn", "closed": "warn", "shut": "bad", "mirror": "cool", "on hold": "warn", "aborted": "warn", "transient": "warn",
	"error": "bad", "failed": "bad", "fatal": "bad",
	"PENDING": "cool", "QUEUED": "cool", "EXECUTING": "cool", "COMPLETED": "good", "ERROR": "bad", "ABORTED": "warn", "HELD": "warn",
}

// A head is the top of a page.
type head struct {
	Head   template.HTML
	Title  string
	Source string   // Source Description; "" if unknown
	Sets   []string // Capability Lists of the sets of a queue
	Forms  []formLink
	Path   []crumb
	Live   string // URL of the parts that change; "": the page stays as it is
	Script string // URL of the script
	Hash   string // of the script
}

// A formLink leads to the same state in another form.
type formLink struct{ Name, Type, Ref string }

// A crumb is one step of the way to a page, or a link beside it.
type crumb struct{ Class, Ref, Text string }

// A link is a reference with its text.
type link struct{ Ref, Text string }

// newHead returns the top of the page of a thing; way are the steps below the
// service. base is "" if unknown. may is that of a [Site].
func newHead(title string, base state.Base, may func(method, path string) bool, way ...crumb) head {
	h := head{Head: state.XHTMLHead, Title: title}
	if base == "" {
		return h
	}
	h.Source = base.Ref(".well-known", "resourcesync")
	h.Path = append(steps(may, string(base)+"/"), way...)
	h.Path = append(h.Path, besides(base, may)...)
	return h
}

// steps is the first step of the way to a page, at home; there is none for a reader without
// a right.
func steps(may func(method, path string) bool, home string) []crumb {
	if may != nil && !may(http.MethodGet, "/") {
		return nil
	}
	return []crumb{{Ref: home, Text: "Queues"}}
}

// besides are the links of every page to pages open to its reader.
func besides(base state.Base, may func(method, path string) bool) (all []crumb) {
	for _, one := range []crumb{{Ref: base.Ref("workers"), Text: "Workers"}, {Ref: state.XHTML.Ask(base.Ref("state")), Text: "Service"}, {Ref: base.Ref(ManualDir), Text: "Manual"}} {
		if may == nil || may(http.MethodGet, one.Ref[len(base):]) {
			if all == nil {
				one.Class = "side"
			}
			all = append(all, one)
		}
	}
	return all
}

// appendPage appends a template of pages. An error is a bug: there is nothing in
// the data to refuse.
func appendPage(dst []byte, name string, data any) []byte {
	b := bytes.NewBuffer(dst)
	if err := pages().ExecuteTemplate(b, name, data); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Pages writes the states of the Cutie protocol for people.
type Pages struct {
	Asides Asides // nil: pages have the state alone
}

var _ rest.Pages = Pages{}

// State implements [rest.Pages].
func (p Pages) State(dst []byte, d *state.Document, v rest.View) []byte {
	if v.Failure != nil {
		return appendPage(dst, "fail", newFailPage(d, v.Failure))
	}
	return appendPage(dst, "state", newStatePage(d, &v, p.Asides))
}

// Rows implements [rest.Pages]. The first page of a queue has short lists beside the state in
// their place.
func (p Pages) Rows(d *state.Document) bool { return p.Asides == nil || selected(d) }

// Policy implements [rest.Pages].
func (p Pages) Policy() string {
	if p.Asides == nil {
		return state.PagePolicy
	}
	return Policy
}

// JobsTop implements [rest.Pages].
func (Pages) JobsTop(dst []byte, base state.Base, queue string) []byte {
	return appendPage(dst, "jobs top", newHead("Queue "+queue, base, nil, crumb{Class: "step", Ref: state.XHTML.Ask(base.Ref("state", queue)), Text: queue}))
}

// Job implements [rest.Pages].
func (Pages) Job(dst []byte, d *state.Document, now time.Time) []byte {
	return appendPage(dst, "row", newRow(d, d.Subject, now))
}

// JobsEnd implements [rest.Pages].
func (Pages) JobsEnd(dst []byte, next string) []byte { return appendPage(dst, "jobs end", next) }

// A Site is what a page has from its request.
type Site struct {
	Base state.Base
	// May reports whether the reader may send a request to a path below the base. nil: the
	// reader may do everything.
	May  func(method, path string) bool
	Live string // path and query of the parts that change, below the base; "": none does
}

// may reports whether the reader may post to a URL below the base.
func (v *Site) may(method, ref string) bool {
	return v.May == nil || v.May(method, ref[len(v.Base):])
}

// page returns the URL of a state as a page.
func (v *Site) page(segments ...string) string { return state.XHTML.Ask(v.Base.Ref(segments...)) }

func (v *Site) head(title string, way ...crumb) head {
	h := newHead(title, v.Base, v.May, way...)
	h.follow(v.Base, v.Live)
	return h
}

// follow makes a page live.
func (h *head) follow(base state.Base, live string) {
	if live != "" {
		h.Live, h.Script, h.Hash = string(base)+live, base.Ref(ScriptDir, ScriptName), scriptHash
	}
}

func (v *Site) write(name string, data any) []byte { return appendPage(nil, name, data) }

// newPart returns an element of a page for its watchers.
func newPart(id, name string, data any) Part {
	return Part{ID: id, Text: appendPage(nil, name, data)}
}

// octets returns a number of octets with three digits and a unit, "" below 1000.
func octets(n int64) string {
	if n < 1000 {
		return ""
	}
	return state.FormatSize(n)
}

// grouped puts a comma before every three digits.
func grouped(n string) string {
	for i := len(n) - 3; i > 0 && n[i-1] != '-'; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// clipped returns the beginning of a text too long for a row.
func clipped(s string) string {
	const most = 80
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// inXML reports whether a character may stand in a page (XML 1.0, 2.2).
func inXML(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r != 0xfffe && r != 0xffff
}

// clean returns a text as it may stand in a page.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if inXML(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
