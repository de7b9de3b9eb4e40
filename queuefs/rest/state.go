package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// serviceState is Get-service-state (Cutie 5.2).
func (h *Handler) serviceState(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	queues, next, err := queuePage(h.svc, r.query)
	if err != nil {
		return err
	}
	if next != "" {
		w.Header()["Link"] = []string{"<" + goingOn(h.base(r.Request).Ref("state"), r.query, next) + `>; rel="next"`}
	}
	d := h.serviceOf(r, state.Changes{}, queues)
	tag := newTagHash()
	tag.add(form.String())
	for _, p := range d.Properties {
		tag.add(p.Name, p.Text)
		tag.add(p.Items...)
	}
	return h.answerTagged(w, r, form, tag.tag(0), func() (state.Document, string, error) { return d, tag.tag(0), nil })
}

// service returns the state of the service.
func (h *Handler) service(r *request, c state.Changes) state.Document {
	queues := h.svc.Queues()
	return h.serviceOf(r, c, queues[:min(len(queues), state.MaxQueues)])
}

func (h *Handler) serviceOf(r *request, c state.Changes, queues []*queuefs.Queue) state.Document {
	s := state.Service{ServiceInfo: h.svc.Info(), Base: h.base(r.Request), Changes: c, Node: state.NodeOf(h.svc)}
	for _, q := range queues {
		s.Queues = append(s.Queues, q.ID())
		if q.Shut() != nil {
			s.Shut = append(s.Shut, q.ID())
		}
		if t := q.Info().Created; t.After(s.Modified) {
			s.Modified = t
		}
	}
	for _, lost := range h.svc.Lost() {
		s.Lost = append(s.Lost, lost.Queue)
	}
	return state.OfService(&s)
}

// queueState is Get-queue-state (Cutie 5.3).
func (h *Handler) queueState(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	// A misspelt selection would be answered with all jobs.
	if err := r.only(); err != nil {
		return err
	}
	switch detail := r.flag("detail"); {
	case r.bad != nil:
		return r.bad
	case detail:
		return h.jobStates(w, r, q, form)
	case r.query.Has("submitter"):
		return web.BadRequest("parameter submitter is for the states of jobs; ask for them with detail")
	}
	all := r.query.Get("limit") == "all" && len(r.query["limit"]) == 1
	if all {
		r.query.Del("limit")
	}
	jobs := r.page()
	switch {
	case r.bad != nil:
		return r.bad
	case all:
		return h.wholeState(w, r, q, form, jobs)
	}
	base := h.base(r.Request)
	view := newTagHash()
	view.add(form.String(), jobs.Status.String(), jobs.After.String(), strconv.Itoa(jobs.Limit),
		jobs.Outcome.String(), strconv.FormatBool(jobs.Held), jobs.Batch)
	tagOf := func(s *ledger.State) string { return h.versionOf(r, s).tag(view) }
	s := q.State()
	return h.answerTagged(w, r, form, tagOf(&s), func() (d state.Document, tag string, err error) {
		// Counts and list are of one instant if no event came while the list
		// was made.
		for range steadyTries {
			if err = listJobs(q, &jobs); err != nil {
				return d, "", err
			}
			if q.Seq() == s.Seq {
				tag = tagOf(&s)
				break
			}
			s = q.State()
		}
		return state.OfQueue(base, &state.Queue{State: s, Jobs: jobs}), tag, nil
	})
}

// page returns the selection of jobs for the state of a queue; see wrong.
func (r *request) page() state.Jobs {
	p := r.selected(state.DefaultJobs, 0, state.MaxJobs)
	return state.Jobs{Status: p.Status, Outcome: p.Outcome, Held: p.Held, Batch: p.Batch, After: p.After, Limit: p.Limit}
}

// selected reads the parameters of a [bulk.Filter]; see wrong.
func (r *request) selected(absent, least, most int) bulk.Filter {
	return bulk.Filter{
		Status:    parsed(r, "status", job.ParseStatus),
		Outcome:   parsed(r, "outcome", job.ParseOutcome),
		Held:      r.flag("held"),
		Batch:     r.text("batch"),
		Submitter: r.text("submitter"),
		After:     parsed(r, "after", job.ParseID),
		Limit:     r.number("limit", absent, least, most),
	}
}

// listJobs fills in the page. One job more is asked for, to see whether there
// is one.
func listJobs(q *queuefs.Queue, jobs *state.Jobs) error {
	o := index.Filter{Status: jobs.Status, Outcome: jobs.Outcome, Held: jobs.Held, After: jobs.After, Limit: jobs.Limit + 1}
	last := ^job.ID(0)
	if jobs.Batch != "" {
		first, end, err := bulk.BatchRange(q, jobs.Batch)
		if err != nil {
			return err
		}
		o.After, last = max(o.After, first-1), end
	}
	ids := q.IDs(o)
	for len(ids) > 0 && ids[len(ids)-1] > last {
		ids = ids[:len(ids)-1]
	}
	jobs.More = len(ids) > jobs.Limit
	jobs.IDs = ids[:min(len(ids), jobs.Limit)]
	return nil
}

