package rest

import (
	"errors"
	"iter"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Relation is the beginning of the link relations in an answer with a lease:
// lease, outcome and result. A slash and a name are added to the last.
const Relation = "http://uc3.cdlib.org/ontology/mrt/cutie/rel/"

// maxLease is the longest lease for a request.
const maxLease = 24 * time.Hour

// leaseOf returns the headers of a job with a lease.
func leaseOf(base state.Base, t *queuefs.Taken) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		link := func(rel string) bool {
			return yield("Link", "<"+base.JobRef(rel, t.Queue, t.ID)+`>; rel="`+Relation+rel+`"`)
		}
		_ = yield(field.Lease, t.Token) &&
			yield(field.LeaseExpires, queuefs.FormatTime(t.Lease.Ends)) &&
			yield(field.Attempt, strconv.Itoa(t.Attempts)) &&
			link("lease") && link("outcome") && link("result")
	}
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
		r.wrong(badRequest("parameter %s is %.20q, not seconds above 0, %g at most", name, s, maxLease.Seconds()))
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
		r.wrong(badRequest("header %s and parameter lease differ", field.Lease))
	}
	r.works = true
	if token == "" {
		r.wrong(badRequest("no lease is shown: its token comes in the header %s or as the parameter lease", field.Lease))
	}
	return token
}

// extend is the heartbeat of a consumer with a lease.
func (h *Handler) extend(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		token, d := r.token(), r.leaseTime("seconds")
		if r.bad != nil {
			return queuefs.Job{}, r.bad
		}
		j, err := q.Extend(r.Context(), id, token, d)
		if err == nil {
			w.Header()[field.LeaseExpires] = []string{queuefs.FormatTime(j.Lease.Ends)}
			w.Header()[field.Attempt] = []string{strconv.Itoa(j.Attempts)}
			r.lease = token
		}
		return j, err
	}, "lease", "seconds")
}

// outcome is the report of a consumer; it ends the lease.
func (h *Handler) outcome(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		token, message, kind, what := r.token(), r.text("message"), r.text("type"), strings.ToLower(r.text("outcome"))
		typed := r.query.Has("type")
		c := queuefs.Conclusion{Message: message}
		if r.query.Has("retryIn") {
			d := r.seconds("retryIn", queuefs.MaxLease)
			c.RetryIn = &d
		}
		switch {
		case r.bad != nil:
			return queuefs.Job{}, r.bad
		case typed && what != "error":
			return queuefs.Job{}, badRequest("type is of the outcome error only")
		case typed && kind != "transient" && kind != "fatal":
			return queuefs.Job{}, badRequest("type is %.20q, neither transient nor fatal", kind)
		case c.RetryIn != nil && kind != "transient":
			return queuefs.Job{}, badRequest("retryIn is of the type transient only")
		}
		switch what {
		case "completed":
			c.Outcome = queuefs.Completed
		case "error":
			c.Outcome, c.Transient = queuefs.Failed, kind == "transient"
		case "released":
			return q.Return(r.Context(), id, token, message)
		default:
			return queuefs.Job{}, badRequest("outcome is %.20q, none of completed, error, released", what)
		}
		j, err := q.Conclude(r.Context(), id, token, c)
		if err == nil && j.Outcome != 0 && h.o.Concluded != nil {
			h.o.Concluded(&j)
		}
		return j, err
	}, "lease", "outcome", "message", "type", "retryIn")
}

// putResult stores a result from the consumer of a job.
func (h *Handler) putResult(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	if err := r.only("lease", "digest-type", "digestType", "digest-value", "digestValue"); err != nil {
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
	if errors.Is(err, queuefs.ErrNoJob) {
		return notFound(err, queuefs.ErrNoJob, id.String())
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
	m := queuefs.Meta{Expect: expect}
	err = f.apply(&m, 0)
	return m.Expect, err
}
