package rest

import (
	"net/http"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/events"
)

// events serves GET /events and GET /events/Q, with ?kind= and ?status=, each a
// list with commas. The stream begins after the event in the header
// Last-Event-ID or else in ?lastEventId=, with the event in ?from=, or now.
func (h *Handler) events(w http.ResponseWriter, r *request) (err error) {
	wish := events.Wish{Kinds: list(r, "kind", queuefs.ParseKind), Status: list(r, "status", queuefs.ParseStatus),
		LastID: r.text("lastEventId")}
	if from := r.text("from"); r.query.Has("from") {
		wish.From = &from
	}
	if r.bad != nil {
		return r.bad
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		wish.LastID = id // newer: the client kept the URL from its first request
	}
	if r.PathValue("queue") != "" {
		if wish.Queue, err = h.queue(r); err != nil {
			return err
		}
	}
	return h.streams.Serve(w, r.Request, wish)
}

// list returns the parts of a parameter, none if it is not given; see wrong.
func list[T any](r *request, name string, parse func(string) (T, error)) (all []T) {
	text := r.text(name)
	if !r.query.Has(name) {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		r.wrong(err)
		all = append(all, v)
	}
	return all
}
