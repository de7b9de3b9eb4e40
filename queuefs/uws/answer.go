package uws

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"cutie/queuefs/web"
)

func bad(format string, a ...any) error {
	return web.Errorf(http.StatusBadRequest, format, a...)
}

func forbidden(format string, a ...any) error {
	return web.Errorf(http.StatusForbidden, format, a...)
}

func notFound(text string) error { return &web.Error{Status: http.StatusNotFound, Message: text} }

// fail answers with an error, in plain text: clients show it to people.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, hidden := web.ErrorOf(err)
	switch {
	case hidden:
		if h.o.Log != nil && r.Context().Err() == nil {
			h.o.Log(r, err)
		}
		e = &web.Error{Status: e.Status, Message: strings.ToLower(http.StatusText(e.Status))}
	case !errors.As(err, new(*web.Error)) && (e.Status == http.StatusBadRequest || e.Status == http.StatusConflict):
		e.Status = http.StatusForbidden // the queue rejects it (UWS 1.1, 2.2.3)
	}
	web.GiveUp(w, r, bodyIdle)
	header := w.Header()
	header.Del("Location")
	header.Set("Cache-Control", "no-store")
	if h.o.Pages != nil && browses(r) {
		h.sendPage(w, e.Status, &Page{Base: h.base(r), Body: web.FailureOf(header, r, e)})
		return
	}
	text(w, e.Status, e.Error()+"\n")
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

// see sends the client to the outcome of its request.
func see(w http.ResponseWriter, where string) error {
	w.Header().Set("Location", where)
	text(w, http.StatusSeeOther, where+"\n")
	return nil
}
