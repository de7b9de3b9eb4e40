package uws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
	"cutie/wellknown"
)

// A fact is what a job says of itself: an element of its document and a line of its page.
// Most are a resource, too.
type fact struct {
	element  string
	text     string
	at       time.Time // in the place of text; zero for none
	nillable bool      // an empty element is nil; else there is none
}

// facts are in the order of the schema (UWS 1.1, appendix B).
func (h *Handler) facts(j *job) []fact {
	start, end := j.ran()
	return []fact{
		{element: "jobId", text: j.id},
		{element: "runId", text: j.runID()},
		{element: "ownerId", text: j.owner(), nillable: true},
		{element: "phase", text: string(j.phase())},
		{element: "quote", at: h.quote(j), nillable: true},
		{element: "creationTime", at: j.created()},
		{element: "startTime", at: start, nillable: true},
		{element: "endTime", at: end, nillable: true},
		{element: "executionDuration", text: strconv.FormatInt(j.duration(), 10)},
		{element: "destruction", at: j.destruction(), nillable: true},
	}
}

func (f *fact) word() string { return cmp.Or(f.text, timeOrNone(f.at)) }

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t)
}

// part serves a part of a job: one word, or a list (UWS 1.1, 2.2.1).
func (h *Handler) part(w http.ResponseWriter, r *request, j *job) error {
	s := ""
	switch part := r.PathValue("part"); {
	case part == "parameters" || part == "results":
		d := &document{}
		d.open(part, false)
		d.members(part, r, j)
		d.end(part)
		sendXML(w, d)
		return nil
	case part == "error":
		if d, ok := j.cut.ErrorDetail(); ok {
			return serveResult(w, r, j, d.Name)
		}
		_, s, _ = j.failure()
	case part == "quote" && j.set.old: // seconds, in version 1.0 (2.1.6)
		s = "-1"
		if t := h.quote(j); !t.IsZero() {
			s = strconv.FormatInt(max(0, int64(t.Sub(h.now()).Seconds())), 10)
		}
	default:
		for _, f := range h.facts(j) {
			if strings.EqualFold(f.element, part) || f.element == part+"Id" {
				s = f.word()
			}
		}
	}
	text(w, http.StatusOK, s)
	return nil
}

// job serves a job, at once or after a change (UWS 1.1, 2.2.1.1).
func (h *Handler) job(w http.ResponseWriter, r *request, j *job) error {
	if wait, ok := r.value("WAIT"); ok && !r.set.old {
		n, err := strconv.Atoi(strings.TrimSpace(wait))
		if err != nil || n < -1 {
			return bad("WAIT is %.40q, not seconds, and not -1", wait)
		}
		want := j.phase()
		if s, ok := r.value("PHASE"); ok {
			if want, err = parsePhase(s); err != nil {
				return bad("PHASE: %v", err)
			}
		}
		// It answers at once in a phase that nobody is expected to end. -1 is the longest wait.
		if n != 0 && j.phase() == want {
			most := maxWait
			if n > 0 && n <= int(maxWait/time.Second) {
				most = time.Duration(n) * time.Second
			}
			if j, err = h.stayWith(r, j, most, func(p phase) bool { return p == want && p.active() }); err != nil {
				return err
			}
		}
	}
	if r.page() {
		return h.jobPage(w, r, j)
	}
	sendXML(w, h.jobDocument(r, j))
	return nil
}

// result serves a result as it is.
func (h *Handler) result(w http.ResponseWriter, r *request, j *job) error {
	if len(j.results()) == 0 {
		return notFound("result not found")
	}
	return serveResult(w, r, j, r.PathValue("name"))
}

func serveResult(w http.ResponseWriter, r *request, j *job, name string) error {
	res, in, err := j.q.Result(j.cut.ID, name)
	if errors.Is(err, queuejob.ErrBadName) {
		return notFound("result not found")
	}
	if err != nil {
		return err
	}
	defer in.Close()
	w.Header().Set("ETag", `"`+hex.EncodeToString(res.SHA256[:])+`"`)
	return serveFile(w, r.Request, typeOf(res), in)
}

// parameter serves the value of a parameter as it is.
func (h *Handler) parameter(w http.ResponseWriter, r *request, j *job) error {
	for _, p := range j.parameters() {
		switch {
		case p.name != r.PathValue("name"):
		case !p.ref:
			text(w, http.StatusOK, p.value)
			return nil
		default:
			return serveUpload(w, r, j, p.name)
		}
	}
	return notFound("parameter not found")
}

