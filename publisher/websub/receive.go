package websub

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs/web"
)

// ServeHTTP answers hubs: it confirms our own requests (5.3) and receives content
// (7). The last segment of the path names the subscription; the rest is free.
func (s *Subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	var sub *subscribed
	s.book.View(func() { sub = s.book.Get(id) })
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case sub == nil && r.Method == http.MethodPost:
		http.Error(w, "there is no such subscription", http.StatusGone) // the status ends it at the hub
	case sub == nil:
		http.Error(w, "there is no such subscription", http.StatusNotFound)
	case r.Method == http.MethodGet:
		s.confirm(w, r, sub)
	default:
		s.content(w, r, sub)
	}
}

// confirm answers the question of a hub whether a request is ours.
func (s *Subscriber) confirm(w http.ResponseWriter, r *http.Request, sub *subscribed) {
	args := r.URL.Query()
	mode, topic, word := args.Get("hub.mode"), args.Get("hub.topic"), args.Get("hub.challenge")
	if topic != sub.Topic {
		http.Error(w, "the topic is another one", http.StatusNotFound)
		return
	}
	if mode == denied {
		s.denied(sub, args.Get("hub.reason"))
		return
	}
	lease, err := strconv.ParseUint(args.Get("hub.lease_seconds"), 10, 32)
	var wanted bool
	s.update(func() {
		wanted = sub.Wants == mode && mode != "" && word != "" && (mode == unsubscribe || err == nil && lease > 0)
		if !wanted {
			return
		}
		sub.Wants, sub.Asked = "", 0
		sub.Lease = time.Duration(lease) * time.Second
		sub.Expires = s.Now().Add(sub.Lease)
		if mode == unsubscribe {
			s.book.Drop(sub)
		}
	})
	if !wanted {
		http.Error(w, "this was not asked for", http.StatusNotFound)
		return
	}
	if err := s.save(); err != nil {
		s.report(err)
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, word)
}

// denied notes the end of a subscription by the hub. The hub is asked again
// later.
func (s *Subscriber) denied(sub *subscribed, reason string) {
	var unwanted bool
	s.update(func() {
		if unwanted = sub.Wants == unsubscribe; unwanted {
			s.book.Drop(sub)
			return
		}
		sub.Wants, sub.Expires, sub.AskedAt = subscribe, time.Time{}, s.Now()
		sub.Asked = max(sub.Asked, 1)
	})
	if !unwanted {
		s.report(fmt.Errorf("subscriber: hub %s denies %s: %.200q", sub.Hub, sub.Topic, reason))
	}
	if err := s.save(); err != nil {
		s.report(err)
	}
}

// content receives a notification.
func (s *Subscriber) content(w http.ResponseWriter, r *http.Request, sub *subscribed) {
	var unwanted bool
	s.book.View(func() { unwanted = sub.Wants == unsubscribe })
	if unwanted {
		http.Error(w, "the subscription has ended", http.StatusGone)
		return
	}
	in, err := web.NewBodyReader(w, r, s.MaxBody, web.BodyIdle)
	if err != nil {
		web.Plain(w, r, err)
		return
	}
	body, err := in.All()
	if err != nil {
		web.Plain(w, r, err)
		return
	}
	if err := push.Verify(r.Header.Get(signatureField), sub.Secret, body); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	sub.receiving.Lock()
	defer sub.receiving.Unlock()
	digest := sha256.Sum256(body)
	if digest != sub.last {
		n := Notification{Topic: sub.Topic, Type: r.Header.Get("Content-Type"), Body: body}
		if err := s.Receive(r.Context(), n); err != nil {
			s.report(fmt.Errorf("subscriber: %s: %w", sub.Topic, err))
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		sub.last = digest
	}
	w.WriteHeader(http.StatusNoContent)
}