// jobState is Get-job-state (Cutie 5.4).
func (h *Handler) jobState(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	status, changed := q.Status(id)
	if status == 0 {
		return notFound(ledger.ErrNoJob, ledger.ErrNoJob, id.String())
	}
	base := h.base(r.Request)
	w.Header()["Link"] = append(JobLinks(base, q.ID(), id), "<"+base.JobRef("state", q.ID(), id)+`>; rel="canonical"`)
	hash := newTagHash()
	hash.add(form.String(), string(base), id.String())
	// Times of events are unique within a queue.
	tagOf := func(changed time.Time) string { return hash.tag(uint64(changed.UnixMicro())) }
	return h.answerTagged(w, r, form, tagOf(changed), func() (d state.Document, tag string, err error) {
		var j job.Job
		for range steadyTries {
			before := changed
			if j, err = q.Job(id); err != nil {
				return d, "", notFound(err, ledger.ErrNoJob, id.String())
			}
			if _, changed = q.Status(id); changed.Equal(before) {
				tag = tagOf(changed)
				break
			}
		}
		return state.OfJob(base, &j), tag, nil
	})
}

// queuePage returns the queues after the one that the query names, up to its limit, in
// the order of queues.txt. next is the last of them, "" if there are no others after it.
func queuePage(svc *queuefs.Service, query url.Values) (queues []*queuefs.Queue, next string, err error) {
	queues = svc.Queues()
	if after := query.Get("after"); after != "" {
		q, err := svc.Queue(after)
		if err != nil {
			return nil, "", err
		}
		at := slices.Index(queues, q)
		if at < 0 { // it has come or gone since
			return nil, "", fmt.Errorf("%.60s: %w", after, ledger.ErrNoQueue)
		}
		queues = queues[at+1:]
	}
	limit := state.MaxQueues
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > state.MaxQueues {
			return nil, "", fmt.Errorf("%w: limit %.40q is not a whole number from 1 to %d", job.ErrBadName, text, state.MaxQueues)
		}
		limit = n
	}
	if len(queues) > limit {
		queues = queues[:limit]
		next = queues[limit-1].ID()
	}
	return queues, next, nil
}

// wholeState is Get-queue-state with limit=all: references to all jobs, sent as they
// are listed. Jobs that come or go meanwhile may be in it or not.
func (h *Handler) wholeState(w http.ResponseWriter, r *request, q *queuefs.Queue, form state.Form, jobs state.Jobs) error {
	if form == state.SOIF {
		return web.BadRequest("limit=all is for the forms anvl, json, turtle, xhtml and xml")
	}
	jobs.Limit = 10 * state.MaxJobs
	if err := listJobs(q, &jobs); err != nil {
		return err
	}
	whole := jobs
	whole.Limit, whole.More = -1, false
	l := form.ListingOf(h.base(r.Request), &state.Queue{State: q.State(), Jobs: whole})
	h.stream(w.Header(), form)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	buf := l.Head
	if len(jobs.IDs) == 0 {
		buf = l.None
	}
	first := jobs
	for _, pass := range l.Passes {
		jobs = first
		for len(jobs.IDs) > 0 {
			ids, more := jobs.IDs, jobs.More
			jobs.After, jobs.IDs = ids[len(ids)-1], nil
			if more {
				if err := listJobs(q, &jobs); err != nil { // a broken-off answer must not pass for a whole one
					h.log(r.Request, err)
					panic(http.ErrAbortHandler)
				}
			}
			for i, id := range ids {
				buf = pass.Append(buf, id, len(jobs.IDs) == 0 && i == len(ids)-1)
			}
			if _, err := w.Write(buf); err != nil {
				return nil // nobody is left to be told
			}
			buf = nil
		}
	}
	_, _ = w.Write(buf)
	return nil
}

// stream fills in the header of an answer that is sent as it is made.
func (h *Handler) stream(header http.Header, form state.Form) {
	header["Content-Type"] = []string{form.MediaType()}
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	if isPage(form) {
		header["Content-Security-Policy"] = []string{h.o.Pages.Policy()}
	}
}