// serveUpload serves the payload of a job, or one file of it.
func serveUpload(w http.ResponseWriter, r *request, j *job, name string) error {
	in, err := j.q.Payload(j.cut.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, p := range partsOf(&j.cut) {
		if p.name == name {
			mediaType, content, err := p.cut(in)
			if err != nil {
				return err
			}
			return serveFile(w, r.Request, mediaType, content)
		}
	}
	return serveFile(w, r.Request, j.cut.Type(), in)
}

// serveFile sends a file from a stranger; no browser may run it.
func serveFile(w http.ResponseWriter, r *http.Request, mediaType string, in io.ReadSeeker) error {
	header := w.Header()
	if mediaType == "" || strings.ContainsAny(mediaType, "\r\n\x00") {
		mediaType = queuejob.DefaultMediaType
	}
	header.Set("Content-Type", mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return web.Serve(w, r, time.Time{}, in)
}

// A document is XML, written in pieces.
type document struct{ buf bytes.Buffer }

const (
	nsUWS   = "http://www.ivoa.net/xml/UWS/v1.0"
	nsXlink = "http://www.w3.org/1999/xlink"
	nsXSI   = "http://www.w3.org/2001/XMLSchema-instance"
)

// open begins the document element. Only jobs and job have a version, and it
// is one of 1.1.
func (d *document) open(name string, versioned bool) {
	d.buf.WriteString(xml.Header)
	d.tag("uws:"+name, "xmlns:uws", nsUWS, "xmlns:xlink", nsXlink, "xmlns:xsi", nsXSI)
	if versioned {
		d.buf.WriteString(` version="1.1"`)
	}
	d.buf.WriteString(">\n")
}

// tag begins a tag with attributes, each a name and a value.
func (d *document) tag(name string, attributes ...string) {
	d.buf.WriteString("<" + name)
	for i := 0; i < len(attributes); i += 2 {
		d.buf.WriteString(" " + attributes[i] + `="`)
		d.escape(attributes[i+1])
		d.buf.WriteByte('"')
	}
}

func (d *document) begin(name string, attributes ...string) {
	d.tag("uws:"+name, attributes...)
	d.buf.WriteByte('>')
}

func (d *document) end(name string) { d.buf.WriteString("</uws:" + name + ">\n") }

func (d *document) escape(s string) { xml.EscapeText(&d.buf, []byte(s)) }

func (d *document) element(name, value string, attributes ...string) {
	d.tag("uws:"+name, attributes...)
	if value == "" {
		d.buf.WriteString("/>\n")
		return
	}
	d.buf.WriteByte('>')
	d.escape(value)
	d.end(name)
}

// jobDocument writes a job in the order of the schema (UWS 1.1, appendix B).
func (h *Handler) jobDocument(r *request, j *job) *document {
	d := &document{}
	d.open("job", !j.set.old)
	for _, f := range h.facts(j) {
		switch word := f.word(); {
		case j.set.old && f.element == "creationTime": // since 1.1
		case word != "":
			d.element(f.element, word)
		case f.nillable:
			d.element(f.element, "", "xsi:nil", "true")
		}
	}
	for _, part := range []string{"parameters", "results"} {
		d.begin(part)
		d.members(part, r, j)
		d.end(part)
	}
	if summary, detail, transient := j.failure(); summary != "" {
		kind := "fatal"
		if transient {
			kind = "transient"
		}
		d.begin("errorSummary", "type", kind, "hasDetail", strconv.FormatBool(detail != summary || j.hasDetail()))
		d.element("message", summary)
		d.end("errorSummary")
	}
	info := []string{"queue", j.q.ID(), "job", j.cut.ID.String(), "attempts", strconv.Itoa(j.cut.Attempts)}
	switch p := j.phase(); {
	case p == completed:
		info = append(info, "reported", strconv.FormatBool(j.reported()))
	case p == held && j.cut.HeldFor != "":
		info = append(info, "heldFor", j.cut.HeldFor)
	}
	// Without a namespace, since validators warn of others. The name is not "job":
	// some clients take every element "job" for one of UWS.
	d.begin("jobInfo")
	d.tag("entry", info...)
	d.buf.WriteString("/>")
	d.end("jobInfo")
	d.end("job")
	return d
}

// members writes the parameters or the results of a job.
func (d *document) members(part string, r *request, j *job) {
	if part == "parameters" {
		for _, p := range j.parameters() {
			if p.ref {
				d.element("parameter", r.ref("async", j.id, part, p.name), "id", p.name, "byReference", "true")
			} else {
				d.element("parameter", p.value, "id", p.name)
			}
		}
		return
	}
	for _, res := range j.results() {
		about := []string{"id", res.Name, "xlink:type", "simple", "xlink:href", r.ref("async", j.id, part, res.Name)}
		if !j.set.old {
			about = append(about, "size", strconv.FormatInt(res.Size, 10), "mime-type", typeOf(res))
		}
		d.element("result", "", about...)
	}
}

func typeOf(r queuejob.Result) string {
	if r.MediaType == "" {
		return queuejob.DefaultMediaType
	}
	return r.MediaType
}

// stayWith returns the job once stay refuses its phase, at the end of the time,
// of the request, or of the Handler. The error is that of a caller who has lost the right
// meanwhile.
func (h *Handler) stayWith(r *request, j *job, most time.Duration, stay func(phase) bool) (now *job, err error) {
	if !stay(j.phase()) {
		return j, nil
	}
	defer func() {
		if gone := web.Still(r.Context()); gone != nil {
			now, err = nil, gone
		}
	}()
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	for {
		number := j.cut.ID
		_, changed := r.q.Status(number) // before reading the job, so no event is missed
		if j, err = r.find(j.id); err != nil || !stay(j.phase()) || ctx.Err() != nil {
			return j, err
		}
		if j.cut.ID != number { // another job of the queue took its place
			continue
		}
		err = r.q.WaitJob(ctx, number, changed)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, ledger.ErrNoJob):
		case errors.Is(err, ledger.ErrNoQueue):
			// A removal can still fail, and the queue stays.
			return j, h.gone(r.q)
		default:
			return nil, err
		}
	}
}

