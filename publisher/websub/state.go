package websub

import (
	"errors"
	"fmt"
	"time"
)

// note reports the error of a topic when it begins or changes.
func (h *Hub) note(topic string, err error) {
	text := ""
	if err != nil && !errors.Is(err, ErrNoTopic) {
		text = err.Error()
	}
	h.mu.Lock()
	known := h.told[topic] == text
	if text == "" {
		delete(h.told, topic)
	} else {
		h.told[topic] = text
	}
	h.mu.Unlock()
	if !known && text != "" {
		h.report(fmt.Errorf("hub: topic %s: %w", topic, err))
	}
}

func (h *Hub) report(err error) {
	if h.Report != nil {
		h.Report(err)
	}
}

// A State is how a subscription fares.
type State struct {
	Topic     string
	Host      string    // of the callback, the rest of which is secret
	Verified  bool      // it gets content
	Signed    bool      // with a secret
	External  bool      // it is that of an external hub
	Expires   time.Time // zero: not verified, or never
	Failing   time.Time // since then every attempt has failed; zero if the last one did not
	Failures  int       // attempts since then
	Next      time.Time // no attempt before
	LastError string    // of the attempt that failed last
}

// States returns the states of all subscriptions, in the order of their topics.
func (h *Hub) States() []State {
	_, all := h.present()
	now := h.Now()
	states := make([]State, len(all))
	for i, s := range all {
		states[i] = State{Topic: s.Topic, Host: s.host, Verified: s.active(now), Signed: s.Secret != "", External: s.External,
			Expires: s.Expires, Failing: s.Failing, Failures: s.Failures, Next: s.Next, LastError: s.lastErr}
	}
	return states
}
