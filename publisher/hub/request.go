package hub

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
	"unicode/utf8"

	"cutie/queuefs/web"
)

// Values of hub.mode.
const (
	subscribe   = "subscribe"
	unsubscribe = "unsubscribe"
	denied      = "denied"
	publish     = "publish"
)

// Limits of requests.
const (
	day          = 24 * time.Hour
	defaultLease = 10 * day
	minLease     = 5 * time.Minute
	maxLease     = 30 * day
	maxForm      = 16 << 10 // bytes of a request
	maxSecret    = 199      // bytes of hub.secret (5.1)
	attempts     = 3        // of a failing callback to confirm
)

var zeroTime time.Time

// answered is an error with a status for the client, who sees its text.
type answered interface {
	error
	HTTPStatus() int
}

// ServeHTTP answers requests to subscribe and unsubscribe (5.1). A request is on stable storage
// when the answer is 202; a Tick verifies it. If the client refuses to reach the callback within
// Options.Verdict the answer is 403 with the reason.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.accept(w, r)
	var no answered
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case !errors.As(err, &no):
		h.report(err)
		no = &web.Error{Status: http.StatusServiceUnavailable, Message: "the request cannot be kept now, try again later"}
	}
	switch no.HTTPStatus() {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "60")
	}
	http.Error(w, no.Error(), no.HTTPStatus())
}

func (h *Hub) accept(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return web.Errorf(http.StatusMethodNotAllowed, "this is a WebSub hub: POST hub.mode, hub.topic and hub.callback to it")
	}
	form, err := web.Form(w, r, maxForm)
	if err != nil {
		return err
	}
	s, asked, err := read(form)
	if err != nil {
		return err
	}
	// Permission comes first: other clients learn nothing about topics.
	if asked.Mode == subscribe && h.Permit != nil {
		if asked.By, err = h.Permit(w.Header(), r, s.Topic); err != nil {
			if errors.As(err, new(answered)) {
				return err
			}
			return web.Errorf(http.StatusForbidden, "%v", err)
		}
	}
	if asked.Position, err = h.Source.Latest(s.Topic); err != nil && asked.Mode == subscribe {
		if errors.Is(err, ErrNoTopic) {
			return web.Errorf(http.StatusNotFound, "hub.topic is none of this hub; the link with rel=self names the topic")
		}
		return fmt.Errorf("hub: topic %s: %w", s.Topic, err)
	}
	verdict, err := h.ask(s, asked)
	if err != nil {
		return err
	}
	if err := h.save(); err != nil {
		return err
	}
	if err := verdict.wait(r.Context(), h.Verdict); err != nil {
		return web.Errorf(http.StatusForbidden, "hub.callback: %v", err)
	}
	return nil
}

// read takes the parameters of a request (5.1).
func read(form url.Values) (s *subscription, asked intent, err error) {
	s = &subscription{Kind: subscriber}
	bad := func(text string, args ...any) (*subscription, intent, error) {
		return nil, intent{}, web.Errorf(http.StatusBadRequest, text, args...)
	}
	for _, name := range []string{"hub.mode", "hub.topic", "hub.callback", "hub.secret", "hub.lease_seconds"} {
		if len(form[name]) > 1 {
			return bad("%s is there %d times", name, len(form[name]))
		}
	}
	switch asked.Mode = form.Get("hub.mode"); asked.Mode {
	case subscribe, unsubscribe:
	case publish:
		return bad("this hub distributes topics of its own site alone")
	default:
		return bad("hub.mode is neither subscribe nor unsubscribe")
	}
	if s.Topic = form.Get("hub.topic"); s.Topic == "" || len(s.Topic) > maxURL || !utf8.ValidString(s.Topic) {
		return bad("hub.topic is not a URL")
	}
	s.URL = form.Get("hub.callback")
	u, err := parseURL(s.URL)
	if err != nil {
		return bad("hub.callback: %v", err)
	}
	if s.host = u.Host; asked.Mode == unsubscribe {
		return s, asked, nil
	}
	if asked.Secret = form.Get("hub.secret"); len(asked.Secret) > maxSecret || !utf8.ValidString(asked.Secret) {
		return bad("hub.secret is longer than %d octets, or not UTF-8", maxSecret)
	}
	asked.Lease = defaultLease
	if text := form.Get("hub.lease_seconds"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			return bad("hub.lease_seconds is not a number of seconds from 1 to 4294967295")
		}
		asked.Lease = time.Duration(n) * time.Second
	}
	asked.Lease = min(max(asked.Lease, minLease), maxLease)
	return s, asked, nil
}

