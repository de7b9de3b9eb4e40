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
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/topics"
	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
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

// step is the last step of the way to a page.
func step(text string) crumb { return crumb{Class: "step", Text: text} }

// ofQueue is the head of a page below that of a queue.
func (v *Site) ofQueue(title, queue string, below ...crumb) head {
	return v.head(title, append([]crumb{{"step", v.page("state", queue), queue}}, below...)...)
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

// figure is a number with commas.
func figure[N int | int64](n N) string { return grouped(fmt.Sprint(n)) }

// plural is a number of things.
func plural[N int | int64](n N, thing string) string { return figure(n) + " " + word(n, thing) }

// word is the word for so many things.
func word[N int | int64](n N, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}

// grouped puts a comma before every three digits.
func grouped(n string) string {
	for i := len(n) - 3; i > 0 && n[i-1] != '-'; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// sentence returns a text with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

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

// A Board serves the pages of a service. Its fields are set before use.
type Board struct {
	Service *queuefs.Service
	History *History
	Hub     *Hub
	// Published answers requests for documents of ResourceSync, whoever asks.
	Published http.Handler
	// Differences returns some files of a mirror, found by its last audit since the start, that
	// are not as at the original; nil: nobody knows.
	Differences func(queue string) []string
	// Batches returns the batches of a queue on their way, and failed ones; nil: nobody knows.
	Batches func(queue string) []state.Batch
	// Trouble returns the faults of the whole service, in words for everyone.
	Trouble func() []Trouble

	all lastTotals
}

// Routes returns the routes of the pages.
func (b *Board) Routes() []web.Route {
	get := func(path string, need web.Need, waits web.Waits, serve func(http.ResponseWriter, *http.Request) error) web.Route {
		return web.Route{Method: http.MethodGet, Path: path, Need: need, Waits: waits, Serve: serve}
	}
	some, here, all := web.Anywhere(web.Read), web.Here(web.Read), web.Everywhere(web.Read)
	return []web.Route{
		get("/", web.Need{Right: web.Read, Of: web.Body}, web.AtOnce, b.index),
		get("/"+OwnDir+"/{queue}", web.Need{Right: web.Read, Of: web.Use}, web.AtOnce, b.own),
		get("/history", all, web.AtOnce, b.history),
		get("/history/{queue}", here, web.AtOnce, b.history),
		get("/workers", some, web.AtOnce, b.workers),
		get("/workers/{queue}", here, web.AtOnce, b.workers),
		get("/batches/{queue}", here, web.AtOnce, b.batches),
		get("/batches/{queue}/{batch}", here, web.AtOnce, b.batch),
		get("/mirrors", some, web.AtOnce, b.mirrors),
		get("/find/{queue}", here, web.AtOnce, b.find),
		get("/failures/{queue}", here, web.AtOnce, b.failures),
		get("/bulk/{queue}", here, web.AtOnce, b.bulk),
		{Method: http.MethodPost, Path: "/bulk/{queue}", Need: here, Serve: b.bulk}, // for more names than a URL bears
		get("/"+ManualDir, web.Need{}, web.AtOnce, b.manual),
		get("/"+ManualDir+"/{topic}", web.Need{}, web.AtOnce, b.manual),
		get("/"+ScriptDir+"/{file}", web.Need{}, web.AtOnce, script),
		get("/read", some, web.AtOnce, b.read),
		get("/read/{part}", some, web.AtOnce, b.read),
		get("/read/{queue}/{set}/{document}", here, web.AtOnce, b.read),
		get("/live", some, web.Endless, b.liveIndex),
		get("/live/{queue}", here, web.Endless, b.liveQueue),
		get("/live/{queue}/{job}", here, web.Endless, b.liveJob),
	}
}

// script answers with the script of live pages.
func script(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("file") != ScriptName {
		return web.NotHere
	}
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Write(Script)
	return nil
}

// manual answers with the manual, one of its topics, or an example of a worker as text.
func (b *Board) manual(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("topic")
	if name == "" {
		return answer(w, Manual(b.site(r, "")))
	}
	if t, ok := topics.Find(name); ok {
		return answer(w, Topic(b.site(r, ""), &t))
	}
	text, ok := topics.Worker(name)
	if !ok {
		return web.NotHere
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.Write(text)
	return nil
}

// site returns the part of a page from its request. livePath is the path of its parts.
func (b *Board) site(r *http.Request, livePath string) Site {
	return Site{Base: b.base(r), May: web.MayOf(r.Context()), Live: livePath}
}

func (b *Board) base(r *http.Request) state.Base { return web.BaseOf(r, b.Service.Info().BaseURI) }

// queue returns the queue in the path.
func (b *Board) queue(r *http.Request) (*queuefs.Queue, error) {
	return b.Service.Queue(r.PathValue("queue"))
}

// answer writes a page.
func answer(w http.ResponseWriter, page []byte) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-cache")
	w.Write(page)
	return nil
}

func (b *Board) history(w http.ResponseWriter, r *http.Request) error {
	id, name := "", ""
	if r.PathValue("queue") != "" {
		q, err := b.queue(r)
		if err != nil {
			return err
		}
		id, name = q.ID(), q.Names()[1]
		if name == "" {
			name = id
		}
	}
	span, ok := parseSpan(r.URL.Query().Get("span"))
	if !ok {
		return web.Errorf(http.StatusBadRequest, "parameter span is neither hour nor day nor month")
	}
	now := time.Now()
	return answer(w, Charts(b.site(r, ""), id, name, span, b.History.Of(id, span, now), b.History.Of(id, Hour, now), now))
}

// mayReadAll reports whether the caller may see figures of all queues together.
func mayReadAll(r *http.Request) bool { return access.CallerOf(r.Context()).May(web.Read, "") }
