package hub

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/outbound"
)

const (
	turnOfTopic   = 16             // messages of a subscription before others have a turn
	turnOfQueue   = 256            // likewise, of a callback: a message is one change
	shortest      = time.Second    // pause after the first failure
	longest       = time.Hour      // longest pause
	maxAnswer     = 64 << 10       // bytes of an answer that are read
	maxRetryAfter = 24 * time.Hour // longest wait that is obeyed
)

// A message is the next delivery of a subscription.
type message struct {
	url    string
	header http.Header
	body   []byte    // nil: no request, the cursor moves on
	upto   string    // the cursor after it
	more   bool      // there is more already
	gap    time.Time // it names what was lost up to then; zero: it does not
}

// load is how many requests are in progress.
type load struct {
	all, unproven int
	hosts         map[string]int
}

func (l *load) add(host string, proven bool, n int) {
	l.all += n
	if !proven {
		l.unproven += n
	}
	if l.hosts[host] += n; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

// due reports whether a subscription has something to do; h.mu is held. [Hub.Tick] has looked
// at the topics before.
func (h *Hub) due(s *subscription, now time.Time) bool {
	if s.Kind == ofQueue {
		return s.url != "" && !s.Stopped && s.waiting() > 0 && !now.Before(s.Next)
	}
	s.latest, s.gone = h.look.latest[s.Topic], h.look.gone[s.Topic]
	switch {
	case h.URL == "" && s.Kind == subscriber: // until the hub is there again
		return false
	case s.gone, s.Asked != nil && !now.Before(s.Asked.Next):
		return true
	}
	return s.active(now) && s.latest != "" && s.latest != s.seen && !now.Before(s.Next)
}

// start gives due subscriptions a turn, the longest waiting first, while there are free
// requests.
func (h *Hub) start(ctx context.Context) {
	now := h.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || ctx.Err() != nil {
		return
	}
	var due []*subscription
	for _, s := range h.subs {
		if s.kept && !s.busy && h.due(s, now) {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b *subscription) int {
		if c := a.turn.Compare(b.turn); c != 0 {
			return c
		}
		return strings.Compare(a.key(), b.key())
	})
	for _, s := range due {
		l, ofHost := &h.running, h.PerHost
		if s.Kind == ofQueue {
			ofHost *= 4
		}
		if l.all >= h.Parallel || l.hosts[s.host] >= ofHost || !s.proven && l.unproven >= max(1, h.Parallel/2) {
			continue
		}
		s.turn, s.busy = now, true
		host, proven := s.host, s.proven
		l.add(host, proven, 1)
		h.workers.Go(func() {
			h.work(ctx, s)
			h.mu.Lock()
			defer h.mu.Unlock()
			s.busy = false
			l.add(host, proven, -1)
		})
	}
}

// work gives a subscription its turn. A receiver is not to blame for the end of ctx.
func (h *Hub) work(ctx context.Context, s *subscription) {
	next, turn := h.nextOfTopic, turnOfTopic
	if s.Kind == ofQueue {
		next, turn = h.nextOfQueue, turnOfQueue
	}
	for range turn {
		h.mu.Lock()
		life := s.life
		h.mu.Unlock()
		m, err := next(ctx, s)
		if err != nil {
			h.mu.Lock()
			s.Next = h.Now().Add(shortest)
			h.mu.Unlock()
			return
		}
		if m == nil || ctx.Err() != nil {
			return
		}
		began := h.Now()
		if m.body != nil {
			err = h.post(ctx, s, m)
		}
		if ctx.Err() != nil {
			return
		}
		h.conclude(s, life, m, err, h.Now().Sub(began))
		if err != nil || !m.more {
			return
		}
	}
}

// conclude notes the end of a message. A failure from before a reset does not count.
func (h *Hub) conclude(s *subscription, life int, m *message, err error, took time.Duration) {
	h.mu.Lock()
	h.mark(s)
	now, over := h.Now(), false
	if m.body != nil {
		s.proven = err == nil && took < h.timeout(s)/4
	}
	f, _ := errors.AsType[*failure](err)
	switch {
	case err == nil:
		h.advance(s, m, now)
	case s.life != life:
	case f != nil && f.gone && s.Kind == ofQueue:
		s.Stopped, s.lastError = true, err.Error()
	case f != nil && f.gone && s.Kind == subscriber:
		h.forget(s)
	default:
		s.pending = nil // it may be long until they are needed
		if s.Failures++; s.Failing.IsZero() {
			s.Failing = now
		}
		wait := pause(s.Failures)
		if f != nil {
			wait = max(wait, f.after)
		}
		s.Next, s.lastError = now.Add(wait), err.Error()
		if over = s.Kind == subscriber && now.Sub(s.Failing) >= h.GiveUp; over {
			s.Expires = time.Time{} // the next Tick drops it, unless it is asked for anew
		}
	}
	waiting, stopped := s.waiting(), s.Stopped
	h.mu.Unlock()
	switch {
	case over:
		h.report(fmt.Errorf("hub: a subscriber at %s to %s has failed for %v and is dropped, at last with: %w",
			publicURL(s.URL), s.Topic, h.GiveUp, err))
	case stopped && err != nil:
		h.report(fmt.Errorf("hub: callback of queue %s: the receiver answered 410: %d waiting events and all later ones are not "+
			"delivered until the queue has another callback", s.Topic, waiting))
	}
	if s.Kind != subscriber && !(stopped && err != nil) {
		h.noteReceiver(s, err)
	}
}

// advance moves the cursor; h.mu is held.
func (h *Hub) advance(s *subscription, m *message, now time.Time) {
	s.Position = m.upto
	s.Failing, s.Failures, s.Next, s.lastError = time.Time{}, 0, time.Time{}, ""
	if m.body != nil {
		s.delivered++
	}
	if !m.gap.IsZero() {
		s.GapTo = m.gap
		s.missed++
	}
	if s.Kind == ofQueue {
		s.cursor = parseEvent(s.Position)
	} else if !m.more {
		s.seen = s.latest
		if m.body != nil {
			s.Next = now.Add(h.Gather)
		}
	}
}

// noteReceiver tells when deliveries to a receiver that the operator has named begin to fail,
// and when all of them succeed again.
func (h *Hub) noteReceiver(s *subscription, err error) {
	receiver, key := "callback of queue "+s.Topic, s.key()
	if s.Kind == otherHub {
		receiver, key = "hub "+publicURL(s.URL), s.URL
	}
	h.mu.Lock()
	known, fails := h.failing[key], err != nil
	if known && !fails && s.Kind == otherHub { // seldom, and there may be many subscriptions
		for _, other := range h.subs {
			fails = fails || other.Kind == otherHub && other.URL == s.URL && other.Failures > 0
		}
	}
	if fails {
		h.failing[key] = true
	} else {
		delete(h.failing, key)
	}
	h.mu.Unlock()
	if known != fails && h.Turned != nil {
		h.Turned(receiver, err)
	}
}

// pause returns the time between a number of failures and the next attempt. A part is left to
// chance, because many subscriptions may be at one receiver.
func pause(failures int) time.Duration {
	d := longest
	if n := failures - 1; n < 12 {
		d = min(d, shortest<<n)
	}
	return d/2 + rand.N(d/2+1)
}

// A failure is an attempt with an answer other than 2xx.
type failure struct {
	text  string
	after time.Duration // from Retry-After; 0: none
	gone  bool          // the answer was 410
}

func (f *failure) Error() string { return f.text }

// post makes one attempt.
func (h *Hub) post(ctx context.Context, s *subscription, m *message) error {
	req, err := http.NewRequest(http.MethodPost, m.url, bytes.NewReader(m.body))
	if err != nil {
		return &failure{text: "the URL is not one"} // the error would show it
	}
	req.Header = m.header.Clone()
	resp, _, err := h.exchange(ctx, s, req)
	if err != nil {
		return err
	}
	receiver := map[kind]string{subscriber: "subscriber", otherHub: "hub", ofQueue: "receiver"}[s.Kind]
	f := &failure{text: fmt.Sprintf("the %s answered %d", receiver, resp.StatusCode)}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone:
		f.gone = true
	default:
		f.after = retryAfter(resp.Header.Get("Retry-After"), h.Now())
	}
	return f
}

