package websub

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"
)

// verifyAttempts is how often the hub asks a failing callback.
const verifyAttempts = 3

// errDisagrees is the error of a callback with another intent.
var errDisagrees = errors.New("the callback does not confirm")

// verify asks a subscriber to confirm a request (5.3) and carries it out.
func (h *Hub) verify(ctx context.Context, s *subscription, asked intent) {
	err := h.challenge(h.traced(ctx, s), s, asked)
	refused, _ := errors.AsType[*refusedError](err)
	h.settle(s, refused)
	if ctx.Err() != nil {
		return // the subscriber is not to blame
	}
	h.update(func() {
		now := h.Now()
		if s.Asked.same(asked) { // else another request has come meanwhile
			s.Asked = nil
		}
		switch {
		case err == nil && asked.Mode == unsubscribe:
			if s.Expires = (time.Time{}); s.Asked == nil {
				h.sender.Drop(s)
			}
		case err == nil:
			s.Position = cmp.Or(s.Position, asked.Position)
			s.Secret, s.By, s.Expires = asked.Secret, asked.By, now.Add(asked.Lease)
			s.Reset()
		case s.Asked != nil:
		case errors.Is(err, errDisagrees) || refused != nil || asked.Attempts+1 >= verifyAttempts:
			s.LastError = err.Error()
			if !s.active(now) {
				h.sender.Drop(s)
			}
		default:
			asked.Attempts++
			asked.Next = now.Add(h.sender.Pause(asked.Attempts))
			s.Asked, s.LastError = &asked, err.Error()
		}
	})
}

// same reports whether two requests are one, after any number of attempts.
func (i *intent) same(as intent) bool {
	return i != nil && i.Mode == as.Mode && i.Lease == as.Lease && i.Secret == as.Secret && i.By == as.By
}

// challenge asks a callback to send a random word back.
func (h *Hub) challenge(ctx context.Context, s *subscription, asked intent) error {
	word := rand.Text()
	args := url.Values{"hub.mode": {asked.Mode}, "hub.topic": {s.Topic}, "hub.challenge": {word}}
	if asked.Mode == subscribe {
		args.Set("hub.lease_seconds", strconv.FormatInt(int64(asked.Lease/time.Second), 10))
	}
	status, body, err := h.query(ctx, s.Callback, args)
	switch {
	case err != nil:
		return err
	case status >= 500:
		return fmt.Errorf("the callback answered %d", status)
	case status < 200 || status >= 300:
		return fmt.Errorf("%w: it answered %d", errDisagrees, status)
	case body != word:
		return fmt.Errorf("%w: it did not send the challenge back", errDisagrees)
	}
	return nil
}

// end tells a subscriber, once, of the end of its subscription (5.2), and drops
// it.
func (h *Hub) end(ctx context.Context, s *subscription, reason string, drop func()) {
	if !s.External {
		_, _, _ = h.query(ctx, s.Callback, url.Values{"hub.mode": {denied}, "hub.topic": {s.Topic}, "hub.reason": {reason}})
	}
	if ctx.Err() == nil {
		h.update(drop)
	}
}

// query makes a GET of a callback with arguments after its own.
func (h *Hub) query(ctx context.Context, callback string, args url.Values) (status int, body string, err error) {
	u, err := parseURL(callback)
	if err != nil {
		return 0, "", err
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += args.Encode()
	req, err := http.NewRequest(http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, "", err
	}
	resp, text, err := h.sender.Exchange(ctx, req)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, string(text), nil
}

// A verdict tells a waiting client of the hub whether the Doer refuses its
// callback. There is no other way to tell it.
type verdict struct {
	done chan struct{} // closed when it is known
	err  error         // why the callback is refused; nil if it is not
}

// wait returns why a callback is refused; nil if it is not, or not in time.
func (v *verdict) wait(ctx context.Context, limit time.Duration) error {
	if limit == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-v.done:
		return v.err
	case <-ctx.Done():
		return nil
	}
}

// settle tells the waiting clients.
func (h *Hub) settle(s *subscription, refused *refusedError) {
	h.sender.View(func() {
		if s.verdict == nil {
			return
		}
		if refused != nil {
			s.verdict.err = refused
		}
		close(s.verdict.done)
		s.verdict = nil
	})
}

// traced returns a context to settle the verdict when there is a connection. A
// client with one thread for its requests and its callback would otherwise wait
// for itself.
func (h *Hub) traced(ctx context.Context, s *subscription) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				h.settle(s, nil)
			}
		},
		GotConn: func(httptrace.GotConnInfo) { h.settle(s, nil) },
	})
}
