package websub

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs/durable"
)

// SubscriberOptions are the settings of a [Subscriber]. Zero values mean the
// defaults.
type SubscriberOptions struct {
	// Callback is the URL at which hubs reach the Subscriber's ServeHTTP. Each
	// subscription has a URL below it. Needed.
	Callback string
	Doer     push.Doer    // needed
	Dir      *durable.Dir // the subscriber's own; needed; the caller closes it

	// Receive takes a notification, one of a topic at a time. It must have put
	// the notification on stable storage when it returns nil; after an error the
	// hub sends it again. Needed.
	Receive func(context.Context, Notification) error

	Lease    time.Duration    // to ask for; 0: 10 days
	MaxBody  int64            // bytes of a notification; 0: 16 MiB
	Timeout  time.Duration    // of a request; 0: 30 s
	Patience time.Duration    // until a silent hub is asked again; 0: 5 minutes; doubled each time up to a day
	Report   func(error)      // told of denials and failures of hubs, by any goroutine; nil: not told
	Now      func() time.Time // nil: time.Now
}

// A Notification is one delivery of a hub.
type Notification struct {
	Topic string
	Type  string // media type
	Body  []byte
}

// A Subscriber receives the topics of any Source by the hubs it names. Its
// methods are safe for concurrent use.
//
// Each subscription has a random callback and secret of its own. A wrong
// signature is refused with 403. A repetition of the last notification is
// acknowledged and not received again while the process lives; after a crash at
// either end Receive may see one twice. Subscriptions are renewed when a third
// of their lease is left.
type Subscriber struct {
	SubscriberOptions
	base *url.URL
	book *push.Book[*subscribed]
	tick sync.Mutex // one Tick at a time
}

// subscribed is one subscription. The book guards its fields, receiving guards
// last.
type subscribed struct {
	ID      string        `json:"id"` // last segment of the callback
	Topic   string        `json:"topic"`
	Hub     string        `json:"hub"`
	Secret  string        `json:"secret"`
	Lease   time.Duration `json:"lease"`             // as last verified; 0: never
	Expires time.Time     `json:"expires,omitzero"`  // zero: not verified
	Wants   string        `json:"wants,omitempty"`   // hub.mode to be verified
	Asked   int           `json:"asked,omitzero"`    // times since the last verification
	AskedAt time.Time     `json:"asked_at,omitzero"` // the last of them

	receiving sync.Mutex
	last      [sha256.Size]byte // of the last notification
}

// Key implements [push.Record].
func (s *subscribed) Key() string { return s.ID }

// NewSubscriber opens a subscriber. Damage is reported and lived with.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	if o.Doer == nil || o.Dir == nil || o.Receive == nil {
		return nil, errors.New("subscriber: no client, no directory or no receiver")
	}
	base, err := parseURL(o.Callback)
	if err != nil || base.RawQuery != "" {
		return nil, fmt.Errorf("subscriber: callback %.80q: %w", o.Callback, cmp.Or(err, errors.New("has a query")))
	}
	o.Lease, o.MaxBody = cmp.Or(o.Lease, defaultLease), cmp.Or(o.MaxBody, 16<<20)
	o.Timeout, o.Patience = cmp.Or(o.Timeout, 30*time.Second), cmp.Or(o.Patience, 5*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Doer = discreet{o.Doer}
	s := &Subscriber{SubscriberOptions: o, base: base}
	file, err := stateFile(o.Dir, "subscribed")
	if err == nil {
		s.book, err = push.OpenBook[*subscribed](file, func(err error) { s.report(fmt.Errorf("subscriber: %w", err)) })
	}
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	return s, nil
}

// update changes subscriptions.
func (s *Subscriber) update(f func()) {
	_ = s.book.Update(func() error { f(); return nil })
}

// Subscribe subscribes to the topic of a resource and returns the topic. A hub
// has accepted the request when Subscribe returns; content follows the
// verification. A second call renews the subscription.
func (s *Subscriber) Subscribe(ctx context.Context, resource string) (topic string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	d, err := Discover(ctx, s.Doer, resource)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, hub := range d.Hubs {
		sub, fresh := s.want(d.Topic, hub)
		err := s.ask(ctx, sub, subscribe)
		if err == nil {
			return d.Topic, nil
		}
		if errs = append(errs, err); fresh {
			s.forget(sub)
		}
	}
	return d.Topic, errors.Join(append(errs, s.save())...)
}