// timeout is that of a request to a subscription.
func (h *Hub) timeout(s *subscription) time.Duration {
	if s.Kind == ofQueue {
		return 3 * h.Timeout
	}
	return h.Timeout
}

// exchange makes a request and returns the answer and the beginning of its body. Errors do not
// show the URL, because it may be secret. Callbacks of queues may redirect.
func (h *Hub) exchange(ctx context.Context, s *subscription, req *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout(s))
	defer cancel()
	req.Header.Set("User-Agent", agent)
	client := h.plain
	if s.Kind == ofQueue {
		client = h.Client.HTTP()
	}
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		if text := outbound.Public(err); text != "" && s.Kind == subscriber {
			return nil, nil, refused(err, text)
		}
		return nil, nil, explain(err, h.timeout(s))
	}
	defer resp.Body.Close()
	if resp.Request != nil && resp.Request.Method != req.Method {
		return nil, nil, &failure{text: "the URL redirects as to a page; a redirect must be 307 or 308"}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // so that the connection can be used again
	if req.Method == http.MethodPost {
		err = nil // the status is the answer
	}
	return resp, body, err
}

// explain returns the error of a request without its URL.
func explain(err error, limit time.Duration) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", limit)
	}
	return err
}

// A refusedError is a request to a subscriber that the client refused to make, in words for
// strangers.
type refusedError struct{ error }

// refused adds the cure, with the same text whether the host has a private address or none.
func refused(err error, text string) error {
	if r, ok := errors.AsType[*outbound.RefusedError](err); !ok || r.Addr.IsValid() { // else it is about the URL alone
		text += "; who runs this hub can allow it with --allow-fetch"
	}
	return &refusedError{errors.New(text)}
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

// methods are the ways to sign a body (8). SHA-1 is for receivers of PubSubHubbub, which know
// no other.
var methods = map[string]func() hash.Hash{
	"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// digest returns the hexadecimal HMAC of a text that is given in parts.
func digest(method, secret string, parts ...[]byte) string {
	mac := hmac.New(methods[method], []byte(secret))
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

var errSignature = errors.New("signature does not match")

// Verify compares a signature as in X-Hub-Signature, by any method of WebSub, with a body.
func Verify(signature, secret string, body []byte) error {
	method, hex, _ := strings.Cut(signature, "=")
	if methods[method] == nil {
		return fmt.Errorf("%w: it begins with none of sha1=, sha256=, sha384=, sha512=", errSignature)
	}
	if !hmac.Equal([]byte(strings.ToLower(hex)), []byte(digest(method, secret, body))) {
		return errSignature
	}
	return nil
}
