package rest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

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
		s.next = goingOn(ref, r.query, page.IDs[len(page.IDs)-1])
		header["Link"] = []string{"<" + s.next + `>; rel="next"`}
	}
	header["Content-Type"] = []string{form.MediaType()}
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	if form == state.XHTML || form == state.HTML {
		header["Content-Security-Policy"] = []string{h.o.Pages.Policy()}
	}
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
		case errors.Is(e, queuefs.ErrNoJob): // culled meanwhile
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
func still(j *queuefs.Job, page *state.Jobs) bool {
	return (page.Status == 0 || j.Status == page.Status) && (page.Outcome == 0 || j.Outcome == page.Outcome) &&
		(!page.Held || !j.Held.IsZero())
}

// goingOn returns the reference of the same request for the jobs behind one.
func goingOn(ref string, query url.Values, behind queuefs.JobID) string {
	next := url.Values{}
	for name, values := range query {
		next[name] = values
	}
	next.Set("after", behind.String())
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
