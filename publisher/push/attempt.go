package push

import (
	"bytes"
	"cmp"
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

// Limits of what a receiver may say.
const (
	maxAnswer     = 64 << 10       // bytes of a body
	maxRetryAfter = 24 * time.Hour // longest wait obeyed
)

// work gives a record its turn. A receiver is not to blame for the end of ctx.
func (s *Sender[R]) work(ctx context.Context, r R) {
	t := r.State()
	for range s.Turn {
		var life int
		s.View(func() { life = t.life })
		m, err := s.Next(ctx, r)
		if err != nil {
			s.View(func() { t.Next = s.Now().Add(s.Shortest) })
			return
		}
		if m == nil || ctx.Err() != nil {
			return
		}
		began := s.Now()
		if m.Body != nil {
			err = s.post(ctx, m)
		}
		if ctx.Err() != nil {
			return
		}
		s.conclude(t, life, m, err, s.Now().Sub(began))
		s.Done(r, m, err)
		if err != nil || !m.More {
			return
		}
	}
}

// conclude notes the end of a message. A failure from before a Reset does not
// count.
func (s *Sender[R]) conclude(t *Target, life int, m *Message, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	now := s.Now()
	if m.Body != nil {
		t.Proven = err == nil && took < s.Timeout/4
	}
	var f *Failure
	switch {
	case err == nil:
		t.Position = m.Upto
		t.Failing, t.Failures, t.Next, t.LastError = time.Time{}, 0, time.Time{}, ""
		if m.Body != nil && !m.More && s.Gather > 0 {
			t.Next = now.Add(s.Gather)
		}
	case t.life != life:
	case errors.As(err, &f) && f.Gone:
		t.Stopped, t.LastError = true, err.Error()
	default:
		if t.Failures++; t.Failing.IsZero() {
			t.Failing = now
		}
		wait := s.Pause(t.Failures)
		if f != nil {
			wait = max(wait, f.After)
		}
		t.Next, t.LastError = now.Add(wait), err.Error()
	}
}

// Pause returns the time between a number of failures and the next attempt. A
// part is left to chance, because many targets may be at one receiver.
func (s *Sender[R]) Pause(failures int) time.Duration {
	d := s.Longest
	if n := failures - 1; n < 40 && s.Shortest<<n < s.Longest && s.Shortest<<n > 0 {
		d = s.Shortest << n
	}
	return d/2 + rand.N(d/2+1)
}

// A Failure is an attempt with an answer other than 2xx.
type Failure struct {
	Text  string
	After time.Duration // from Retry-After; 0: none
	Gone  bool          // the answer was 410
}

func (f *Failure) Error() string { return f.Text }

// post makes one attempt.
func (s *Sender[R]) post(ctx context.Context, m *Message) error {
	req, err := http.NewRequest(http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return &Failure{Text: "the URL is not one"} // and the error would show it
	}
	req.Header = m.Header.Clone()
	resp, _, err := s.Exchange(ctx, req)
	if err != nil {
		return err
	}
	f := &Failure{Text: fmt.Sprintf("%s answered %d", cmp.Or(m.To, "the receiver"), resp.StatusCode)}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone && !m.Keep:
		f.Gone = true
	default:
		f.After = retryAfter(resp.Header.Get("Retry-After"), s.Now())
	}
	return f
}

// Exchange makes a request and returns the answer and the beginning of its
// body. Errors do not show the URL, because its query may be secret.
func (s *Sender[R]) Exchange(ctx context.Context, req *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	asked := req.URL.String()
	req.Header.Set("User-Agent", s.Agent)
	resp, err := s.Doer.Do(req.WithContext(ctx))
	if err != nil {
		return nil, nil, Explain(err, s.Timeout)
	}
	defer resp.Body.Close()
	if last := resp.Request; last != nil && last.URL.String() != asked {
		if !s.Follow {
			return nil, nil, &Failure{Text: "the URL redirects; it must name where that leads"}
		}
		if last.Method != req.Method {
			return nil, nil, &Failure{Text: "the URL redirects as to a page; a redirect must be 307 or 308"}
		}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // so that the connection can be used again
	if req.Method == http.MethodPost {
		err = nil // the status is the answer
	}
	return resp, body, err
}

// Explain returns the error of a request without its URL.
func Explain(err error, limit time.Duration) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", limit)
	}
	return err
}

// retryAfter reads a Retry-After (RFC 9110, 10.2.3); 0 if it makes no sense.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(text); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
