package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"cutie/queuefs/events"
	"cutie/queuefs/state"
)

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
