package websub

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// An External hub is told of all topics of the Source. What it has been told is
// kept as that of a subscriber: a crash, or a hub that does not answer, delays
// it and loses nothing. Of the topics that are there when the hub is named for
// the first time it is told what comes from then on; of later ones, all.
type External struct {
	URL string
	// Payload has each notification POSTed to the hub, with the links that a
	// subscriber gets, for it to pass on (ResourceSync Change Notification,
	// 4.1). Otherwise the hub is pinged with hub.mode=publish when there would be
	// one, and fetches the topic (6); what came between two fetches is then seen
	// in the topic alone.
	Payload bool
}

// external returns the external hub that a subscription is of, nil if there is
// none, or it is named no longer.
func (h *Hub) external(s *subscription) *External {
	for i := range h.External {
		if s.External && h.External[i].URL == s.Callback {
			return &h.External[i]
		}
	}
	return nil
}

// who names a subscriber in errors.
func (s *subscription) who() string {
	if s.External {
		return "the hub"
	}
	return "the subscriber"
}

// meet sees that the external hubs have a subscription to every topic. That it
// begins is on stable storage before anything comes of it.
func (h *Hub) meet() error {
	if len(h.External) == 0 {
		return nil
	}
	topics := h.Source.Topics()
	h.mu.Lock()
	offered := slices.Equal(topics, h.offered)
	h.offered = topics // drop says otherwise, also of what is seen below
	h.mu.Unlock()
	if offered {
		return nil
	}
	added, complete := false, true
	for i := range h.External {
		hub := h.External[i].URL
		u, err := parseURL(hub)
		if err != nil {
			return err
		}
		all := true
		for _, topic := range h.unmet(topics, hub) {
			position := "" // all that there is
			if !h.met[hub] {
				if position, err = h.Source.Latest(topic); err != nil {
					all = false
					continue // another time
				}
			}
			h.mu.Lock()
			h.add(&subscription{Topic: topic, Callback: hub, External: true, Position: position, host: u.Host})
			h.mu.Unlock()
			added = true
		}
		h.met[hub] = h.met[hub] || all
		complete = complete && all
	}
	if !complete {
		h.mu.Lock()
		h.offered = nil
		h.mu.Unlock()
	}
	if !added {
		return nil
	}
	return h.save()
}

// unmet returns the topics that an external hub has no subscription to.
func (h *Hub) unmet(topics []string, hub string) (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range topics {
		if h.subs[key{topic, hub, true}] == nil {
			list = append(list, topic)
		}
	}
	return list
}

// ping is what is said to an external hub that fetches by itself. It tells of
// all there is, and only if there is something to say.
func (h *Hub) ping(topic, after string) (Content, error) {
	position, err := h.Source.Latest(topic)
	if err != nil || position == after {
		return Content{Upto: position}, err
	}
	c, err := h.Source.Content(topic, after)
	if err != nil || c.Body == nil {
		return c, err
	}
	// A hub of PubSubHubbub looks for hub.url, others for hub.topic.
	form := url.Values{"hub.mode": {publish}, "hub.topic": {topic}, "hub.url": {topic}}
	return Content{Type: formType, Body: []byte(form.Encode()), Upto: position}, nil
}

// noteExternal reports that an external hub does not take what it is told, and
// not again before it has taken all of it.
func (h *Hub) noteExternal(hub string, err error) {
	h.mu.Lock()
	known := h.failing[hub]
	failing := err != nil
	if known && !failing { // seldom, and there may be many subscriptions
		for k, s := range h.subs {
			failing = failing || k.external && k.callback == hub && s.Failures > 0
		}
	}
	h.failing[hub] = failing
	h.mu.Unlock()
	if known || !failing {
		return
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		err = refused.cause // it was not a stranger who named it
	}
	h.report(fmt.Errorf("hub: external hub %s: %w; it is tried again", redact(hub), err))
}
