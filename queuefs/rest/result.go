package rest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/octets"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

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
	token, err := r.token()
	if err != nil {
		return err
	}
	if err := identityCoding(r.Header); err != nil {
		return err
	}
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	typ, err := mediaType(contentType)
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
	if _, err := draft.Commit(r.Context()); err != nil {
		return err
	}
	j, err := q.Job(id)
	if err != nil {
		return err
	}
	d := state.OfJob(h.base(), &j)
	w.Header()["Location"] = []string{h.base().Ref("result", j.Queue, id.String(), name)}
	h.answer(w, http.StatusCreated, form, &d)
	return nil
}

// digests returns the digests of the body in headers and parameters.
func (r *request) digests() ([]digest.Value, error) {
	expect, err := headerDigests(textproto.MIMEHeader(r.Header))
	if err != nil {
		return nil, err
	}
	var f fields
	for name := range r.query {
		if n := fieldName(name); n != "digest-type" && n != "digest-value" {
			continue
		}
		value, _, err := r.param(name)
		if err == nil {
			err = f.set(name, value)
		}
		if err != nil {
			return nil, err
		}
	}
	m := queuefs.Meta{Expect: expect}
	err = f.apply(&m, 0)
	return m.Expect, err
}

// identityCoding refuses a body with a content coding: the plain content is
// stored.
func identityCoding(header http.Header) error {
	codings := header["Content-Encoding"]
	for _, c := range codings {
		if c != "" && !strings.EqualFold(c, "identity") {
			return &web.Error{Status: http.StatusUnsupportedMediaType, Message: "content coding " + strings.Join(codings, ", ") + " is not supported"}
		}
	}
	return nil
}

// result serves a result as a plain resource: its exact octets.
func (h *Handler) result(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	result, in, err := q.Result(id, name)
	switch {
	case errors.Is(err, queuefs.ErrNoJob):
		return notFound(err, queuefs.ErrNoJob, id.String())
	case err != nil:
		return notFound(err, queuefs.ErrNoResult, name)
	}
	defer in.Close()
	header := w.Header()
	header["Etag"] = []string{fileTag(result.SHA256)}
	header["Repr-Digest"] = []string{"sha-256=:" + base64.StdEncoding.EncodeToString(result.SHA256[:]) + ":"}
	header["Link"] = []string{"<" + h.base().JobRef("state", q.ID(), id) + `>; rel="describedby"`}
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = sandbox
	header["Content-Type"] = []string{queuefs.DefaultMediaType}
	if result.MediaType != "" {
		header["Content-Type"] = []string{sentType(result.MediaType)}
	}
	header["Cache-Control"] = noCache // another attempt at the job may give another one
	delete(header, "Vary")
	served := &resultReader{Payload: in}
	err = octets.Serve(w, r.Request, time.Time{}, served)
	if served.err != nil {
		h.log(r, fmt.Errorf("result %s of %v: %w", name, id, served.err))
	}
	return err
}

// A resultReader remembers an error hidden by package http.
type resultReader struct {
	*queuefs.Payload
	err error
}

func (r *resultReader) Read(p []byte) (int, error) {
	n, err := r.Payload.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
