package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/octets"
	"cutie/queuefs/state"
)

// An Error is a request that was not served: what a Handler answers, and what a
// [Client] returns for it. [errors.Is] finds the error of package queuefs that
// it stands for, such as [queuefs.ErrNoQueue].
type Error struct {
	Status  int    // of HTTP, 400 and above
	Message string // for the caller; "" if there is nothing to say but the status
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%d %s", e.Status, strings.ToLower(http.StatusText(e.Status)))
	}
	return e.Message
}

// Is reports whether the error stands for target.
func (e *Error) Is(target error) bool {
	for _, s := range sentinels {
		if s.err == target && e.Status == s.status {
			return strings.Contains(e.Message, target.Error())
		}
	}
	return false
}

// sentinels are the errors that have a status of their own. The text of those
// from 500 on is all that the caller is told.
var sentinels = []struct {
	err    error
	status int
}{
	{queuefs.ErrNoQueue, http.StatusNotFound},
	{queuefs.ErrNoJob, http.StatusNotFound},
	{queuefs.ErrNoResult, http.StatusNotFound},
	{queuefs.ErrNotPending, http.StatusConflict},
	{queuefs.ErrConflict, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusPreconditionFailed},
	{queuefs.ErrNotEmpty, http.StatusConflict},
	{queuefs.ErrRefusing, http.StatusConflict},
	{queuefs.ErrResultExists, http.StatusConflict},
	{queuefs.ErrLease, http.StatusGone},
	{queuefs.ErrBadName, http.StatusBadRequest},
	{queuefs.ErrDigest, http.StatusBadRequest},
	{digest.ErrMismatch, http.StatusBadRequest},
	{queuefs.ErrSidecar, http.StatusBadRequest},
	{octets.ErrPrecondition, http.StatusPreconditionFailed},
	{queuefs.ErrTooBig, http.StatusRequestEntityTooLarge},
	{state.ErrForm, http.StatusUnsupportedMediaType},
	{queuefs.ErrNoSpace, http.StatusInsufficientStorage},
	{queuefs.ErrFailed, http.StatusServiceUnavailable},
	{queuefs.ErrClosed, http.StatusServiceUnavailable},
}

func badRequest(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf(format, args...)}
}

// notFound names what was looked for. A name that cannot be one is not found
// either; other errors stay as they are.
func notFound(err, missing error, name string) error {
	if errors.Is(err, missing) || errors.Is(err, queuefs.ErrBadName) {
		return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("%v: %.80s", missing, strings.ToValidUTF8(name, "\ufffd"))}
	}
	return err
}

// answerTo is the one place where errors become statuses. hidden is set if the
// caller is not told all.
func answerTo(err error) (e *Error, hidden bool) {
	if errors.As(err, &e) {
		return e, false
	}
	for _, s := range sentinels {
		switch {
		case !errors.Is(err, s.err):
		case s.status >= 500:
			return &Error{s.status, s.err.Error()}, true
		default:
			return &Error{s.status, err.Error()}, false
		}
	}
	switch {
	case errors.Is(err, context.Canceled): // nobody is there to read the answer
		return &Error{http.StatusBadRequest, "request was given up"}, false
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{http.StatusServiceUnavailable, "service is too busy"}, true
	}
	return &Error{Status: http.StatusInternalServerError}, true
}

// Error answers a request with an exception state in the form that it asks for.
// It is for those around the Handler as well, for instance to refuse a request
// with an [Error] of status 401 or 403; their headers are kept. What the caller
// is not to see of err goes to the log.
func (h *Handler) Error(w http.ResponseWriter, r *http.Request, err error) {
	e, hidden := answerTo(err)
	if hidden && h.o.Log != nil {
		h.o.Log(r, err)
	}
	if e.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close")
	} else if r.ContentLength != 0 {
		// The server reads what is left of the body, and is not to wait for it
		// for ever. Without deadlines there is nothing to be done.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.BodyIdle))
	}
	t := ""
	if r.URL.RawQuery != "" {
		t = r.URL.Query().Get("t")
	}
	accept := r.Header.Get("Accept")
	form, formErr := state.Negotiate(t, accept)
	if formErr != nil {
		form, formErr = state.Negotiate("", accept)
	}
	if formErr != nil {
		form = state.Default
	}
	header := w.Header()
	for _, name := range ofSuccess {
		delete(header, name)
	}
	header.Set("Cache-Control", "no-store")
	d := state.OfException(state.Exception{Status: e.Status, Detail: e.Message})
	d.Base = h.base()
	h.answer(w, e.Status, form, &d)
}

// ofSuccess are headers that a method sets before it may still fail.
var ofSuccess = []string{"Etag", "Last-Modified", "Location", "Link", "Content-Location", "Content-Disposition",
	"Content-Security-Policy", "Repr-Digest", sidecarHeader, sidecarLength, leaseHeader, leaseExpires, attemptHeader}

// log tells of an error that can no longer be answered.
func (h *Handler) log(r *request, err error) {
	if h.o.Log != nil && r.Context().Err() == nil {
		h.o.Log(r.Request, err)
	}
}
