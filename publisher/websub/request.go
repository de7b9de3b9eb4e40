package websub

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxForm is the most octets of a request.
const maxForm = 16 << 10

// A refusal is the answer to a request that is not accepted; the text is told
// to who asked.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, text string, args ...any) error {
	return &refusal{status, fmt.Sprintf(text, args...)}
}

// ServeHTTP answers those who subscribe and unsubscribe (5.1). A request is
// on stable storage when it is answered 202; a Tick verifies it. If the Doer
// refuses the callback within Options.Verdict the answer is 403 with the reason.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.accept(w, r)
	var no *refusal
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case !errors.As(err, &no):
		h.report(err)
		no = &refusal{http.StatusServiceUnavailable, "the request cannot be kept now, try again later"}
	}
	switch no.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "60")
	}
	http.Error(w, no.text, no.status)
}

func (h *Hub) accept(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "this is a WebSub hub: POST hub.mode, hub.topic and hub.callback to it")
	}
	if t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t != formType {
		return refuse(http.StatusUnsupportedMediaType, "the body must be %s", formType)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
			return refuse(http.StatusRequestEntityTooLarge, "the body is longer than %d octets", maxForm)
		}
		return refuse(http.StatusBadRequest, "the body is not a form: %v", err)
	}
	k, asked, err := h.read(r.PostForm)
	if err != nil {
		return err
	}
	// First of all, so that nobody learns which topics there are who may not.
	if asked.Mode == subscribe && h.Permit != nil {
		if asked.By, err = h.Permit(w.Header(), r, k.topic); err != nil {
			status := http.StatusForbidden
			if known, ok := errors.AsType[interface {
				error
				HTTPStatus() int
			}](err); ok {
				status = known.HTTPStatus()
			}
			return refuse(status, "%v", err)
		}
	}
	if asked.Position, err = h.Source.Latest(k.topic); err != nil && asked.Mode == subscribe {
		if errors.Is(err, ErrNoTopic) {
			return refuse(http.StatusNotFound, "hub.topic is none of this hub; the link with rel=self names the topic")
		}
		return fmt.Errorf("hub: topic %s: %w", k.topic, err)
	}
	verdict, err := h.ask(k, asked)
	if err != nil {
		return err
	}
	if err := h.save(); err != nil {
		return err
	}
	if err := verdict.wait(r.Context(), h.Verdict); err != nil {
		return refuse(http.StatusForbidden, "hub.callback: %v", err)
	}
	return nil
}

// read takes the parameters of a request (5.1).
func (h *Hub) read(form url.Values) (k key, asked intent, err error) {
	bad := func(text string, args ...any) (key, intent, error) {
		return key{}, intent{}, refuse(http.StatusBadRequest, text, args...)
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
	if k.topic = form.Get("hub.topic"); k.topic == "" || len(k.topic) > maxURL || !utf8.ValidString(k.topic) {
		return bad("hub.topic is not a URL")
	}
	k.callback = form.Get("hub.callback")
	if _, err := parseURL(k.callback); err != nil {
		return bad("hub.callback: %v", err)
	}
	if asked.Mode == unsubscribe {
		return k, asked, nil
	}
	if asked.Secret = form.Get("hub.secret"); len(asked.Secret) > maxSecret || !utf8.ValidString(asked.Secret) {
		return bad("hub.secret is longer than %d octets, or not UTF-8", maxSecret)
	}
	asked.Lease = h.Lease
	if text := form.Get("hub.lease_seconds"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			return bad("hub.lease_seconds is not a number of seconds from 1 to 4294967295")
		}
		asked.Lease = time.Duration(n) * time.Second
	}
	asked.Lease = min(max(asked.Lease, h.MinLease), h.MaxLease)
	return k, asked, nil
}

// ask notes a request. What there is stays as it is until it is verified.
func (h *Hub) ask(k key, asked intent) (*verdict, error) {
	u, err := parseURL(k.callback)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, refuse(http.StatusServiceUnavailable, "the hub is stopping")
	}
	s := h.subs[k]
	if s == nil && asked.Mode == unsubscribe {
		return nil, refuse(http.StatusNotFound, "there is no such subscription")
	}
	if s == nil || s.Asked == nil {
		if err := h.full(k.topic, u.Host, s == nil); err != nil {
			return nil, err
		}
	}
	if s == nil {
		s = &subscription{Topic: k.topic, Callback: k.callback, host: u.Host}
		h.add(s)
	} else if s.Asked != nil {
		// Asking again neither makes the hub ask back more often nor loses
		// what came since the first time.
		asked.Next, asked.Position = s.Asked.Next, cmp.Or(s.Asked.Position, asked.Position)
	}
	s.Asked = &asked
	if s.verdict == nil {
		s.verdict = &verdict{done: make(chan struct{})}
	}
	h.version++
	return s.verdict, nil
}

// full refuses what there is no room for; h.mu is held.
func (h *Hub) full(topic, host string, fresh bool) error {
	all, ofTopic, ofHost, asked, askedOfHost := 0, 0, 0, 0, 0
	for _, s := range h.subs {
		if s.External {
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
		return refuse(http.StatusTooManyRequests, "%d requests for callbacks of this host wait to be verified", askedOfHost)
	case asked >= h.MostRequests:
		return refuse(http.StatusServiceUnavailable, "%d requests wait to be verified", asked)
	case fresh && all >= h.Most:
		return refuse(http.StatusServiceUnavailable, "the hub has %d subscriptions and takes no more", all)
	case fresh && ofTopic >= h.MostOfTopic:
		return refuse(http.StatusServiceUnavailable, "the topic has %d subscriptions and takes no more", ofTopic)
	case fresh && ofHost >= h.MostOfHost:
		return refuse(http.StatusTooManyRequests, "there are %d subscriptions with callbacks of this host, and no more are taken", ofHost)
	}
	return nil
}
