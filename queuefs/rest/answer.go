package rest

import (
	"net/http"
	"strconv"
	"sync"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// texts are buffers for answers; large ones are not kept.
var texts = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

const largeBuffer = 64 << 10

func putBuffer(buf *[]byte) {
	if cap(*buf) <= largeBuffer {
		texts.Put(buf)
	}
}

// answer writes d in the given form. A page has no ages, since it may have an entity tag.
func (h *Handler) answer(w http.ResponseWriter, status int, form state.Form, d *state.Document) {
	h.write(w, status, form, func(dst []byte) []byte {
		if isPage(form) {
			return h.o.Pages.State(dst, d, View{})
		}
		return form.Append(dst, d)
	})
}

// write answers with the document appended by fill, in the given form.
func (h *Handler) write(w http.ResponseWriter, status int, form state.Form, fill func(dst []byte) []byte) {
	buf := texts.Get().(*[]byte)
	defer putBuffer(buf)
	*buf = fill((*buf)[:0])
	header := w.Header()
	values := []string{form.MediaType(), strconv.Itoa(len(*buf))} // one allocation for both
	header["Content-Type"], header["Content-Length"] = values[:1:1], values[1:]
	header["X-Content-Type-Options"] = noSniff
	if isPage(form) {
		header["Content-Security-Policy"] = []string{h.o.Pages.Policy()}
	}
	w.WriteHeader(status)
	w.Write(*buf) // nobody is left to be told of an error
}

// answerChange answers a method with the new state. A program without a wish for a form gets
// a page of the state alone: nobody looks at the rest. The sender of a page's form
// is redirected to the page of the state, which can be loaded again without
// harm. The holder of a lease gets the one page with its token at once, since
// the token must be in no URL.
func (h *Handler) answerChange(w http.ResponseWriter, r *request, status int, form state.Form, d *state.Document) error {
	switch {
	case r.unasked():
		h.write(w, status, form, func(dst []byte) []byte { return form.Append(dst, d) })
	case !r.fromPage(form):
		h.answer(w, status, form, d)
	case r.lease != "":
		w.Header()["Cache-Control"] = noStore
		return h.answerPage(w, r, form, d)
	default:
		h.seeOther(w, r, d)
	}
	return nil
}

var noCache = []string{"no-cache"}

var noSniff = []string{"nosniff"}

// answerTagged writes the document of make, unless the client has the entity
// tag of the present, tag. make returns the tag of its document, "" if the
// document is not of one instant.
func (h *Handler) answerTagged(w http.ResponseWriter, r *request, form state.Form, tag string, make func() (d state.Document, tag string, err error)) error {
	header := w.Header()
	header["Cache-Control"] = noCache
	if isPage(form) && r.browser() {
		d, _, err := make()
		if err == nil {
			err = h.answerPage(w, r, form, &d)
		}
		if err != nil {
			delete(header, "Cache-Control")
		}
		return err
	}
	if web.Matches(r.Header["If-None-Match"], tag) {
		header["Etag"] = []string{tag}
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	d, tag, err := make()
	if err != nil {
		delete(header, "Cache-Control")
		return err
	}
	if tag != "" {
		header["Etag"] = []string{tag}
	}
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

// steadyTries is how often a changing thing is read again.
const steadyTries = 5