// gone returns [ledger.ErrNoQueue] for a removed queue. A queue made again under
// the name is another queue.
func (h *Handler) gone(q *queuefs.Queue) error {
	now, err := h.svc.Queue(q.ID())
	if err == nil && now != q {
		err = fmt.Errorf("%s: %w", q.ID(), ledger.ErrNoQueue)
	}
	return err
}

// mainResult is the name clients use without reading the list.
const mainResult = "result"

// sync makes and starts a job, and leads to the wait for its end (UWS 1.1, 5). A
// GET without parameters is from somebody who looks.
func (h *Handler) sync(w http.ResponseWriter, r *request) error {
	id, err := h.made(w, r, true)
	if err != nil {
		return err
	}
	return see(w, r.ref("sync", id))
}

// syncWait leads to the main result of an ended job, and to itself after the
// longest wait.
func (h *Handler) syncWait(w http.ResponseWriter, r *request, j *job) error {
	unended := func(p phase) bool { return p.active() || p == held }
	j, err := h.stayWith(r, j, maxWait, unended)
	if err != nil {
		return err
	}
	if unended(j.phase()) {
		return see(w, r.ref("sync", j.id))
	}
	if p := j.phase(); p != completed {
		if j.hasDetail() {
			return see(w, r.ref("async", j.id, "error"))
		}
		_, detail, _ := j.failure()
		return &web.Error{Status: http.StatusUnprocessableEntity, Message: string(p) + ": " + detail}
	}
	results := j.results()
	if len(results) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	main := max(0, slices.IndexFunc(results, func(res queuejob.Result) bool { return res.Name == mainResult }))
	return see(w, r.ref("async", j.id, "results", results[main].Name))
}

// vosiForms are the two descriptions of a queue as a service (IVOA Support
// Interfaces 1.1, 2 and 4). Requests without a name are an interface of their own,
// without a method.
var vosiForms = template.Must(template.New("").Parse(`
{{- define "availability"}}<vosi:availability xmlns:vosi="http://www.ivoa.net/xml/VOSIAvailability/v1.0">
<vosi:available>{{.Up}}</vosi:available>
{{with .Note}}<vosi:note>{{.}}</vosi:note>
{{end}}</vosi:availability>
{{end}}

{{- define "vosi"}}<capability standardID="ivo://ivoa.net/std/VOSI#{{.}}">
 <interface xsi:type="vs:ParamHTTP" role="std">{{end}}

{{- define "async"}}<interface xsi:type="vs:ParamHTTP" role="std"><accessURL use="base">{{html .}}async</accessURL>{{end}}

{{- define "capabilities"}}<vosi:capabilities xmlns:vosi="http://www.ivoa.net/xml/VOSICapabilities/v1.0"
 xmlns:vs="http://www.ivoa.net/xml/VODataService/v1.1" xmlns:xsi="` + nsXSI + `">
{{template "vosi" "capabilities"}}<accessURL use="full">{{html .At}}capabilities</accessURL></interface></capability>
{{template "vosi" "availability"}}<accessURL use="full">{{html .At}}availability</accessURL></interface></capability>
<capability standardID="ivo://ivoa.net/std/UWS{{if not .Old}}#rest-1.1{{end}}">
{{- if .Open}}{{template "async" .At}}</interface>{{end}}
{{- if .Users}}{{template "async" .At}}
 <securityMethod standardID="ivo://ivoa.net/sso#BasicAA"/>
 <securityMethod standardID="ivo://ivoa.net/sso#token"/></interface>{{end}}</capability>
</vosi:capabilities>
{{end}}`))

