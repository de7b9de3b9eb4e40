package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/events"
	"cutie/queuefs/state"
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

// Events selects the events to follow.
type Events struct {
	Queue  string // "" for all queues
	From   int64  // number of the first event of the queue; 0 for events from now on
	Kind   string // kinds, separated by commas; "" for all
	Status string // statuses after the event, separated by commas; "" for all
	// Lost gets the reason for the end of a connection before it is made again.
	Lost func(error)
}

// Follow gives each event to take, as [events.Follow] does.
func (c *Client) Follow(ctx context.Context, e Events, take func(kind string, data []byte) error) error {
	query, path := url.Values{}, []string{"events"}
	if e.Queue != "" {
		path = append(path, e.Queue)
	}
	if e.From > 0 {
		query.Set("from", strconv.FormatInt(e.From, 10))
	}
	if e.Kind != "" {
		query.Set("kind", e.Kind)
	}
	if e.Status != "" {
		query.Set("status", e.Status)
	}
	ref := c.ref(query, path...)
	open := func(ctx context.Context, last string) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ref, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream, "+state.ANVL.MediaType())
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	return events.Follow(ctx, events.Source{Open: open, Lost: e.Lost}, take)
}
