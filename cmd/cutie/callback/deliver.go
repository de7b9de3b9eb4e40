package callback

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// turnLength is how many changes a feed delivers before others have a turn.
const turnLength = 256

// Limits of what a receiver may say.
const (
	maxAnswer     = 64 << 10       // octets that are read of a body
	maxRetryAfter = 24 * time.Hour // that is obeyed
)

// deliver gives a feed its turn. What it does counts when the cursor is
// written; until then it is done again after a crash.
func (s *Sender) deliver(ctx context.Context, f *feed) {
	for range turnLength {
		f.mu.Lock()
		c, some := f.waiting.first()
		target, ready := f.url, some && f.url != "" && !f.stopped && !s.Now().Before(f.next)
		f.mu.Unlock()
		if !ready || ctx.Err() != nil {
			return
		}
		err := s.post(ctx, f.q, target, c)
		if ctx.Err() != nil {
			return // it was not the receiver who failed
		}
		if errors.Is(err, queuefs.ErrClosed) || errors.Is(err, queuefs.ErrFailed) {
			return
		}
		f.outcome(c, target, err)
	}
}

// A refusal is an attempt that failed.
type refusal struct {
	text  string
	after time.Duration // no attempt before; 0: as it seems right
	gone  bool          // nor ever
	lost  bool          // the job cannot be read: nothing to attempt again
}

func (r *refusal) Error() string { return r.text }

// outcome draws the conclusions from an attempt.
func (f *feed) outcome(c change, target string, err error) {
	f.mu.Lock()
	turned := false
	switch r := (*refusal)(nil); {
	case err == nil:
		turned = f.failures > 0
		f.finish(c)
		f.delivered++
		f.failures, f.failing, f.next, f.lastErr = 0, time.Time{}, time.Time{}, ""
		f.settle()
	case target != f.url: // another callback has taken its place
		err = nil
	default:
		errors.As(err, &r)
		before := f.failures
		err = f.failed(c, r, err)
		turned = f.failures > 0 && before == 0 || f.stopped
	}
	f.mu.Unlock()
	if turned && f.s.Turned != nil {
		f.s.Turned(f.q.ID(), err)
	}
}

// failed notes an attempt that failed, and returns why; f.mu is held.
func (f *feed) failed(c change, r *refusal, err error) error {
	now := f.s.Now()
	f.lastErr = err.Error()
	switch {
	case r != nil && r.lost:
		f.next = now.Add(f.s.Shortest) // if it cannot be written down either
		if e := f.kill([]change{c}, r.text); e != nil {
			return errors.Join(err, e)
		}
		f.next = time.Time{}
	case r != nil && r.gone:
		f.s.report(f.q.ID(), "the receiver answered 410: %d changes are not delivered, and none that come, until the queue has another callback", f.waiting.len())
		f.stopped = true
		f.skip()
	default:
		if f.failures++; f.failures == 1 || f.failing.IsZero() {
			f.failing = now
		}
		wait := f.s.pause(f.failures)
		if r != nil {
			wait = max(wait, r.after)
		}
		f.next = now.Add(wait)
		if limit := now.Add(-f.s.GiveUp); !f.failing.After(limit) {
			old := slices.DeleteFunc(f.waiting.all(), func(c change) bool { return c.at.After(limit) })
			err = errors.Join(err, f.kill(old, "the receiver has failed for "+f.s.GiveUp.String()+", at last with: "+f.lastErr))
		}
	}
	return err
}

// pause returns how long to wait after so many failures, with a part left to
// chance, so that a receiver that comes back is not met by all at once.
func (s *Sender) pause(failures int) time.Duration {
	d := s.Longest
	if n := failures - 1; n < 40 && s.Shortest<<n < s.Longest && s.Shortest<<n > 0 {
		d = s.Shortest << n
	}
	return d/2 + rand.N(d/2+1)
}

// post makes one attempt. The error says what is wrong without the query of
// the URL, which may hold a secret.
func (s *Sender) post(ctx context.Context, q *queuefs.Queue, target string, c change) error {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &refusal{text: "the callback is not an http or https URL"}
	}
	body, err := s.body(q, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return &refusal{text: "the callback is not an http or https URL"}
	}
	req.Header.Set("User-Agent", queuefs.Scheme)
	req.Header.Set("Content-Type", state.JSON.MediaType())
	req.Header.Set("Cutie-Queue", q.ID())
	req.Header.Set("Cutie-Event", c.kind.String())
	req.Header.Set("Cutie-Sequence", strconv.FormatUint(uint64(c.seq), 10))
	req.Header.Set("Cutie-Delivery", s.deliveryID(q, c))
	if sign := s.secrets.sign(q.ID(), s.Now(), body); sign != "" {
		req.Header.Set("Cutie-Signature", sign)
	}
	resp, err := s.Doer.Do(req)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", s.Timeout)
		}
		return &refusal{text: err.Error()}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // so that the connection can be used again
	return s.judge(resp)
}

// judge says what an answer means.
func (s *Sender) judge(resp *http.Response) error {
	switch status := resp.StatusCode; {
	case resp.Request != nil && resp.Request.Method != http.MethodPost:
		return &refusal{text: "the receiver redirected as to a page; a redirect must be 307 or 308"}
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusGone:
		return &refusal{text: "the receiver answered 410", gone: true}
	default:
		return &refusal{text: fmt.Sprintf("the receiver answered %d", status), after: s.retryAfter(resp.Header.Get("Retry-After"))}
	}
}

// retryAfter reads a Retry-After (RFC 9110, 10.2.3); 0 if it makes no sense.
func (s *Sender) retryAfter(text string) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(text); err == nil {
		d = t.Sub(s.Now())
	}
	return min(max(d, 0), maxRetryAfter)
}

// body returns the state of a job as it is now, or what is told of a phase.
func (s *Sender) body(q *queuefs.Queue, c change) ([]byte, error) {
	base := state.NewBase(s.svc.Info().BaseURI)
	if c.kind == queuefs.Phase {
		return phaseBody(base, q.ID(), c)
	}
	j, err := q.Job(c.about.job)
	gone := errors.Is(err, queuefs.ErrNoJob)
	switch {
	case gone:
		j = queuefs.Job{ID: c.about.job, Queue: q.ID(), Seq: c.seq}
	case errors.Is(err, queuefs.ErrClosed), errors.Is(err, queuefs.ErrFailed):
		return nil, err
	case err != nil:
		return nil, &refusal{text: err.Error(), lost: true}
	}
	d := state.OfJob(base, &j)
	if gone {
		d.Properties = slices.DeleteFunc(d.Properties, func(p state.Property) bool {
			return !slices.Contains([]string{"identifier", "queueState", "sequence"}, p.Name)
		})
	}
	return state.JSON.Append(nil, &d), nil
}

// deliveryID tells a change from all others, of other homes too.
func (s *Sender) deliveryID(q *queuefs.Queue, c change) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", s.svc.Info().BaseURI, q.ID(), c.seq))
	return hex.EncodeToString(sum[:16])
}

// siteOf returns what tells one callback from another and gives none away; ""
// for none.
func siteOf(target string) string {
	if target == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(target))
	return hex.EncodeToString(sum[:8])
}
