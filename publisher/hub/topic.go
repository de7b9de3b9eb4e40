package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"cutie/wellknown"
)

// A Source has the content of topics. Its methods are safe for concurrent use. Positions are
// its own words of a few bytes; the hub compares them for equality only.
type Source interface {
	// Version returns another number whenever Latest may return another position of any topic.
	// The hub asks for it a few times a second, and for Latest only when it differs.
	Version() uint64

	// Topics returns the URLs of all topics. The caller does not change them.
	Topics() []string

	// Latest returns the position after all content of a topic. It differs whenever there is
	// more. For an unknown topic the error is an [ErrNoTopic].
	Latest(topic string) (position string, err error)

	// Content returns the content of a topic after a position from Latest or Content, of an
	// earlier process too, or from the beginning after "".
	Content(topic, after string) (Content, error)
}

// Content is one notification.
type Content struct {
	Type string // media type
	Body []byte // nil if there is nothing to deliver; not to be changed
	Upto string // the position after it
	More bool   // the topic has more already
	Gap  bool   // some content after the position is lost; the body says so
}

// ErrNoTopic is the error of a topic unknown to the Source.
var ErrNoTopic = errors.New("no such topic")

// Link relations (4).
const (
	RelHub  = "hub"
	RelSelf = "self"
)

// Links returns the Link header field of a topic and of its notifications: its hubs and its URL.
func Links(topic string, hubs ...string) string {
	var field string
	for _, hub := range hubs {
		field += wellknown.Link(hub, RelHub) + ", "
	}
	return field + wellknown.Link(topic, RelSelf)
}

const (
	formType       = "application/x-www-form-urlencoded"
	signatureField = "X-Hub-Signature"
)

// A look is the state of the Source when the hub looked.
type look struct {
	version uint64
	members uint64            // of the hub when it collected the topics
	topics  []string          // that have subscriptions
	latest  map[string]string // position by topic
	gone    map[string]bool
}

// lookAtTopics asks the Source for the positions of its topics if they may have changed.
func (h *Hub) lookAtTopics() {
	h.mu.Lock()
	topics, fresh := h.look.topics, h.look.latest == nil || h.look.members != h.members
	if fresh {
		set := map[string]bool{}
		for _, s := range h.subs {
			if s.Kind != ofQueue {
				set[s.Topic] = true
			}
		}
		topics = slices.Sorted(maps.Keys(set))
	}
	members := h.members
	h.mu.Unlock()
	now := look{members: members, topics: topics, latest: make(map[string]string, len(topics)), gone: map[string]bool{}}
	if h.Source != nil && len(topics) > 0 {
		now.version = h.Source.Version()
		if !fresh && now.version == h.look.version {
			return
		}
	}
	for _, topic := range topics {
		if h.Source == nil {
			continue
		}
		position, err := h.Source.Latest(topic)
		h.note(topic, err)
		now.latest[topic], now.gone[topic] = position, errors.Is(err, ErrNoTopic)
	}
	h.look = now
}

// note reports the error of a topic when it begins or changes.
func (h *Hub) note(topic string, err error) {
	text := ""
	if err != nil && !errors.Is(err, ErrNoTopic) {
		text = err.Error()
	}
	h.mu.Lock()
	known := h.topicErrors[topic] == text
	if h.topicErrors[topic] = text; text == "" {
		delete(h.topicErrors, topic)
	}
	h.mu.Unlock()
	if !known && text != "" {
		h.report(fmt.Errorf("hub: topic %s: %w", topic, err))
	}
}

// nextOfTopic does the errands of a subscription, and returns its next notification.
func (h *Hub) nextOfTopic(ctx context.Context, s *subscription) (*message, error) {
	h.mu.Lock()
	asked, after, by, secret, gone, latest := s.Asked, s.Position, s.By, s.Secret, s.gone, s.latest
	h.mu.Unlock()
	switch {
	case gone:
		h.end(ctx, s, "the topic is no longer there", h.drop)
		return nil, nil
	case asked != nil:
		if !h.Now().Before(asked.Next) {
			h.verify(ctx, s, *asked)
		}
		return nil, nil
	case h.Still != nil && by != "" && !h.Still(by, s.Topic):
		h.end(ctx, s, "the right to read the topic is no longer there", h.forget)
		if ctx.Err() == nil {
			h.report(fmt.Errorf("hub: a subscriber at %s has lost the right to %s and is dropped", publicURL(s.URL), s.Topic))
		}
		return nil, nil
	}
	c, err := h.content(s, after, latest)
	if err != nil {
		h.note(s.Topic, err)
		return nil, err
	}
	m := &message{url: s.URL, header: http.Header{"Content-Type": {c.Type}}, body: c.Body, upto: c.Upto, more: c.More}
	if c.Gap {
		m.gap = h.Now()
		h.report(fmt.Errorf("hub: topic %s: a gap is in what %s gets: its Change Lists are gone", s.Topic, publicURL(s.URL)))
	}
	if c.Type != formType {
		hub := h.URL
		if s.Kind == otherHub {
			hub = s.URL
		}
		m.header.Set("Link", Links(s.Topic, hub))
	}
	if secret != "" {
		m.header.Set(signatureField, "sha256="+digest("sha256", secret, c.Body))
	}
	return m, nil
}

