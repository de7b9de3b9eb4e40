package websub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cutie/publisher/push"
)

// due reports whether a subscription has something to do. [Hub.Tick] has asked
// the Source before.
func (h *Hub) due(s *subscription, now time.Time) bool {
	s.latest, s.gone = h.sources.latest[s.Topic], h.sources.gone[s.Topic]
	switch {
	case h.URL == "" && !s.External: // until the hub is there again
		return false
	case s.gone, s.Asked != nil && !now.Before(s.Asked.Next):
		return true
	}
	return s.active(now) && s.latest != "" && s.latest != s.seen && s.Ready(now)
}

// next does the errands of a subscription, and returns its next notification.
func (h *Hub) next(ctx context.Context, s *subscription) (*push.Message, error) {
	var asked *intent
	var after, by, secret string
	var gone bool
	h.sender.View(func() { asked, after, by, secret, gone = s.Asked, s.Position, s.By, s.Secret, s.gone })
	switch {
	case gone:
		h.end(ctx, s, "the topic is no longer there", func() { h.sender.Drop(s) })
		return nil, nil
	case asked != nil:
		if !h.Now().Before(asked.Next) {
			h.verify(ctx, s, *asked)
		}
		return nil, nil
	case h.Still != nil && by != "" && !h.Still(by, s.Topic):
		h.end(ctx, s, "the right to read the topic is no longer there", func() { h.forget(s) })
		if ctx.Err() == nil {
			h.report(fmt.Errorf("hub: a subscriber at %s has lost the right to %s and is dropped", redact(s.Callback), s.Topic))
		}
		return nil, nil
	}
	c, err := h.content(s, after)
	if err != nil {
		h.note(s.Topic, err)
		return nil, err
	}
	m := &push.Message{URL: s.Callback, Header: http.Header{"Content-Type": {c.Type}}, Body: c.Body, Upto: c.Upto, More: c.More,
		To: s.to(), Keep: s.External}
	if c.Type != formType {
		hub := h.URL
		if s.External {
			hub = s.Callback
		}
		m.Header.Set("Link", Links(s.Topic, hub))
	}
	if secret != "" {
		m.Header.Set(signatureField, push.SHA256.Sign(secret, c.Body))
	}
	return m, nil
}

// content returns the next notification. A ping covers all content.
func (h *Hub) content(s *subscription, after string) (Content, error) {
	if x := h.external(s); x != nil && !x.Payload {
		return h.ping(s.Topic, after)
	}
	return h.Source.Content(s.Topic, after)
}

// done draws the conclusions from a notification.
func (h *Hub) done(s *subscription, m *push.Message, err error) {
	if s.External {
		h.noteExternal(s.Callback, err)
	}
	var f *push.Failure
	gone, over := errors.As(err, &f) && f.Gone, false
	switch {
	case err == nil && m.More:
	case err == nil:
		h.sender.View(func() { s.seen = s.latest })
	case gone:
		h.update(func() { h.forget(s) })
	case !s.External:
		h.update(func() {
			if over = !s.Failing.IsZero() && h.Now().Sub(s.Failing) >= h.GiveUp; over {
				s.Expires = time.Time{} // the next Tick drops it, unless it is asked for anew
			}
		})
	}
	if over {
		h.report(fmt.Errorf("hub: a subscriber at %s to %s has failed for %v and is dropped, at last with: %w",
			redact(s.Callback), s.Topic, h.GiveUp, err))
	}
}

// forget drops a subscription, unless it was asked for anew. It is called
// within Update.
func (h *Hub) forget(s *subscription) {
	if s.Asked != nil && s.Asked.Mode == subscribe {
		s.Expires = time.Time{}
		s.Reset()
		return
	}
	h.sender.Drop(s)
}
