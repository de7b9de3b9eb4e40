package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A stream follows the server-sent events at one URL of a daemon (WHATWG HTML,
// 9.2), over as many connections as it takes.
type stream struct {
	sent http.RoundTripper
	url  string
	lost func(error) // gets the reason for the end of a connection

	id string // of the last event; the next connection begins after it
}

const (
	// silence is the longest pause of a daemon; it sends signs of life.
	silence = time.Minute
	// Pauses before another connection double from the first to the last.
	firstPause, lastPause = 500 * time.Millisecond, 15 * time.Second
	maxEventLine          = 1 << 20 // octets
)

// follow gives each event to take, until take or the daemon refuses or ctx
// ends. The first connection must succeed; later ones are tried without an end.
func (s *stream) follow(ctx context.Context, take func(kind string, data []byte) error) error {
	pause := firstPause
	for first := true; ; first = false {
		began, err := s.connect(ctx, take)
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
			s.lost(err)
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

// connect follows one connection to its end. began is true if the daemon answered
// with events.
func (s *stream) connect(ctx context.Context, take func(string, []byte) error) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream, "+state.ANVL.MediaType())
	req.Header.Set("User-Agent", agent())
	if s.id != "" {
		req.Header.Set("Last-Event-ID", s.id)
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %v", silence)) })
	defer quiet.Stop()
	resp, err := (&http.Client{Transport: s.sent}).Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, refusal(resp)
	}
	err = s.read(bufio.NewReader(resp.Body), func() { quiet.Reset(silence) }, take)
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = errors.Join(err, cause)
	}
	return true, err
}

// refusal is the error in an answer.
func refusal(resp *http.Response) error {
	e := &web.Error{Status: resp.StatusCode}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return e
	}
	if form, err := state.FormOf(resp.Header.Get("Content-Type")); err == nil {
		e.Message = state.DetailOf(form, data)
	}
	return e
}

// read reads events to the end of a connection, always an error.
func (s *stream) read(in *bufio.Reader, alive func(), take func(string, []byte) error) error {
	var kind, id string
	var data []byte
	for {
		line, err := readLine(in)
		if err == io.EOF {
			return errors.New("the daemon has ended it")
		}
		if err != nil {
			return err
		}
		alive()
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
			s.id = id
		}
		kind, id, data = "", "", data[:0]
	}
}

// readLine returns a line without its end, good until the next one.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		long := bytes.Clone(line)
		for err == bufio.ErrBufferFull && len(long) < maxEventLine {
			line, err = in.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if err == bufio.ErrBufferFull {
		return nil, fmt.Errorf("a line of events has more than %d octets", maxEventLine)
	}
	return bytes.TrimRight(line, "\r\n"), err
}
