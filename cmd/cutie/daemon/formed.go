package daemon

import (
	"io"
	"net/http"
	"strings"

	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// A formed answer puts the errors of a handler that writes them as plain text, as
// net/http does, into the form that was asked for.
type formed struct {
	http.ResponseWriter
	status int // of an error that is held back; 0: there is none
	text   strings.Builder
}

// inForm has a handler answer a request. Whoever asks for no form of states gets
// errors as the handler writes them.
func (s *site) inForm(h http.Handler, w http.ResponseWriter, r *http.Request) {
	if !asksForm(r) {
		h.ServeHTTP(w, r)
		return
	}
	f := &formed{ResponseWriter: w}
	h.ServeHTTP(f, r)
	if f.status != 0 {
		s.refuse(w, r, &rest.Error{Status: f.status, Message: strings.TrimSpace(f.text.String())})
	}
}

// asksForm tells whether a request says in which form it wants a state.
func asksForm(r *http.Request) bool {
	accept, t := r.Header.Get("Accept"), ""
	if r.URL.RawQuery != "" {
		t = r.URL.Query().Get("t")
	}
	if t == "" && (accept == "" || accept == "*/*") {
		return false
	}
	_, err := state.Negotiate(t, accept)
	return err == nil
}

func (f *formed) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(f.Header().Get("Content-Type"), "text/plain") {
		f.status = status
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *formed) Write(p []byte) (int, error) {
	if f.status != 0 {
		return f.text.Write(p)
	}
	return f.ResponseWriter.Write(p)
}

// ReadFrom lets what is below have a file as such.
func (f *formed) ReadFrom(src io.Reader) (int64, error) {
	if f.status != 0 {
		return io.Copy(&f.text, src)
	}
	return io.Copy(f.ResponseWriter, src)
}

// Unwrap is for [http.ResponseController].
func (f *formed) Unwrap() http.ResponseWriter { return f.ResponseWriter }
