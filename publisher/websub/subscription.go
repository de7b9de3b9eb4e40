package websub

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cutie/publisher/push"
)

// A subscription is one as it stands in the file, and its state in memory. The
// lock of the hub's sender guards it.
type subscription struct {
	Topic    string `json:"topic"`
	Callback string `json:"callback"`
	External bool   `json:"external,omitempty"`
	Secret   string `json:"secret,omitempty"`
	By       string `json:"by,omitempty"` // the subscriber, as Permit says; "" if unknown
	push.Target
	Expires time.Time `json:"expires,omitzero"` // zero: not verified, or never
	Asked   *intent   `json:"asked,omitempty"`  // to be verified

	latest  string   // position of the topic when the turn began
	gone    bool     // the topic was gone then
	seen    string   // latest position with nothing left to say
	verdict *verdict // a request waits for it; nil: none does
}

// An intent is an accepted request before its verification.
type intent struct {
	Mode     string        `json:"mode"`
	Lease    time.Duration `json:"lease,omitzero"`
	Secret   string        `json:"secret,omitempty"`
	By       string        `json:"by,omitempty"`
	Position string        `json:"position,omitempty"` // when it came
	Attempts int           `json:"attempts,omitzero"`
	Next     time.Time     `json:"next,omitzero"`
}

// keyOf names a subscription (5.1). External hubs have keys of another kind: no
// subscriber can replace them. A callback has no line feed.
func keyOf(topic, callback string, external bool) string {
	if external {
		callback = "\n" + callback
	}
	return callback + "\n" + topic
}

// Key implements [push.Record].
func (s *subscription) Key() string { return keyOf(s.Topic, s.Callback, s.External) }

// active reports whether the subscription gets content.
func (s *subscription) active(now time.Time) bool { return s.External || s.Expires.After(now) }

// to names the receiver in errors.
func (s *subscription) to() string {
	if s.External {
		return "the hub"
	}
	return "the subscriber"
}

// A State is the public state of a subscription.
type State struct {
	Topic     string
	Host      string    // of the callback; the rest is secret
	Verified  bool      // it gets content
	Signed    bool      // with a secret
	External  bool      // of an external hub
	Position  string    // delivered up to there, in words of the Source; "" before the first
	Latest    string    // what there is of the topic, when the hub looked last
	Expires   time.Time // zero: not verified, or never
	Failing   time.Time // start of the present failures; zero if the last attempt succeeded
	Failures  int       // attempts since then
	Next      time.Time // no attempt before
	LastError string    // of the last failure
}

// States returns the states of all subscriptions in the order of their topics.
func (h *Hub) States() []State {
	now := h.Now()
	var states []State
	h.sender.View(func() {
		for s := range h.sender.All() {
			states = append(states, State{Topic: s.Topic, Host: s.Host, Verified: s.active(now), Signed: s.Secret != "", External: s.External,
				Position: s.Position, Latest: s.latest, Expires: s.Expires, Failing: s.Failing, Failures: s.Failures, Next: s.Next, LastError: s.LastError})
		}
	})
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Host, b.Host), a.Expires.Compare(b.Expires))
	})
	return states
}
