package websub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// turnLength is how many notifications a subscription gets before others have
// a turn.
const turnLength = 16

// Limits of what a subscriber may say.
const (
	maxAnswer     = 64 << 10       // octets that are read of a body
	maxRetryAfter = 24 * time.Hour // that is obeyed
)

// deliver sends a subscription what it does not have yet. What it does counts
// when the subscriptions are saved; until then it is done again after a crash.
// latest is a position that was the latest a moment ago.
func (h *Hub) deliver(ctx context.Context, s *subscription, latest string) {
	for range turnLength {
		h.mu.Lock()
		after, by, asked := s.Position, s.By, s.Asked != nil
		h.mu.Unlock()
		if asked || ctx.Err() != nil {
			return
		}
		if h.Still != nil && by != "" && !h.Still(by, s.Topic) {
			h.dismiss(ctx, s)
			return
		}
		c, err := h.next(s, after)
		if err != nil {
			h.note(s.Topic, err)
			h.mu.Lock()
			s.Next = h.Now().Add(h.Shortest) // it is not the subscriber who failed
			h.mu.Unlock()
			return
		}
		began := h.Now()
		if c.Body != nil {
			err = h.post(ctx, s, c)
		}
		if ctx.Err() != nil {
			return
		}
		more := h.outcome(s, c, err, h.Now().Sub(began))
		if s.External {
			h.noteExternal(s.Callback, err)
		}
		if !more {
			h.mu.Lock()
			if err == nil {
				s.looked = latest
			}
			h.mu.Unlock()
			return
		}
	}
}

// next returns what is to be said to a subscription. A ping tells of all there
// is.
func (h *Hub) next(s *subscription, after string) (Content, error) {
	if x := h.external(s); x != nil && !x.Payload {
		return h.ping(s.Topic, after)
	}
	return h.Source.Content(s.Topic, after)
}

// A failure is an attempt that failed.
type failure struct {
	text  string
	after time.Duration // no attempt before; 0: as it seems right
	gone  bool          // nor ever
}

func (f *failure) Error() string { return f.text }

// outcome draws the conclusions from an attempt, and tells whether to go on.
func (h *Hub) outcome(s *subscription, c Content, err error, took time.Duration) bool {
	var f *failure
	errors.As(err, &f)
	if f != nil && f.gone && !s.External {
		h.end(s)
		return false
	}
	more, over := h.conclude(s, c, err, took)
	if over {
		h.report(fmt.Errorf("hub: a subscriber at %s to %s has failed for %v and is dropped, at last with: %w",
			redact(s.Callback), s.Topic, h.GiveUp, err))
	}
	return more
}

// conclude is outcome for what the subscription remembers; over means that it
// has failed for too long and goes with the next Tick, unless it is asked for
// anew.
func (h *Hub) conclude(s *subscription, c Content, err error, took time.Duration) (more, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	now := h.Now()
	if c.Body != nil {
		s.proven = err == nil && took < h.Timeout/4
	}
	if err == nil {
		s.Position = c.Upto
		s.Failing, s.Failures, s.Next, s.lastErr = time.Time{}, 0, time.Time{}, ""
		if c.Body != nil && !c.More {
			s.Next = now.Add(h.Gather)
		}
		return c.More, false
	}
	if s.Failures++; s.Failing.IsZero() {
		s.Failing = now
	}
	wait := h.pause(s.Failures)
	if f := (*failure)(nil); errors.As(err, &f) {
		wait = max(wait, f.after)
	}
	s.Next, s.lastErr = now.Add(wait), err.Error()
	if !s.External && now.Sub(s.Failing) >= h.GiveUp {
		s.Expires, over = time.Time{}, true
	}
	return false, over
}

// pause returns how long to wait after so many failures, with a part left to
// chance, so that a subscriber that comes back is not met by all at once.
func (h *Hub) pause(failures int) time.Duration {
	d := h.Longest
	if n := failures - 1; n < 40 && h.Shortest<<n < h.Longest && h.Shortest<<n > 0 {
		d = h.Shortest << n
	}
	return d/2 + rand.N(d/2+1)
}

// post makes one attempt to deliver (7).
func (h *Hub) post(ctx context.Context, s *subscription, c Content) error {
	h.mu.Lock()
	secret := s.Secret
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Callback, bytes.NewReader(c.Body))
	if err != nil {
		return &failure{text: "the callback is not a URL"}
	}
	req.Header.Set("Content-Type", c.Type)
	if c.Type != formType {
		hub := h.URL
		if s.External {
			hub = s.Callback
		}
		req.Header.Set("Link", Links(s.Topic, hub))
	}
	if secret != "" {
		req.Header.Set(signatureField, Sign(h.Method, secret, c.Body))
	}
	resp, err := h.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // so that the connection can be used again
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusGone:
		return &failure{text: s.who() + " answered 410", gone: true}
	default:
		return &failure{text: fmt.Sprintf("%s answered %d", s.who(), status), after: retryAfter(resp.Header, h.Now())}
	}
}

// do makes a request. A redirect is a failure (5.3.1), also if it was
// followed. The error does not show the URL, which may be secret, nor an
// address.
func (h *Hub) do(req *http.Request) (*http.Response, error) {
	asked := req.URL.String()
	req.Header.Set("User-Agent", agent)
	resp, err := h.Doer.Do(req)
	if err != nil {
		return nil, plainError(err, h.Timeout)
	}
	if resp.Request != nil && resp.Request.URL.String() != asked {
		resp.Body.Close()
		return nil, &failure{text: "the callback redirects; the subscriber must name where it leads"}
	}
	return resp, nil
}

// A refusedError is that of a request that the Doer refused to make. What it
// says is for strangers.
type refusedError struct {
	public string
	cause  error // for who runs the hub
}

func (e *refusedError) Error() string { return e.public }

// plainError returns the error of a request without its URL.
func plainError(err error, limit time.Duration) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var public interface{ Public() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", limit)
	case errors.As(err, &public):
		return &refusedError{public.Public(), err}
	}
	return err
}

// retryAfter reads a Retry-After (RFC 9110, 10.2.3); 0 if it makes no sense.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(text); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
