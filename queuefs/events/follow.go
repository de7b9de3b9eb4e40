package events

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"cutie/queuefs/web"
)

// A Source is a service with events.
type Source struct {
	// Open asks for the events after the one with the id last; "" asks for the
	// first ones. A refusal of the service is a [web.Error].
	Open func(ctx context.Context, last string) (io.ReadCloser, error)
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

// Follow gives each event to take, over as many connections as it takes, until
// take or the service refuses or ctx ends. The first
// connection must succeed; later ones are tried without an end. Each event comes
// at least once.
func Follow(ctx context.Context, s Source, take func(kind string, data []byte) error) error {
	last, pause := "", firstPause
	for first := true; ; first = false {
		began, err := s.followOnce(ctx, &last, take)
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
			s.Lost(err)
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
func (s *Source) followOnce(ctx context.Context, last *string, take func(string, []byte) error) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %v", silence)) })
	defer quiet.Stop()
	body, err := s.Open(ctx, *last)
	if err != nil {
		return false, err
	}
	defer body.Close()
	err = readEvents(body, last, func() { quiet.Reset(silence) }, take)
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
