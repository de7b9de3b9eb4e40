package uws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/octets"
)

// An httpError is a request that was not served, in words for the caller.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func bad(format string, a ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Sprintf(format, a...)}
}

func forbidden(format string, a ...any) error {
	return &httpError{http.StatusForbidden, fmt.Sprintf(format, a...)}
}

func notFound(text string) error { return &httpError{http.StatusNotFound, text} }

// statusOf returns the status of an error of the queue, and whether the caller
// may see its text.
func statusOf(err error) (status int, shown bool) {
	for _, s := range []struct {
		err    error
		status int
		shown  bool
	}{
		{queuefs.ErrRefusing, http.StatusForbidden, true},
		{queuefs.ErrConflict, http.StatusForbidden, true},
		{queuefs.ErrNotPending, http.StatusForbidden, true},
		{octets.ErrPrecondition, http.StatusPreconditionFailed, true},
		{queuefs.ErrTooBig, http.StatusRequestEntityTooLarge, true},
		{queuefs.ErrSidecar, http.StatusForbidden, true},
		{queuefs.ErrBadName, http.StatusForbidden, true},
		{queuefs.ErrNoJob, http.StatusNotFound, true},
		{queuefs.ErrNoResult, http.StatusNotFound, true},
		{queuefs.ErrNoQueue, http.StatusNotFound, true},
		{queuefs.ErrNoSpace, http.StatusInsufficientStorage, false},
		{queuefs.ErrFailed, http.StatusServiceUnavailable, false},
		{queuefs.ErrClosed, http.StatusServiceUnavailable, false},
		{syscall.ENOSPC, http.StatusInsufficientStorage, false},
		{syscall.EDQUOT, http.StatusInsufficientStorage, false},
		{context.Canceled, http.StatusServiceUnavailable, false},
	} {
		if errors.Is(err, s.err) {
			return s.status, s.shown
		}
	}
	return http.StatusInternalServerError, false
}

// fail answers with an error, in plain text: clients show it to people.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *httpError
	if !errors.As(err, &e) {
		status, shown := statusOf(err)
		e = &httpError{status, strings.ToLower(http.StatusText(status))}
		if shown {
			e.text = err.Error()
		} else if h.o.Log != nil && r.Context().Err() == nil {
			h.o.Log(r, err)
		}
	}
	if r.ContentLength != 0 {
		// The server reads what is left of the body, and is not to wait for it
		// for ever. Without deadlines there is nothing to be done.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.BodyIdle))
	}
	header := w.Header()
	header.Del("Location")
	header.Set("Cache-Control", "no-store")
	if browses(r) && h.failPage(w, e) == nil {
		return
	}
	text(w, e.status, e.text+"\n")
}

func text(w http.ResponseWriter, status int, s string) {
	send(w, status, "text/plain; charset=utf-8", []byte(s))
}

func send(w http.ResponseWriter, status int, mediaType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // nobody is left to be told of an error
}

const mediaXML = "application/xml"

func sendXML(w http.ResponseWriter, d *document) { send(w, http.StatusOK, mediaXML, d.buf.Bytes()) }

// see sends the client to where it finds what came of its request.
func see(w http.ResponseWriter, where string) error {
	w.Header().Set("Location", where)
	text(w, http.StatusSeeOther, where+"\n")
	return nil
}

// A document is XML in the making.
type document struct{ buf bytes.Buffer }

const (
	nsUWS   = "http://www.ivoa.net/xml/UWS/v1.0"
	nsXlink = "http://www.w3.org/1999/xlink"
	nsXSI   = "http://www.w3.org/2001/XMLSchema-instance"
	nsCutie = "http://uc3.cdlib.org/ontology/mrt/cutie/uws"
)
