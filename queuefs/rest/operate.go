package rest

import (
	"errors"
	"iter"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// operate returns a method for one job that bulk has for many: Delete-job (Cutie 5.8), requeue
// (Cutie 3.3), hold and release.
func (h *Handler) operate(method string, status int) func(http.ResponseWriter, *request) error {
	return func(w http.ResponseWriter, r *request) error {
		return h.change(w, r, status, func(q *queuefs.Queue, id job.ID) (job.Job, error) {
			o := r.operation(method)
			if r.bad != nil {
				return job.Job{}, r.bad
			}
			return o.Do(r.Context(), q, id)
		})
	}
}

// operation reads the parameters of an operation; see wrong.
func (r *request) operation(method string) bulk.Operation {
	o := bulk.Operation{Method: method, Reason: r.text("reason"), Until: parsed(r, "until", field.ParseTime), End: r.flag("end"), Force: r.flag("force")}
	if o.End && o.Force {
		r.wrong(web.BadRequest("end and force exclude each other: a job in work is not put at the end"))
	}
	return o
}

// abort takes a job out of work.
func (h *Handler) abort(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id job.ID) (job.Job, error) {
		why := r.text("message")
		if r.bad != nil {
			return job.Job{}, r.bad
		}
		return q.Abort(r.Context(), id, why)
	})
}

// reads reports whether the caller may read the jobs of a queue.
func (h *Handler) reads(r *request, q *queuefs.Queue) bool {
	return h.o.Reads == nil || h.o.Reads(r.Request, q.ID())
}

// change changes the job in the path, and answers with its new state, as far as the caller
// may know it.
func (h *Handler) change(w http.ResponseWriter, r *request, status int, do func(*queuefs.Queue, job.ID) (job.Job, error)) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	if err := h.fields(w, r); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	j, err := do(q, id)
	if errors.Is(err, ledger.ErrNoJob) {
		return notFound(err, ledger.ErrNoJob, id.String())
	}
	if err != nil {
		return err
	}
	d := state.OutlineOfJob(h.base(r.Request), &j)
	if own := j.Owner != "" && j.Owner == UserOf(r.Context()); own || r.works || h.reads(r, q) {
		d = state.OfJob(h.base(r.Request), &j)
	}
	if j.ID != id { // it is another one
		status = http.StatusCreated
		w.Header()["Location"] = []string{d.Subject}
	}
	return h.answerChange(w, r, status, form, &d)
}

// bulk returns a method for many jobs. After some time it begins no further
// change, so that the client is still waiting for the answer. The Link of the
// relation next goes on by the same method. There is none if the body names
// jobs, since the rest of the request alone would select others, nor one longer
// than [field.MaxLength]; moreAfter is the place to go on then.
func (h *Handler) bulk(name string) func(http.ResponseWriter, *request) error {
	return func(w http.ResponseWriter, r *request) error {
		q, err := h.queue(r)
		if err != nil {
			return err
		}
		inQuery := len(r.query["job"])
		sel, err := h.selection(w, r)
		if err != nil {
			return err
		}
		form, err := r.form()
		if err != nil {
			return err
		}
		o := r.operation(name)
		if r.bad != nil {
			return r.bad
		}
		over := time.Now().Add(h.o.BulkTime)
		changes, err := sel.Apply(r.Context(), q, o, h.now(), func() bool { return !time.Now().Before(over) })
		if err != nil {
			return err
		}
		if changes.More && changes.After != 0 && len(sel.Jobs) == inQuery {
			link := "<" + goingOn(h.base(r.Request).Ref(name, q.ID()), r.query, changes.After.String()) + `>; rel="next"`
			if len(link) <= field.MaxLength {
				w.Header()["Link"] = []string{link}
			}
		}
		d := state.OutlineOfQueue(h.base(r.Request), q.ID(), &changes)
		if h.reads(r, q) {
			d = state.OfQueue(h.base(r.Request), &state.Queue{State: q.State(), Changes: changes})
		}
		w.Header()["Cache-Control"] = noStore
		if r.fromPage(form) && !sel.Dry {
			v := View{Now: time.Now(), May: web.MayOf(r.Context()), Changed: name}
			h.write(w, http.StatusOK, form, func(dst []byte) []byte { return h.o.Pages.State(dst, &d, v) })
			return nil
		}
		h.answer(w, http.StatusOK, form, &d)
		return nil
	}
}

