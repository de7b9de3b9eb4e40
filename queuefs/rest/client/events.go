package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cutie/queuefs/events"
	"cutie/queuefs/state"
)

// Events selects the events to follow.
type Events struct {
	Queue  string // "" for all queues
	From   int64  // number of the first event of the queue; 0 for events from now on
	Kind   string // kinds, separated by commas; "" for all
	Status string // statuses after the event, separated by commas; "" for all
	// Lost gets the reason for the end of a connection before it is made again; nil
	// if nobody wants to know.
	Lost func(error)
}

// Reset is the kind of an Event in place of events that the service no longer has: the
// reader gets the state at State, and goes on with the events after Seq.
const Reset = "reset"

// An Event is a change of a job or of the properties of a queue.
type Event struct {
	Queue  string    // cleaned identifier; "" for all of them
	Seq    int64     // its number in the queue
	Time   time.Time // zero for a Reset
	Kind   string    // such as submit, consume, requeue, delete and cull, or Reset
	Job    string    // "" for the properties of the queue
	From   string    // status before; "" for a new job
	To     string    // status after; "" for a job that is gone
	State  string    // URL of the state of the job or queue; "" for a job that is gone
	Size   int64     // octets of the payload
	Type   string    // media type of the payload
	Reason string    // for a Reset
	Data   []byte    `json:"-"` // all of it in JSON, good until the next Event
}

func decodeEvent(kind string, data []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("event %s: %w", kind, err)
	}
	e.Kind, e.Data = kind, data
	return e, nil
}

// Follow gives each event to take, over as many connections as needed, until take or
// the service refuses or ctx ends. The first connection must succeed; later ones are
// tried without an end. Each event comes at least once; Queue and Seq tell them apart.
func (c *Client) Follow(ctx context.Context, e Events, take func(Event) error) error {
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
	lost := e.Lost
	if lost == nil {
		lost = func(error) {}
	}
	return events.Follow(ctx, events.Source{Open: open, Lost: lost}, func(kind string, data []byte) error {
		got, err := decodeEvent(kind, data)
		if err != nil {
			return err
		}
		return take(got)
	})
}
