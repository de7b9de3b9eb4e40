package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrTooBig is the error for a body beyond its limit; see [Body].
var ErrTooBig = errors.New("body is too big")

// Body returns the body of an answer, limited to most octets. A longer body is
// refused: at once by its Content-Length, else when it is read that far. The
// error is an [ErrTooBig].
func Body(resp *http.Response, most int64) (io.Reader, error) {
	if resp.ContentLength > most {
		return nil, fmt.Errorf("%w: it has %d octets, more than %d", ErrTooBig, resp.ContentLength, most)
	}
	return &limited{in: resp.Body, left: most, most: most}, nil
}

// A limited reader fails at its limit; the one of package io ends there.
type limited struct {
	in         io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p))-1 > l.left {
		p = p[:l.left+1] // one more than may come
	}
	n, err := l.in.Read(p)
	if int64(n) > l.left {
		n = int(l.left)
		err = fmt.Errorf("%w: it has more than %d octets", ErrTooBig, l.most)
	}
	l.left -= int64(n)
	return n, err
}

// A roundTripper makes single requests within the limits of its Client.
type roundTripper struct{ c *Client }

// RoundTrip checks the URL again, since a caller may have replaced the check of
// redirects in the Client of package net/http.
func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := Check(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	over := func(d time.Duration) func() {
		return func() { cancel(fmt.Errorf("%w for %v", ErrIdle, d)) }
	}
	timer := time.AfterFunc(t.c.connect, over(t.c.connect))
	resp, err := t.c.transport.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = reason(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Request = req
	b := &body{ReadCloser: resp.Body, cancel: cancel, idle: t.c.idle}
	b.reason = func(err error) error { return reason(ctx, err) }
	b.timer = time.AfterFunc(b.idle, over(b.idle))
	resp.Body = b
	return resp, nil
}

// reason is the cause of a request that we gave up, else its error.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrIdle) {
		return cause
	}
	return err
}

// A body gives up when nothing comes. Time between two reads counts, so a
// stopped reader does not hold the connection.
type body struct {
	io.ReadCloser
	reason func(error) error // why it was given up
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.timer.Stop()
		if err != io.EOF {
			err = b.reason(err)
		}
		return n, err
	}
	if n > 0 {
		b.timer.Reset(b.idle)
	}
	return n, nil
}

func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
