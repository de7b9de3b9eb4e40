package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/state"
)

// A Refuser answers requests with errors: as exception states to clients that ask for
// a form, as a line of text to all others.
type Refuser struct {
	Base     func(*http.Request) state.Base   // beginning of references
	Log      func(r *http.Request, err error) // called with errors hidden from the caller, unless nil
	BodyIdle time.Duration                    // longest pause in the rest of a body
	// Page appends a state as a page for people; nil: a plain table.
	Page func(dst []byte, d *state.Document, why *Failure) []byte
}

// Refuse answers a request with an error. Headers set before stay, except those
// of success.
func (f *Refuser) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, hidden := ErrorOf(err)
	if hidden && f.Log != nil {
		f.Log(r, err)
	}
	if e.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close")
	} else {
		GiveUp(w, r, f.BodyIdle)
	}
	header := w.Header()
	for _, name := range ofSuccess {
		delete(header, name)
	}
	header["Cache-Control"] = noStore
	if header["Vary"] == nil {
		header["Vary"] = varyAccept
	}
	form, asked := formOf(r)
	if !asked {
		writeText(w, e)
		return
	}
	d := state.OfException(state.Exception{Status: e.Status, Detail: e.Message})
	d.Base = f.Base(r)
	page := form == state.XHTML || form == state.HTML
	var body []byte
	if page && f.Page != nil {
		body = f.Page(nil, &d, FailureOf(header, r, e))
	} else {
		body = form.Append(nil, &d)
	}
	header["Content-Type"] = []string{form.MediaType()}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	header["X-Content-Type-Options"] = noSniff
	if page {
		header["Content-Security-Policy"] = pagePolicy
	}
	w.WriteHeader(e.Status)
	w.Write(body) // nobody is left to be told of an error
}

// A Failure is a refused request, for its page.
type Failure struct {
	Status       int
	Detail       string // the thing and its error; "" if that is not for the reader
	Method, Path string
	Queue, Job   string // in the path; "" for none, or before the request was admitted
	After        string // seconds until another try can succeed; "" if nobody knows
	// May is that of [MayOf].
	May func(method, path string) bool
}

// FailureOf describes a request answered with e; header is that of the answer.
func FailureOf(header http.Header, r *http.Request, e *Error) *Failure {
	return &Failure{Status: e.Status, Detail: e.Message, Method: r.Method, Path: r.URL.Path, Queue: r.PathValue("queue"), Job: r.PathValue("job"),
		After: header.Get("Retry-After"), May: MayOf(r.Context())}
}

// formOf returns the form to answer with an error in, and whether the client
// has asked for one.
func formOf(r *http.Request) (form state.Form, asked bool) {
	t, accept := "", r.Header.Get("Accept")
	if r.URL.RawQuery != "" {
		t = r.URL.Query().Get("t")
	}
	form, err := state.Negotiate(t, accept)
	if err == nil {
		return form, t != "" || accept != "" && accept != "*/*"
	}
	form, err = state.Negotiate("", accept) // t is none
	return form, err == nil && accept != "" && accept != "*/*"
}

// Plain answers with the text of an error. An entity tag stays in the header.
func Plain(w http.ResponseWriter, _ *http.Request, err error) {
	e, _ := ErrorOf(err)
	for _, name := range []string{"Cache-Control", "Last-Modified", "Preference-Applied"} {
		w.Header().Del(name)
	}
	writeText(w, e)
}

// writeText answers with the text of an error in a line.
func writeText(w http.ResponseWriter, e *Error) {
	text := e.Error() + "\n"
	header := w.Header()
	header["Content-Type"] = []string{"text/plain; charset=utf-8"}
	header["Content-Length"] = []string{strconv.Itoa(len(text))}
	header["X-Content-Type-Options"] = noSniff
	w.WriteHeader(e.Status)
	io.WriteString(w, text) // nobody is left to be told of an error
}

// GiveUp limits the server's wait for the rest of a body to idle, on
// connections with deadlines.
func GiveUp(w http.ResponseWriter, r *http.Request, idle time.Duration) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(idle))
	}
}

var (
	noStore    = []string{"no-store"}
	varyAccept = []string{"Accept"}
	noSniff    = []string{"nosniff"}
	pagePolicy = []string{state.PagePolicy}
)

// ofSuccess are headers set by a handler before a possible failure.
var ofSuccess = []string{"Etag", "Last-Modified", "Location", "Link", "Content-Location", "Content-Disposition",
	"Content-Security-Policy", "Repr-Digest", "Cutie-Sidecar", "Cutie-Sidecar-Length", "Cutie-Lease", "Cutie-Lease-Expires", "Cutie-Attempt",
	"Preference-Applied", "Idempotency-Replayed"}

