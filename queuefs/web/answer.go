package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

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
