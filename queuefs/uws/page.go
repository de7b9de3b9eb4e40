package uws

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// page reports whether the client asks for HTML. A browser names
// application/xhtml+xml, and a program that wants a page nothing but text/html; other
// clients may have text/html first in a list of everything.
func (r *request) page() bool {
	if !r.pages {
		return false
	}
	if s, ok := r.value("format"); ok {
		return strings.EqualFold(s, "html")
	}
	return browses(r.Request)
}

func browses(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	media, _, _ := strings.Cut(accept, ";")
	alone := strings.TrimSpace(media) == "text/html" && !strings.Contains(accept, ",")
	return alone || strings.Contains(accept, "text/html") && strings.Contains(accept, "application/xhtml+xml")
}

// A Page is a job, a list or an error.
type Page struct {
	Title, Badge string
	Base         state.Base
	Queue, Name  string // "" if no queue is known
	List         string // reference; "" if no queue is known
	Body         any    // *JobPage, *ListPage or *web.Failure
	// May is that of [web.MayOf].
	May func(method, path string) bool
}

// base returns the beginning of references in the answer to a request.
func (h *Handler) base(r *http.Request) state.Base { return web.BaseOf(r, h.svc.Info().BaseURI) }

func (h *Handler) queuePage(r *request, title string, body any) *Page {
	return &Page{Title: title, Base: r.base, Queue: r.q.ID(), Name: cmp.Or(r.q.Info().Name, r.q.ID()),
		List: r.ref("async"), Body: body, May: web.MayOf(r.Context())}
}

// may reports whether the reader of a page may send a request to a reference.
func (r *request) may(method, ref string) bool {
	may := web.MayOf(r.Context())
	return may == nil || may(method, strings.TrimPrefix(ref, string(r.base)))
}

// A JobPage is a job on a page of its own.
type JobPage struct {
	URL, XML, Wait                string
	Destruction, Message, HeldFor string
	CutieJob                      string // reference of its state; "" if the reader may not see it
	Duration                      int64
	Pending, Active, Waits        bool
	Mine                          bool // the caller may change it
	Properties, Params, Results   []PageFile
}

// A PageFile is a parameter or a result, with Text or URL.
type PageFile struct {
	Name, Text, URL, Type string
	Size                  int64
	Long                  bool // in a field of several lines
}

func (h *Handler) jobPage(w http.ResponseWriter, r *request, j *job) error {
	p := j.phase()
	url := r.ref("async", j.id)
	page := &JobPage{
		URL: url, XML: url + "?format=xml", Wait: url + "?format=html&WAIT=30&PHASE=" + string(p),
		Destruction: timeOrNone(j.destruction()), Duration: j.duration(),
		Pending: p == pending, Active: p.active() || p == held, Waits: p.active() && !r.set.old,
		Mine: r.mayChange(j) && r.may(http.MethodPost, url),
	}
	_, page.Message, _ = j.failure()
	if ref := r.base.Ref("state", r.q.ID(), j.cut.ID.String()); r.may(http.MethodGet, ref) {
		page.CutieJob = ref + "?t=xhtml"
	}
	if p == held {
		page.HeldFor = j.cut.HeldFor
	}
	for _, f := range h.facts(j)[1:] { // the identifier is in the title
		text := f.text
		if !f.at.IsZero() {
			text = h.pageTime(f.at)
		}
		if text != "" && f.element != "phase" { // which is beside it
			page.Properties = append(page.Properties, PageFile{Name: f.element, Text: text})
		}
	}
	for _, p := range j.parameters() {
		f := PageFile{Name: p.name, Text: p.value, Long: len(p.value) > 60 || strings.Contains(p.value, "\n")}
		if p.ref {
			f.URL = r.ref("async", j.id, "parameters", p.name)
		}
		page.Params = append(page.Params, f)
	}
	for _, res := range j.results() {
		page.Results = append(page.Results,
			PageFile{Name: res.Name, URL: r.ref("async", j.id, "results", res.Name), Size: res.Size, Type: typeOf(res)})
	}
	whole := h.queuePage(r, "Job "+j.id, page)
	whole.Badge = string(p)
	h.sendPage(w, http.StatusOK, whole)
	return nil
}

// A ListPage is the newest jobs of a list.
type ListPage struct {
	XML, Create string
	Phases      []phase
	Chosen      phase
	After       string
	Last        int
	Mine        bool // jobs can be made
	Jobs        []ListedJob
	Limits      []string // of the caller, each with its use
}

// A ListedJob is one line of a list.
type ListedJob struct{ ID, URL, Phase, RunID, Owner, Created, Ago string }

func (h *Handler) listPage(w http.ResponseWriter, r *request, f filter, list []*job) error {
	url := r.ref("async")
	page := &ListPage{XML: url + "?format=xml", Create: url + "?" + linesField + "=parameters", Phases: phases[:8],
		Last: f.last, Mine: !r.q.Info().Closed && r.may(http.MethodPost, url)}
	if len(f.phases) > 0 {
		page.Chosen = f.phases[0]
	}
	if !f.after.IsZero() {
		page.After = formatTime(f.after)
	}
	if page.Mine {
		var err error
		if page.Limits, err = h.limitsInWords(r); err != nil {
			return err
		}
	}
	for _, j := range list {
		page.Jobs = append(page.Jobs, ListedJob{j.id, r.ref("async", j.id) + "?format=html", string(j.phase()), j.runID(),
			j.owner(), j.created().UTC().Format(pageTimeForm), state.Ago(h.now(), j.created())})
	}
	h.sendPage(w, http.StatusOK, h.queuePage(r, "UWS jobs of "+cmp.Or(r.q.Info().Name, r.q.ID()), page))
	return nil
}

// pageTimeForm is for people: seconds are enough.
const pageTimeForm = "2006-01-02 15:04:05"

func (h *Handler) pageTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	text := t.UTC().Format(pageTimeForm) + " UTC"
	if ago := state.Ago(h.now(), t); ago != "" {
		text += " (" + ago + ")"
	}
	return text
}

// linesField in the query of a form names the field with parameters of any
// name, one "name=value" a line. A form without a script could not send them
// otherwise.
const linesField = "uws-lines"

// fromPage turns a form of a page into a form of a program: it drops empty
// controls, and makes lines parameters.
func (f *filled) fromPage(lines string) error {
	all := f.params
	f.params, f.size = nil, 0
	for _, p := range all {
		switch {
		case p.name == linesField || isControl(p.name) && p.value == "":
		case p.name == lines:
			for line := range strings.Lines(p.value) {
				if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) == "" {
					continue
				}
				name, value, ok := strings.Cut(line, "=")
				if !ok {
					return forbidden("parameters are name=value, one a line, and %.40q has no =", line)
				}
				if err := f.add(pair{strings.TrimSpace(name), value}); err != nil {
					return err
				}
			}
		default:
			if err := f.add(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeName returns an unused name for a file: a page has one field for all
// files.
func (f *filled) freeName(name string) string {
	for n, first := 2, name; f.taken(name); n++ {
		name = first + strconv.Itoa(n)
	}
	return name
}

func (f *filled) taken(name string) bool {
	return slices.ContainsFunc(f.uploads, func(u upload) bool { return u.name == name })
}

func (h *Handler) sendPage(w http.ResponseWriter, status int, p *Page) {
	header := w.Header()
	header.Set("Vary", "Accept")
	header.Set("Content-Security-Policy", state.PagePolicy)
	header.Set("Referrer-Policy", "same-origin")
	send(w, status, "text/html; charset=utf-8", h.o.Page(p))
}