// ask notes a request for a subscription. An existing one stays as it is until the request is
// verified.
func (h *Hub) ask(s *subscription, asked intent) (*verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.subs[s.key()]
	if known == nil && asked.Mode == unsubscribe {
		return nil, web.Errorf(http.StatusNotFound, "there is no such subscription")
	}
	if known == nil || known.Asked == nil {
		if err := h.full(s.Topic, s.host, known == nil); err != nil {
			return nil, err
		}
	}
	if known == nil {
		h.put(s)
	} else if s = known; s.Asked != nil {
		// A second request neither makes the hub ask the callback more often nor loses the
		// content since the first.
		asked.Next, asked.Position = s.Asked.Next, cmp.Or(s.Asked.Position, asked.Position)
	}
	h.mark(s)
	s.Asked = &asked
	if s.verdict == nil {
		s.verdict = &verdict{done: make(chan struct{})}
	}
	return s.verdict, nil
}

// full refuses a request above the limits; h.mu is held.
func (h *Hub) full(topic, host string, fresh bool) error {
	all, ofTopic, ofHost, asked, askedOfHost := 0, 0, 0, 0, 0
	for _, s := range h.subs {
		if s.Kind != subscriber {
			continue
		}
		all++
		if s.Topic == topic {
			ofTopic++
		}
		if s.host == host {
			ofHost++
		}
		if s.Asked != nil {
			asked++
			if s.host == host {
				askedOfHost++
			}
		}
	}
	switch {
	case askedOfHost >= max(1, h.MostRequests/20):
		return web.Errorf(http.StatusTooManyRequests, "%d requests for callbacks of this host wait to be verified", askedOfHost)
	case asked >= h.MostRequests:
		return web.Errorf(http.StatusServiceUnavailable, "%d requests wait to be verified", asked)
	case fresh && all >= h.Most:
		return web.Errorf(http.StatusServiceUnavailable, "the hub has %d subscriptions and takes no more", all)
	case fresh && ofTopic >= h.MostOfTopic:
		return web.Errorf(http.StatusServiceUnavailable, "the topic has %d subscriptions and takes no more", ofTopic)
	case fresh && ofHost >= h.MostOfHost:
		return web.Errorf(http.StatusTooManyRequests, "there are %d subscriptions with callbacks of this host, and no more are taken", ofHost)
	}
	return nil
}

// errDisagrees is the error of a callback with another intent.
var errDisagrees = errors.New("the callback does not confirm")

// verify asks a subscriber to confirm a request (5.3) and carries it out.
func (h *Hub) verify(ctx context.Context, s *subscription, asked intent) {
	err := h.challenge(h.traced(ctx, s), s, asked)
	refused, no := errors.AsType[*refusedError](err)
	if no {
		h.settle(s, refused)
	}
	h.settle(s, nil)
	if ctx.Err() != nil {
		return // the subscriber is not to blame
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark(s)
	now := h.Now()
	if s.Asked.same(asked) { // else another request has come meanwhile
		s.Asked = nil
	}
	switch {
	case err == nil && asked.Mode == unsubscribe:
		if s.Expires = zeroTime; s.Asked == nil {
			h.drop(s)
		}
	case err == nil:
		s.Position = cmp.Or(s.Position, asked.Position)
		s.Secret, s.By, s.Expires = asked.Secret, asked.By, now.Add(asked.Lease)
		s.reset()
	case s.Asked != nil:
	case errors.Is(err, errDisagrees) || no || asked.Attempts+1 >= attempts:
		s.lastError = err.Error()
		if !s.active(now) {
			h.drop(s)
		}
	default:
		asked.Attempts++
		asked.Next = now.Add(pause(asked.Attempts))
		s.Asked, s.lastError = &asked, err.Error()
	}
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
	status, body, err := h.query(ctx, s, args)
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

// query makes a GET of a callback with arguments after its own.
func (h *Hub) query(ctx context.Context, s *subscription, args url.Values) (status int, body string, err error) {
	u, err := parseURL(s.URL)
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
	resp, text, err := h.exchange(ctx, s, req)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, string(text), nil
}

// A verdict tells a waiting client of the hub whether its callback is refused. There is no
// other way to tell it.
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
func (h *Hub) settle(s *subscription, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.verdict != nil {
		s.verdict.err = err
		close(s.verdict.done)
		s.verdict = nil
	}
}

// traced returns a context to settle the verdict when there is a connection. A client with one
// thread for its requests and its callback would otherwise wait for itself.
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
