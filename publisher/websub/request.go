package websub

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"cutie/queuefs/web"
)

// maxForm is the most octets of a request.
const maxForm = 16 << 10

// answered is an error with a status for the client, who sees its text.
type answered interface {
	error
	HTTPStatus() int
}

// refuse returns the answer to a refused request.
func refuse(status int, text string, args ...any) error { return web.Errorf(status, text, args...) }

// ServeHTTP answers requests to subscribe and unsubscribe (5.1). A request is on
// stable storage when the answer is 202; a Tick verifies it. If the Doer
// refuses the callback within Options.Verdict the answer is 403 with the reason.
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
		return refuse(http.StatusMethodNotAllowed, "this is a WebSub hub: POST hub.mode, hub.topic and hub.callback to it")
	}
	form, err := web.Form(w, r, maxForm)
	if err != nil {
		return err
	}
	s, asked, err := h.read(form)
	if err != nil {
		return err
	}
	// Permission comes first: other clients learn nothing about topics.
	if asked.Mode == subscribe && h.Permit != nil {
		if asked.By, err = h.Permit(w.Header(), r, s.Topic); err != nil {
			if errors.As(err, new(answered)) {
				return err
			}
			return refuse(http.StatusForbidden, "%v", err)
		}
	}
	if asked.Position, err = h.Source.Latest(s.Topic); err != nil && asked.Mode == subscribe {
		if errors.Is(err, ErrNoTopic) {
			return refuse(http.StatusNotFound, "hub.topic is none of this hub; the link with rel=self names the topic")
		}
		return fmt.Errorf("hub: topic %s: %w", s.Topic, err)
	}
	verdict, err := h.ask(s, asked)
	if err != nil {
		return err
	}
	if err := h.saved(h.sender.Save()); err != nil {
		return err
	}
	if err := verdict.wait(r.Context(), h.Verdict); err != nil {
		return refuse(http.StatusForbidden, "hub.callback: %v", err)
	}
	return nil
}

// read takes the parameters of a request (5.1).
func (h *Hub) read(form url.Values) (s *subscription, asked intent, err error) {
	s = new(subscription)
	bad := func(text string, args ...any) (*subscription, intent, error) {
		return nil, intent{}, refuse(http.StatusBadRequest, text, args...)
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
	s.Callback = form.Get("hub.callback")
	u, err := parseURL(s.Callback)
	if err != nil {
		return bad("hub.callback: %v", err)
	}
	if s.Host = u.Host; asked.Mode == unsubscribe {
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

// ask notes a request for a subscription. An existing one stays as it is until
// the request is verified.
func (h *Hub) ask(s *subscription, asked intent) (v *verdict, err error) {
	err = h.sender.Update(func() error {
		known := h.sender.Get(s.Key())
		if known == nil && asked.Mode == unsubscribe {
			return refuse(http.StatusNotFound, "there is no such subscription")
		}
		if known == nil || known.Asked == nil {
			if err := h.full(s.Topic, s.Host, known == nil); err != nil {
				return err
			}
		}
		if known == nil {
			h.sender.Put(s)
		} else if s = known; s.Asked != nil {
			// A second request neither makes the hub ask the callback more often
			// nor loses the content since the first.
			asked.Next, asked.Position = s.Asked.Next, cmp.Or(s.Asked.Position, asked.Position)
		}
		s.Asked = &asked
		if s.verdict == nil {
			s.verdict = &verdict{done: make(chan struct{})}
		}
		v = s.verdict
		return nil
	})
	return v, err
}

// full refuses a request above the limits. It is called within View.
func (h *Hub) full(topic, host string, fresh bool) error {
	all, ofTopic, ofHost, asked, askedOfHost := 0, 0, 0, 0, 0
	for s := range h.sender.All() {
		if s.External {
			continue
		}
		all++
		if s.Topic == topic {
			ofTopic++
		}
		if s.Host == host {
			ofHost++
		}
		if s.Asked != nil {
			asked++
			if s.Host == host {
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