// shared is the last content that was read. Subscriptions to a topic mostly are at one
// position, so that a thousand of them cost one reading.
type shared struct {
	topic, after, latest string
	content              Content
}

// content returns the next notification. A ping covers all content after a position, and there
// is none without content.
func (h *Hub) content(s *subscription, after, latest string) (c Content, err error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	x := h.external(s)
	ping := x != nil && !x.Payload
	if ping {
		if latest, err = h.Source.Latest(s.Topic); err != nil || latest == after {
			return Content{Upto: latest}, err
		}
	}
	if l := &h.shared; l.topic != s.Topic || l.after != after || l.latest != latest || latest == "" {
		if c, err = h.Source.Content(s.Topic, after); err != nil {
			return c, err
		}
		h.shared = shared{s.Topic, after, latest, c}
	}
	if c = h.shared.content; !ping || c.Body == nil {
		return c, nil
	}
	// A hub of PubSubHubbub looks for hub.url, others for hub.topic.
	form := url.Values{"hub.mode": {publish}, "hub.topic": {s.Topic}, "hub.url": {s.Topic}}
	return Content{Type: formType, Body: []byte(form.Encode()), Upto: latest}, nil
}

// forget drops a subscription, unless it was asked for anew; h.mu is held.
func (h *Hub) forget(s *subscription) {
	if s.Asked != nil && s.Asked.Mode == subscribe {
		s.Expires = zeroTime
		s.reset()
		return
	}
	h.drop(s)
}

// end tells a subscriber, once, of the end of its subscription (5.2), and drops it.
func (h *Hub) end(ctx context.Context, s *subscription, reason string, drop func(*subscription)) {
	if s.Kind == subscriber {
		_, _, _ = h.query(ctx, s, url.Values{"hub.mode": {denied}, "hub.topic": {s.Topic}, "hub.reason": {reason}})
	}
	if ctx.Err() == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mark(s)
		drop(s)
	}
}

// An External hub is told of all topics of the Source. It hears of existing topics from the
// moment it is first named, of later topics from their beginning. A crash or a silent hub
// delays notifications and loses none.
type External struct {
	URL string
	// Payload sends each notification to the hub, with the links of one to a subscriber, to be
	// passed on (ResourceSync Change Notification, 4.1). Otherwise the hub gets a ping with
	// hub.mode=publish and fetches the topic (6); changes between two fetches then show in the
	// topic only.
	Payload bool
}

// external returns the external hub of a subscription; nil if there is none, or it is named
// no longer.
func (h *Hub) external(s *subscription) *External {
	for i := range h.External {
		if s.Kind == otherHub && h.External[i].URL == s.URL {
			return &h.External[i]
		}
	}
	return nil
}

// meetHubs gives the external hubs a subscription to every topic.
func (h *Hub) meetHubs() error {
	if len(h.External) == 0 || h.Source == nil {
		return nil
	}
	topics := h.Source.Topics()
	h.mu.Lock()
	members := h.members
	h.mu.Unlock()
	if slices.Equal(topics, h.offered) && members == h.offeredAt {
		return nil
	}
	complete := true
	for _, x := range h.External {
		u, err := parseURL(x.URL)
		if err != nil {
			return err
		}
		all := true
		for _, topic := range topics {
			s := &subscription{Kind: otherHub, Topic: topic, URL: x.URL, host: u.Host} // from the beginning
			h.mu.Lock()
			known := h.subs[s.key()] != nil
			h.mu.Unlock()
			if known {
				continue
			}
			if !h.met[x.URL] {
				if s.Position, err = h.Source.Latest(topic); err != nil {
					all = false
					continue // another time
				}
			}
			h.mu.Lock()
			h.put(s)
			h.mu.Unlock()
		}
		h.met[x.URL] = h.met[x.URL] || all
		complete = complete && all
	}
	h.offered, h.offeredAt = topics, members
	if !complete {
		h.offered = nil
	}
	return nil
}