// vosi answers with the capabilities of a queue as a service, or whether it is
// available, to everybody.
func (h *Handler) vosi(w http.ResponseWriter, r *request) error {
	security := h.o.Security(r.id)
	about := struct {
		Up, Note, At     string
		Old, Open, Users bool
	}{"true", "", r.ref(""), r.set.old, security.Anonymous || !security.Users, security.Users}
	var info home.QueueInfo
	if r.q != nil {
		info = r.q.Info()
	}
	switch {
	case h.svc.Err() != nil:
		about.Up, about.Note = "false", "storage failed"
	case info.Closed:
		about.Up, about.Note = "false", "the queue takes no jobs at present"
	case !info.Paused.IsZero():
		about.Note = "jobs are taken, and none is started at present"
	}
	d := &document{}
	d.buf.WriteString(xml.Header)
	if err := vosiForms.ExecuteTemplate(&d.buf, r.PathValue("part"), about); err != nil {
		return err
	}
	sendXML(w, d)
	return nil
}

// unknown answers a request about a queue that does not exist. A stranger gets the
// description of an ordinary queue: only this is open to strangers, and a 404 would say
// which queues there are.
func (h *Handler) unknown(w http.ResponseWriter, raw *http.Request) error {
	id, err := queuejob.CleanQueueID(raw.PathValue("queue"))
	if err != nil {
		return notFound("queue not found")
	}
	r := &request{Request: raw, base: h.base(raw), id: id}
	if r.caller = h.o.Caller(raw, id); !r.caller.Stranger {
		return notFound("queue not found")
	}
	w.Header().Set("Cache-Control", "no-cache")
	return h.vosi(w, r)
}

// A filter selects jobs of a list (UWS 1.1, 2.2.2.1).
type filter struct {
	phases []phase
	after  time.Time
	last   int         // 0: all
	before queuejob.ID // only earlier ones of the queue; 0: all
}

// beforeField is the parameter for the rest of a long list. Its name is not of UWS.
const beforeField = "BEFORE"

func (r *request) filter() (f filter, err error) {
	for _, p := range r.query {
		if r.set.old && !strings.EqualFold(p.name, beforeField) {
			continue
		}
		if p.value == "" && r.page() {
			continue // an empty field of a page
		}
		switch strings.ToUpper(p.name) {
		case "PHASE":
			one, err := parsePhase(p.value)
			if err != nil {
				return f, bad("PHASE: %v", err)
			}
			f.phases = append(f.phases, one)
		case "AFTER":
			if f.after, err = parseTime(p.value); err != nil {
				return f, bad("AFTER: %v", err)
			}
		case "LAST":
			if f.last, err = strconv.Atoi(p.value); err != nil || f.last < 1 {
				return f, bad("LAST is %.40q, not a number above 0", p.value)
			}
		case beforeField:
			if f.before, err = queuejob.ParseID(p.value); err != nil {
				return f, bad("%s is %.40q, no job of the queue", beforeField, p.value)
			}
		}
	}
	return f, nil
}

// wants reports whether a job is in the list. Archived jobs are only in lists
// of archived ones.
func (f *filter) wants(j *job) bool {
	p := j.phase()
	if len(f.phases) == 0 && p == archived || len(f.phases) > 0 && !slices.Contains(f.phases, p) {
		return false
	}
	return f.after.IsZero() || j.created().After(f.after)
}

// within are the jobs of the index that can be in a phase. Jobs in other phases
// can be anywhere.
var within = map[phase][]index.Filter{
	pending:   {{Status: queuejob.Pending, Held: true}},
	held:      {{Status: queuejob.Pending, Held: true}},
	queued:    {{Status: queuejob.Pending}},
	completed: {{Status: queuejob.Consumed}},
	failed:    {{Status: queuejob.Consumed, Outcome: queuejob.Failed}},
	aborted:   {{Status: queuejob.Consumed, Outcome: queuejob.Aborted}, {Status: queuejob.Deleted}},
	suspended: nil,
}