// selection reads the selection of jobs: from the query, a form, or a body of
// plain text with the identifier of a job on each line.
func (h *Handler) selection(w http.ResponseWriter, r *request) (s bulk.Selection, err error) {
	contentType, err := r.contentType()
	if err != nil {
		return s, err
	}
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "text/plain" {
		if err = r.only(); err == nil {
			s.Jobs, err = h.idLines(w, r)
		}
	} else {
		err = h.choices(w, r)
	}
	if err != nil {
		return s, err
	}
	for _, text := range r.query["job"] {
		id, err := job.ParseID(text)
		if err != nil {
			return s, err
		}
		s.Jobs = append(s.Jobs, id)
	}
	s.Filter = r.selected(bulk.Max, 1, bulk.Max)
	s.Older = parsed(r, "older", parseAge)
	if s.Dry = r.flag("dry"); r.bad != nil {
		return s, r.bad
	}
	// A body without a line selects nothing, rather than all.
	if media == "text/plain" && len(s.Jobs) == 0 {
		return s, web.BadRequest("the body names no job")
	}
	return s, s.Check()
}

// parseAge reads hours, or a duration such as 90m or 7d.
func parseAge(s string) (time.Duration, error) {
	unit, number := time.Hour, s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		unit, number = 24*time.Hour, days
	}
	d, err := time.ParseDuration(s)
	if n, e := strconv.ParseUint(number, 10, 32); e == nil {
		d, err = time.Duration(n)*unit, nil
		if d/unit != time.Duration(n) {
			err = strconv.ErrRange
		}
	}
	if err != nil || d <= 0 {
		return 0, web.BadRequest("parameter older is %.20q, neither hours nor a duration such as 90m or 7d", s)
	}
	return d, nil
}

// maxIDs bounds a body of identifiers, with room for other line ends.
const maxIDs = bulk.Max * 16

func (h *Handler) idLines(w http.ResponseWriter, r *request) (ids []job.ID, err error) {
	data, err := h.read(w, r, maxIDs)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		id, err := job.ParseID(line)
		if err != nil {
			return nil, web.BadRequest("line %d: %v", n, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Relation is the beginning of the link relations in an answer with a lease:
// lease, outcome and result. A slash and a name are added to the last.
const Relation = "http://uc3.cdlib.org/ontology/mrt/cutie/rel/"

// maxLease is the longest lease for a request.
const maxLease = 24 * time.Hour

// leaseOf returns the headers of a job with a lease.
func leaseOf(base state.Base, t *queuefs.Taken) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		link := func(rel string) bool {
			return yield("Link", jobLink(base, rel, &t.Job, Relation+rel))
		}
		_ = yield(field.Lease, t.Token) &&
			yield(field.LeaseExpires, job.FormatTime(t.Lease.Ends)) &&
			yield(field.Attempt, strconv.Itoa(t.Attempts)) &&
			link("lease") && link("outcome") && link("result")
	}
}

// jobLink returns a Link to a reference of a job, see [state.Base.AppendJob].
func jobLink(base state.Base, kind string, j *job.Job, rel string) string {
	b := base.AppendJob(append(make([]byte, 0, 160), '<'), kind, j.Queue, j.ID)
	return string(append(append(append(b, `>; rel="`...), rel...), '"'))
}

// leaseTime returns the length of a lease, 0 if it is not given; see wrong.
func (r *request) leaseTime(name string) time.Duration {
	s, ok, err := r.param(name)
	r.wrong(err)
	if !ok {
		return 0
	}
	d, ok := parseSeconds(s, maxLease)
	if !ok || d == 0 {
		r.wrong(web.BadRequest("parameter %s is %.20q, not seconds above 0, %g at most", name, s, maxLease.Seconds()))
	}
	return d
}

// token returns the consumer's proof of its lease; see wrong.
func (r *request) token() string {
	token, ok, err := r.param("lease")
	r.wrong(err)
	header, err := field.Single(r.Header, field.Lease)
	r.wrong(err)
	if !ok {
		token = header
	} else if header != "" && header != token {
		r.wrong(web.BadRequest("header %s and parameter lease differ", field.Lease))
	}
	r.works = true
	if token == "" {
		r.wrong(web.BadRequest("no lease is shown: its token comes in the header %s or as the parameter lease", field.Lease))
	}
	return token
}

// extend is the heartbeat of a consumer with a lease.
func (h *Handler) extend(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id job.ID) (job.Job, error) {
		token, d := r.token(), r.leaseTime("seconds")
		if r.bad != nil {
			return job.Job{}, r.bad
		}
		j, err := q.Extend(r.Context(), id, token, d)
		if err == nil {
			w.Header()[field.LeaseExpires] = []string{job.FormatTime(j.Lease.Ends)}
			w.Header()[field.Attempt] = []string{strconv.Itoa(j.Attempts)}
			r.lease = token
		}
		return j, err
	})
}

