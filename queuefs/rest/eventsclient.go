package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
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

const (
	// silence is the longest pause of a service; it sends signs of life.
	silence = time.Minute
	// Pauses before another connection double from the first to the last.
	firstPause, lastPause = 500 * time.Millisecond, 15 * time.Second
	maxEventLine          = 1 << 20 // octets
)

// Follow gives each event (WHATWG HTML, 9.2) to take, over as many connections
// as it takes, until take or the service refuses or ctx ends. The first
// connection must succeed; later ones are tried without an end. Each event comes
// at least once.
func (c *Client) Follow(ctx context.Context, e Events, take func(kind string, data []byte) error) error {
	last, pause := "", firstPause
	for first := true; ; first = false {
		began, err := c.followOnce(ctx, e, &last, take)
		var stop stopped
		var refused *web.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stop):
			return stop.error
		case errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusBadGateway:
			return err
		case first && !began:
			return err
		}
		if began {
			pause = firstPause
			e.Lost(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// A stopped error comes from the taker of the events.
type stopped struct{ error }

// followOnce follows one connection to its end. It begins after the event last.
// began is true if the service answered with events.
func (c *Client) followOnce(ctx context.Context, e Events, last *string, take func(string, []byte) error) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.ref(query, path...), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream, "+state.ANVL.MediaType())
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %v", silence)) })
	defer quiet.Stop()
	resp, err := c.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, last, func() { quiet.Reset(silence) }, take)
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = errors.Join(err, cause)
	}
	return true, err
}

// readEvents reads events to the end of a connection, always an error.
func readEvents(body io.Reader, last *string, alive func(), take func(string, []byte) error) error {
	var kind, id string
	var data []byte
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEventLine)
	for lines.Scan() {
		alive()
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			data = append(data, value...)
		case "id":
			id = string(value)
		}
		if len(line) > 0 {
			continue
		}
		if len(data) > 0 {
			if err := take(kind, data); err != nil {
				return stopped{err}
			}
		}
		if id != "" {
			*last = id
		}
		kind, id, data = "", "", data[:0]
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the daemon has ended it")
}
