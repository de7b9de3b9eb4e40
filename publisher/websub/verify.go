package websub

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// verifyAttempts is how often a callback that does not answer is asked.
const verifyAttempts = 3

// errDisagrees says that a subscriber did not ask for what was asked for in
// its name.
var errDisagrees = errors.New("the callback does not confirm")

// verify asks a subscriber whether it wants what was asked for (5.3), and does
// it.
func (h *Hub) verify(ctx context.Context, s *subscription, asked intent) {
	err := h.challenge(h.traced(ctx, s), s, asked)
	refused, _ := errors.AsType[*refusedError](err)
	h.settle(s, refused)
	if ctx.Err() != nil {
		return // it was not the subscriber who failed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	now := h.Now()
	again := s.Asked // another request may have come meanwhile
	if again.same(asked) {
		s.Asked = nil
	}
	switch {
	case err == nil && asked.Mode == unsubscribe:
		if s.Expires = (time.Time{}); s.Asked == nil {
			h.drop(s.key())
		}
	case err == nil:
		s.Position = cmp.Or(s.Position, asked.Position)
		s.Secret, s.By, s.Expires = asked.Secret, asked.By, now.Add(asked.Lease)
		s.Failing, s.Failures, s.Next, s.lastErr = time.Time{}, 0, time.Time{}, ""
	case s.Asked != nil:
	case errors.Is(err, errDisagrees) || refused != nil || asked.Attempts+1 >= verifyAttempts:
		s.lastErr = err.Error()
		if !s.active(now) {
			h.drop(s.key())
		}
	default:
		asked.Attempts++
		asked.Next = now.Add(h.pause(asked.Attempts))
		s.Asked, s.lastErr = &asked, err.Error()
	}
}

// same tells whether two requests are one, however often it was attempted.
func (i *intent) same(as intent) bool {
	return i != nil && i.Mode == as.Mode && i.Lease == as.Lease && i.Secret == as.Secret && i.By == as.By
}

// challenge asks a callback to send back what nobody else can know.
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

// tell tells a subscriber, once, that its subscription has ended (5.2).
func (h *Hub) tell(ctx context.Context, s *subscription, reason string) {
	if !s.External {
		_, _, _ = h.query(ctx, s.Callback, url.Values{"hub.mode": {denied}, "hub.topic": {s.Topic}, "hub.reason": {reason}})
	}
}

// dismiss ends a subscription that is permitted no longer.
func (h *Hub) dismiss(ctx context.Context, s *subscription) {
	h.tell(ctx, s, "the right to read the topic is no longer there")
	if ctx.Err() != nil {
		return
	}
	h.end(s)
	h.report(fmt.Errorf("hub: a subscriber at %s may have %s no longer and is dropped", redact(s.Callback), s.Topic))
}

// deny ends a subscription to a topic that is no longer there, and what was
// asked of it.
func (h *Hub) deny(ctx context.Context, s *subscription) {
	h.tell(ctx, s, "the topic is no longer there")
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(s.key())
}

// query makes a GET of a callback with arguments behind those it has.
func (h *Hub) query(ctx context.Context, callback string, args url.Values) (status int, body string, err error) {
	u, err := parseURL(callback)
	if err != nil {
		return 0, "", err
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += args.Encode()
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := h.do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode, string(data), err
}