// AnswerJSON answers with a state of the moment.
func AnswerJSON(w http.ResponseWriter, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	w.Write(append(body, '\n')) // nobody is left to be told of an error
	return nil
}

// An Error is a refused request: the answer of a handler, and the error of a
// client. With [errors.Is] it matches its error of package queuefs, such as
// [ledger.ErrNoQueue].
type Error struct {
	Status  int    // of HTTP, 400 and above
	Message string // for the caller; "" if there is nothing to say but the status
	// After is the time until another try can succeed, in a client: the Retry-After of
	// the answer; 0 if there was none. A handler sets the header itself.
	After time.Duration
}

// Errorf returns an [*Error].
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// BadRequest returns an [*Error] of status 400.
func BadRequest(format string, args ...any) error {
	return Errorf(http.StatusBadRequest, format, args...)
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%d %s", e.Status, strings.ToLower(http.StatusText(e.Status)))
	}
	return e.Message
}

// HTTPStatus is for packages that know the status of an error alone.
func (e *Error) HTTPStatus() int { return e.Status }

// Is reports whether the error stands for target.
func (e *Error) Is(target error) bool {
	for _, s := range statuses {
		if s.err == target && e.Status == s.status {
			return strings.Contains(e.Message, target.Error())
		}
	}
	return false
}

// statuses are the errors with a status of their own. From 500 on the caller is
// told the text of the error here and no more.
var statuses = []struct {
	err    error
	status int
}{
	{ledger.ErrNoQueue, http.StatusNotFound},
	{ledger.ErrNoJob, http.StatusNotFound},
	{content.ErrNoResult, http.StatusNotFound},
	{job.ErrNotPending, http.StatusConflict},
	{job.ErrConflict, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusConflict},
	{queuefs.ErrQueueExists, http.StatusPreconditionFailed},
	{ledger.ErrNotEmpty, http.StatusConflict},
	{queuefs.ErrRefusing, http.StatusConflict},
	{queuefs.ErrNotLost, http.StatusConflict},
	{replay.ErrMirror, http.StatusConflict},
	{queuefs.ErrResultExists, http.StatusConflict},
	{queuefs.ErrLease, http.StatusGone},
	{job.ErrBadName, http.StatusBadRequest},
	{digest.ErrMismatch, http.StatusBadRequest},
	{job.ErrSidecar, http.StatusBadRequest},
	{ErrPrecondition, http.StatusPreconditionFailed},
	{ErrRange, http.StatusRequestedRangeNotSatisfiable},
	{queuefs.ErrKeyUsed, http.StatusUnprocessableEntity},
	{queuefs.ErrKeyBusy, http.StatusConflict},
	{job.ErrTooBig, http.StatusRequestEntityTooLarge},
	{state.ErrForm, http.StatusUnsupportedMediaType},
	{content.ErrResultDamaged, http.StatusInternalServerError},
	{ledger.ErrNoSpace, http.StatusInsufficientStorage},
	{content.ErrUnread, http.StatusServiceUnavailable},
	{ledger.ErrFailed, http.StatusServiceUnavailable},
	{ledger.ErrClosed, http.StatusServiceUnavailable},
	{journal.ErrFollowing, http.StatusServiceUnavailable},
}

// ErrorOf is the one mapping from errors to statuses. hidden is set if the
// caller is not told all.
func ErrorOf(err error) (e *Error, hidden bool) {
	if errors.As(err, &e) {
		return e, false
	}
	if own, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err); ok {
		return &Error{Status: own.HTTPStatus(), Message: own.Error()}, false
	}
	if shut, ok := errors.AsType[*content.ShutError](err); ok { // the caller is told the way out
		return &Error{Status: http.StatusServiceUnavailable, Message: shut.Error()}, false
	}
	if lost, ok := errors.AsType[*content.LostError](err); ok {
		return &Error{Status: http.StatusServiceUnavailable, Message: lost.Error()}, false
	}
	for _, s := range statuses {
		switch {
		case !errors.Is(err, s.err):
		case s.status >= 500:
			return &Error{Status: s.status, Message: s.err.Error()}, true
		default:
			return &Error{Status: s.status, Message: err.Error()}, false
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{Status: http.StatusInsufficientStorage, Message: ledger.ErrNoSpace.Error()}, true
	case errors.Is(err, context.Canceled): // nobody is there to read the answer
		return &Error{Status: http.StatusBadRequest, Message: "request was given up"}, false
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusServiceUnavailable, Message: "service is too busy"}, true
	}
	return &Error{Status: http.StatusInternalServerError}, true
}