// want returns the subscription to a topic at a hub and makes it if need be.
func (s *Subscriber) want(topic, hub string) (sub *subscribed, fresh bool) {
	s.update(func() {
		for sub = range s.book.All() {
			if sub.Topic == topic && sub.Hub == hub {
				return
			}
		}
		sub, fresh = &subscribed{ID: rand.Text(), Topic: topic, Hub: hub, Secret: rand.Text() + rand.Text()}, true
		s.book.Put(sub)
	})
	return sub, fresh
}

// Unsubscribe asks the hubs of a topic to end it. Content is refused from then
// on; Tick asks silent hubs again.
func (s *Subscriber) Unsubscribe(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var errs []error
	found := false
	for _, sub := range s.all() {
		if sub.Topic == topic {
			found = true
			errs = append(errs, s.ask(ctx, sub, unsubscribe))
		}
	}
	if !found {
		return fmt.Errorf("unsubscribe %s: no such subscription", topic)
	}
	return errors.Join(errs...)
}

func (s *Subscriber) all() (list []*subscribed) {
	s.book.View(func() { list = slices.Collect(s.book.All()) })
	slices.SortFunc(list, func(a, b *subscribed) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Hub, b.Hub))
	})
	return list
}

// ask makes one request of a hub (5.1). The mode is on stable storage before,
// because the hub may verify it at once.
func (s *Subscriber) ask(ctx context.Context, sub *subscribed, mode string) error {
	form := url.Values{"hub.mode": {mode}, "hub.topic": {sub.Topic}, "hub.callback": {s.base.JoinPath(sub.ID).String()}}
	if mode == subscribe {
		form.Set("hub.secret", sub.Secret)
		form.Set("hub.lease_seconds", strconv.FormatInt(int64(s.Lease/time.Second), 10))
	}
	s.update(func() {
		if sub.Wants != mode {
			sub.Wants, sub.Asked = mode, 0
		}
		sub.Asked++
		sub.AskedAt = s.Now()
	})
	if err := s.save(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.Hub, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", formType)
	req.Header.Set("User-Agent", agent)
	resp, err := s.Doer.Do(req)
	if err != nil {
		return fmt.Errorf("hub %s: %w", sub.Hub, push.Explain(err, s.Timeout))
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if mode == unsubscribe && resp.StatusCode == http.StatusNotFound {
		s.forget(sub) // the hub does not know of it
		return s.save()
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("hub %s answered %d: %.200q", sub.Hub, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}

func (s *Subscriber) forget(sub *subscribed) { s.update(func() { s.book.Drop(sub) }) }

// Tick asks hubs without a verification again, and renews leases near their end.
// It waits for the answers. Call it about once a minute.
func (s *Subscriber) Tick(ctx context.Context) error {
	s.tick.Lock()
	defer s.tick.Unlock()
	for _, sub := range s.all() {
		mode, lapsed := s.due(sub)
		if lapsed {
			s.report(fmt.Errorf("subscriber: %s: the lease has ended and hub %s did not renew it; notifications may be missing since then", sub.Topic, sub.Hub))
		}
		if mode == "" {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, s.Timeout)
		err := s.ask(limited, sub, mode)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.report(fmt.Errorf("subscriber: %s: %w", sub.Topic, err))
		}
	}
	return s.save()
}

// due returns the hub.mode of a request to be made now, "" for none, and whether
// the lease has ended since the last Tick.
func (s *Subscriber) due(sub *subscribed) (mode string, lapsed bool) {
	now := s.Now()
	ended := false
	s.book.View(func() {
		ended = !sub.Expires.IsZero() && !sub.Expires.After(now)
		wait := 24 * time.Hour
		if n := max(sub.Asked-1, 0); n < 20 {
			wait = min(wait, s.Patience<<n)
		}
		switch {
		case sub.Wants == "" && (ended || sub.Expires.Sub(now) <= sub.Lease/3):
			mode = subscribe
		case sub.Wants != "" && now.Sub(sub.AskedAt) >= wait:
			mode = sub.Wants
		}
		lapsed = ended && sub.Wants != unsubscribe
	})
	if ended {
		s.update(func() { sub.Expires = time.Time{} })
	}
	return mode, lapsed
}

func (s *Subscriber) save() error {
	if err := s.book.Save(); err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	return nil
}

func (s *Subscriber) report(err error) {
	if s.Report != nil {
		s.Report(err)
	}
}