// candidates are up to most of the possible jobs of a list, the last one first,
// by the index alone.
func (f *filter) candidates(q *queuefs.Queue, most int) (ids []queuejob.ID) {
	var sets []index.Filter
	if len(f.phases) == 0 {
		sets = []index.Filter{{}}
	}
	for _, p := range f.phases {
		if p == executing {
			ids = append(ids, q.Leased()...)
			continue
		}
		some, known := within[p]
		if !known {
			some = []index.Filter{{}}
		}
		sets = append(sets, some...)
	}
	for _, o := range sets {
		o.Limit = most
		some, _ := q.Latest(o, f.before, math.MaxInt)
		ids = append(ids, some...)
	}
	ids = slices.DeleteFunc(ids, func(id queuejob.ID) bool { return f.before != 0 && id >= f.before })
	slices.SortFunc(ids, func(a, b queuejob.ID) int { return cmp.Compare(b, a) })
	ids = slices.Compact(ids)
	return ids[:min(len(ids), most)]
}

// sees reports whether jobs of an owner are in the lists of the caller.
func (r *request) sees(owner string) bool {
	c := r.caller
	return c.Admin || owner != "" && owner == c.Name || owner == "" && c.Delete && !c.Own
}

// newest returns the jobs of a list for the caller: the last of the queue first, with LAST
// the newest. Creation is never later than submission, so the search for these ends at a
// job submitted before the creation of all found ones. After the most jobs that a request
// may read, next is the last of them; it is 0 if the list is whole.
func (h *Handler) newest(r *request, f filter) (list []*job, next queuejob.ID, err error) {
	ids := f.candidates(r.q, h.o.MaxListed+1)
	for i, id := range ids {
		if i == h.o.MaxListed {
			return list, ids[i-1], nil
		}
		if err := r.Context().Err(); err != nil {
			return nil, 0, err
		}
		cut, err := r.q.Job(id)
		if errors.Is(err, ledger.ErrNoJob) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if !f.after.IsZero() && !cut.Submitted.After(f.after) {
			break // older ones were created before, too
		}
		j := r.listed(&cut)
		if j == nil || !r.sees(cut.Owner) || !f.wants(j) {
			continue
		}
		if f.last == 0 {
			list = append(list, j)
			continue
		}
		if len(list) == f.last && stamp(cut.Submitted).Before(list[f.last-1].created()) {
			break
		}
		at, _ := slices.BinarySearchFunc(list, j, func(a, b *job) int { return b.created().Compare(a.created()) })
		list = slices.Insert(list, at, j)
		list = list[:min(len(list), f.last)]
	}
	return list, 0, nil
}

// listedBytes is about what a job in a list takes in memory.
const listedBytes = 2 << 10

// jobs serves the job list. With LAST it is sorted; else it is in the order of the
// queue, the last first. A list of a long queue ends after Options.MaxListed jobs that
// were read, with a link to the next part.
func (h *Handler) jobs(w http.ResponseWriter, r *request) error {
	f, err := r.filter()
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	page := r.page()
	if page && f.last == 0 {
		f.last = 100
	}
	list, next, err := h.newest(r, f)
	if err != nil {
		return err
	}
	if next != 0 {
		query := url.Values{}
		for _, p := range r.query {
			if !strings.EqualFold(p.name, beforeField) {
				query.Add(p.name, p.value)
			}
		}
		query.Set(beforeField, next.String())
		w.Header().Set("Link", wellknown.Link(r.ref("async")+"?"+query.Encode(), "next"))
	}
	if page {
		return h.listPage(w, r, f, list)
	}
	if err := buffers.Of(r.Context()).Take(len(list) * listedBytes); err != nil {
		return err
	}
	d := &document{}
	d.open("jobs", !r.set.old)
	for _, j := range list {
		d.begin("jobref", "id", j.id, "xlink:type", "simple", "xlink:href", r.ref("async", j.id))
		d.element("phase", string(j.phase()))
		if !r.set.old {
			if id := j.runID(); id != "" {
				d.element("runId", id)
			}
			if j.owner() == "" {
				d.element("ownerId", "", "xsi:nil", "true")
			} else {
				d.element("ownerId", j.owner())
			}
			d.element("creationTime", formatTime(j.created()))
		}
		d.end("jobref")
	}
	d.end("jobs")
	sendXML(w, d)
	return nil
}
