package websub

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// An External hub is told of all topics of the Source. Its positions are kept
// like those of subscribers: a crash or a silent hub delays notifications and
// loses none. The hub hears of existing topics from the moment it is first
// named, of later topics from their beginning.
type External struct {
	URL string
	// Payload sends each notification to the hub, with the links of one to a
	// subscriber, to be passed on (ResourceSync Change Notification, 4.1).
	// Otherwise the hub gets a ping with hub.mode=publish and fetches the topic
	// (6); changes between two fetches then show in the topic only.
	Payload bool
}

// external returns the external hub of a subscription; nil if there is none, or
// it is named no longer.
func (h *Hub) external(s *subscription) *External {
	for i := range h.External {
		if s.External && h.External[i].URL == s.Callback {
			return &h.External[i]
		}
	}
	return nil
}

// meet gives the external hubs a subscription to every topic.
func (h *Hub) meet() error {
	if len(h.External) == 0 {
		return nil
	}
	topics := h.Source.Topics()
	var members uint64
	h.sender.View(func() { members = h.sender.Members() })
	if slices.Equal(topics, h.offered) && members == h.offeredAt {
		return nil
	}
	h.offeredAt = members
	var fresh []*subscription
	complete := true
	for _, x := range h.External {
		u, err := parseURL(x.URL)
		if err != nil {
			return err
		}
		all := true
		for _, topic := range h.unmet(topics, x.URL) {
			position := "" // from the beginning
			if !h.met[x.URL] {
				if position, err = h.Source.Latest(topic); err != nil {
					all = false
					continue // another time
				}
			}
			s := &subscription{Topic: topic, Callback: x.URL, External: true}
			s.Position, s.Host = position, u.Host
			fresh = append(fresh, s)
		}
		h.met[x.URL] = h.met[x.URL] || all
		complete = complete && all
	}
	if h.offered = topics; !complete {
		h.offered = nil
	}
	if len(fresh) == 0 {
		return nil
	}
	h.update(func() {
		for _, s := range fresh {
			h.sender.Put(s)
		}
	})
	return h.saved(h.sender.Save())
}

// unmet returns the topics without a subscription of an external hub.
func (h *Hub) unmet(topics []string, hub string) (list []string) {
	h.sender.View(func() {
		for _, topic := range topics {
			if h.sender.Get(keyOf(topic, hub, true)) == nil {
				list = append(list, topic)
			}
		}
	})
	return list
}

// ping returns the message to a hub without payload. It covers all content after
// a position, and there is none without content.
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

// noteExternal reports the failure of an external hub, and not again before the
// hub has taken all notifications.
func (h *Hub) noteExternal(hub string, err error) {
	var known bool
	failing := err != nil
	h.sender.View(func() {
		known = h.failing[hub]
		if known && !failing { // seldom, and there may be many subscriptions
			for s := range h.sender.All() {
				failing = failing || s.External && s.Callback == hub && s.Failures > 0
			}
		}
		h.failing[hub] = failing
	})
	if known || !failing {
		return
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		err = refused.cause // the operator has named it
	}
	h.report(fmt.Errorf("hub: external hub %s: %w; it is tried again", redact(hub), err))
}