// outcome is the report of a consumer; it ends the lease.
func (h *Handler) outcome(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id job.ID) (job.Job, error) {
		token, message, kind, what := r.token(), r.text("message"), r.text("type"), strings.ToLower(r.text("outcome"))
		typed := r.query.Has("type")
		c := job.Conclusion{Message: message}
		if r.query.Has("retryIn") {
			d := r.seconds("retryIn", home.MaxLease)
			c.RetryIn = &d
		}
		switch {
		case r.bad != nil:
			return job.Job{}, r.bad
		case typed && what != "error":
			return job.Job{}, web.BadRequest("type is of the outcome error only")
		case typed && kind != "transient" && kind != "fatal":
			return job.Job{}, web.BadRequest("type is %.20q, neither transient nor fatal", kind)
		case c.RetryIn != nil && kind != "transient":
			return job.Job{}, web.BadRequest("retryIn is of the type transient only")
		}
		switch what {
		case "completed":
			c.Outcome = job.Completed
		case "error":
			c.Outcome, c.Transient = job.Failed, kind == "transient"
		case "released":
			return q.Return(r.Context(), id, token, message)
		default:
			return job.Job{}, web.BadRequest("outcome is %.20q, none of completed, error, released", what)
		}
		j, err := q.Conclude(r.Context(), id, token, c)
		if err == nil && j.Outcome != 0 && h.o.Concluded != nil {
			h.o.Concluded(&j)
		}
		return j, err
	})
}

// putResult stores a result from the consumer of a job.
func (h *Handler) putResult(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	if err := r.only(); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	token := r.token()
	if r.bad != nil {
		return r.bad
	}
	if err := field.Identity(r.Header); err != nil {
		return err
	}
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	typ, err := field.MediaType(contentType)
	if err != nil {
		return err
	}
	expect, err := r.digests()
	if err != nil {
		return err
	}
	b, err := web.NewBodyReader(w, r.Request, h.o.MaxBody, h.o.BodyIdle)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	draft, err := q.NewResult(r.Context(), id, token, name, typ, expect)
	if errors.Is(err, ledger.ErrNoJob) {
		return notFound(err, ledger.ErrNoJob, id.String())
	}
	if err != nil {
		return err
	}
	defer draft.Discard()
	if err := copyPayload(draft, b); err != nil {
		return err
	}
	if err := web.Still(r.Context()); err != nil {
		return err
	}
	if _, err := draft.Commit(r.Context()); err != nil {
		return err
	}
	j, err := q.Job(id)
	if err != nil {
		return err
	}
	d := state.OfJob(h.base(r.Request), &j)
	w.Header()["Location"] = []string{h.base(r.Request).Ref("result", j.Queue, id.String(), name)}
	h.answer(w, http.StatusCreated, form, &d)
	return nil
}

// digests returns the digests of the body in headers and parameters.
func (r *request) digests() ([]digest.Value, error) {
	expect, err := field.Digests(textproto.MIMEHeader(r.Header))
	if err != nil {
		return nil, err
	}
	f, err := r.fieldsOfQuery()
	if err != nil {
		return nil, err
	}
	m := job.Meta{Expect: expect}
	err = f.apply(&m, 0)
	return m.Expect, err
}