// jobStates is Get-queue-state with detail: the states of a page of jobs
// instead of references to them, in the order of the queue. They are sent as
// they are read, so a long page takes no more memory than a short one. A job whose file
// cannot be read is listed with the facts in the index and a note. If there
// are more jobs, a Link of the relation next leads to them.
//
// A submitter is in the job file alone. With ?submitter= the limit is how many
// jobs are looked at, and the page has the matching ones, perhaps none.
func (h *Handler) jobStates(w http.ResponseWriter, r *request, q *queuefs.Queue, form state.Form) error {
	page := r.page()
	submitter := r.text("submitter")
	if r.bad != nil {
		return r.bad
	}
	if err := listJobs(q, &page); err != nil {
		return err
	}
	base := h.base(r.Request)
	ref := base.Ref("state", q.ID())
	s := sequence{out: w, form: form, pages: h.o.Pages, base: base, queue: q.ID(), now: h.now()}
	header := w.Header()
	if page.More && len(page.IDs) > 0 {
		s.next = goingOn(ref, r.query, page.IDs[len(page.IDs)-1].String())
		header["Link"] = []string{"<" + s.next + `>; rel="next"`}
	}
	h.stream(header, form)
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	s.begin()
	var err error
	for _, id := range page.IDs {
		if err = r.Context().Err(); err != nil {
			break
		}
		j, e := q.Listed(id)
		switch {
		case errors.Is(e, ledger.ErrNoJob): // culled meanwhile
			continue
		case e != nil:
			err = e
		case still(&j, &page) && (submitter == "" || j.Submitter == submitter || j.Unread()):
			d := state.OfJob(base, &j)
			err = s.add(&d)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.end()
	}
	if err == nil || !s.sent {
		return err
	}
	// A broken-off answer must not pass for a whole one.
	h.log(r.Request, err)
	panic(http.ErrAbortHandler)
}

// still reports whether a job is still one of the listed kind.
func still(j *job.Job, page *state.Jobs) bool {
	return (page.Status == 0 || j.Status == page.Status) && (page.Outcome == 0 || j.Outcome == page.Outcome) &&
		(!page.Held || !j.Held.IsZero())
}

// goingOn returns the reference of the same request for the jobs, or the queues, behind one.
func goingOn(ref string, query url.Values, behind string) string {
	next := maps.Clone(query)
	if next == nil {
		next = url.Values{}
	}
	next.Set("after", behind)
	return ref + "?" + next.Encode()
}

// A sequence writes the states of jobs as one document of a form:
//
//	ANVL    records, separated by empty lines
//	JSON    an array with a state on each line
//	XML     the element job:jobStates around the states
//	Turtle  one graph, with a subject for each state
//	XHTML   a table for people, with a row for each job
//
// In any other form the states follow each other directly.
type sequence struct {
	out  io.Writer
	form state.Form

	pages Pages // for people
	base  state.Base
	queue string
	next  string // reference of the next page, "" at the end
	now   time.Time

	n    int
	buf  []byte
	head []byte // of every state in Turtle
	sent bool   // something has been written
}

// sequenceBuffer is how many octets of states are gathered before they are
// written.
const sequenceBuffer = 32 << 10

func (s *sequence) begin() {
	switch s.form {
	case state.JSON:
		s.buf = append(s.buf, '[')
	case state.XML:
		c := state.JobClass
		s.buf = append(s.buf, xmlDeclaration+"<"+c.Prefix+":"+c.List+" xmlns:"+c.Prefix+`="`+c.Namespace+"\">\n"...)
	case state.XHTML, state.HTML:
		s.buf = s.pages.JobsTop(s.buf, s.base, s.queue)
	}
}

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// add writes a state of the class of jobs.
func (s *sequence) add(d *state.Document) error {
	from := len(s.buf)
	switch s.form {
	case state.ANVL:
		if s.n > 0 {
			s.buf = append(s.buf, '\n')
		}
		s.buf = s.form.Append(s.buf, d)
	case state.JSON:
		if s.n > 0 {
			s.buf = append(s.buf, ',')
		}
		s.buf = s.form.Append(append(s.buf, '\n'), d)
		s.buf = bytes.TrimSuffix(s.buf, []byte("\n"))
	case state.XML:
		s.buf = s.form.Append(s.buf, d)
		s.buf = without(s.buf, from, []byte(xmlDeclaration))
	case state.Turtle:
		s.buf = s.form.Append(s.buf, d)
		if s.n == 0 {
			// Their common beginning is written once.
			if i := bytes.Index(s.buf, []byte("\n\n")); i >= 0 {
				s.head = bytes.Clone(s.buf[:i+1])
			}
		} else {
			s.buf = without(s.buf, from, s.head)
		}
	case state.XHTML, state.HTML:
		s.buf = s.pages.Job(s.buf, d, s.now)
	default:
		s.buf = s.form.Append(s.buf, d)
	}
	s.n++
	if len(s.buf) < sequenceBuffer {
		return nil
	}
	return s.flush()
}

func (s *sequence) end() error {
	switch s.form {
	case state.JSON:
		s.buf = append(s.buf, "\n]\n"...)
	case state.XML:
		s.buf = append(s.buf, "</"+state.JobClass.Prefix+":"+state.JobClass.List+">\n"...)
	case state.XHTML, state.HTML:
		s.buf = s.pages.JobsEnd(s.buf, s.next)
	}
	return s.flush()
}

func (s *sequence) flush() error {
	s.sent = true
	_, err := s.out.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// without removes text from the beginning of buf[from:], if it is there.
func without(buf []byte, from int, text []byte) []byte {
	if rest, ok := bytes.CutPrefix(buf[from:], text); ok {
		return append(buf[:from], rest...)
	}
	return buf
}
