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

	"cutie/queuefs/durable"
)

// SubscriberOptions are the settings of a [Subscriber]. Zero values mean the
// defaults.
type SubscriberOptions struct {
	// Callback is the URL under which hubs reach the Subscriber's ServeHTTP;
	// each subscription has one below it. Needed.
	Callback string
	Doer     Doer         // needed
	Dir      *durable.Dir // a directory of the subscriber's own; needed; the caller closes it

	// Receive takes a notification. It is called for one of a topic at a time
	// and must have put it on stable storage when it returns nil; after an
	// error the hub sends it again. Needed.
	Receive func(context.Context, Notification) error

	Lease    time.Duration    // to ask for; 0: 10 days
	MaxBody  int64            // octets of a notification; 0: 16 MiB
	Timeout  time.Duration    // of a request; 0: 30 s
	Patience time.Duration    // until what a hub has not verified is asked again; 0: 5 minutes; then twice that, and so on to a day
	Report   func(error)      // told, by any goroutine, what a hub denies or does not do; nil: nobody is
	Now      func() time.Time // nil: time.Now
}

// A Notification is what a hub delivered.
type Notification struct {
	Topic string
	Type  string // media type
	Body  []byte
}

// A Subscriber receives the topics of any Source, by the hubs that it names.
// Its methods are safe for concurrent use.
//
// Each subscription has a callback and a secret of its own, which nobody can
// guess. What does not have the right signature is refused with 403. A
// notification that is the same as the one before it is acknowledged and not
// received again, as long as the process lives: after a crash at either end,
// Receive may see one twice. Subscriptions are renewed when a third of their lease is
// left, and are kept over restarts in the file "subscribed".
type Subscriber struct {
	SubscriberOptions
	base  *url.URL
	store *store[wish]
	tick  sync.Mutex // one Tick at a time

	mu      sync.Mutex
	subs    map[string]*subscribed // by ID
	version uint64
}

// subscribed is one subscription.
type subscribed struct {
	wish // guarded by Subscriber.mu

	receiving sync.Mutex
	last      [sha256.Size]byte // of the notification received last
}

// A wish is a subscription as it stands in the file.
type wish struct {
	ID      string        `json:"id"` // last segment of the callback
	Topic   string        `json:"topic"`
	Hub     string        `json:"hub"`
	Secret  string        `json:"secret"`
	Lease   time.Duration `json:"lease"`             // as last verified; 0: never
	Expires time.Time     `json:"expires,omitzero"`  // zero: not verified
	Wants   string        `json:"wants,omitempty"`   // what the hub may verify
	Asked   int           `json:"asked,omitzero"`    // times since it last verified something
	AskedAt time.Time     `json:"asked_at,omitzero"` // the last of them
}

// NewSubscriber opens a subscriber. Damage that it finds is reported and lived
// with.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	if o.Doer == nil || o.Dir == nil || o.Receive == nil {
		return nil, errors.New("subscriber: no client, no directory or nobody who receives")
	}
	base, err := parseURL(o.Callback)
	if err != nil || base.RawQuery != "" {
		return nil, fmt.Errorf("subscriber: callback %.80q: %w", o.Callback, cmp.Or(err, errors.New("has a query")))
	}
	o.Lease, o.MaxBody = cmp.Or(o.Lease, 10*24*time.Hour), cmp.Or(o.MaxBody, 16<<20)
	o.Timeout, o.Patience = cmp.Or(o.Timeout, 30*time.Second), cmp.Or(o.Patience, 5*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Subscriber{SubscriberOptions: o, base: base, subs: map[string]*subscribed{}}
	store, all, damage, err := openStore[wish](o.Dir, "subscribed")
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if s.store = store; damage != nil {
		s.report(fmt.Errorf("subscriber: %w", damage))
	}
	for i := range all {
		s.subs[all[i].ID] = &subscribed{wish: all[i]}
	}
	return s, nil
}

// Subscribe subscribes to the topic of a resource and returns it. A hub has
// accepted the request when Subscribe returns; content comes after it was
// verified. Subscribing again renews.
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

// want returns the subscription to a topic at a hub, which may be new.
func (s *Subscriber) want(topic, hub string) (sub *subscribed, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if sub.Topic == topic && sub.Hub == hub {
			return sub, false
		}
	}
	sub = &subscribed{wish: wish{ID: rand.Text(), Topic: topic, Hub: hub, Secret: rand.Text() + rand.Text()}}
	s.subs[sub.ID] = sub
	return sub, true
}

// Unsubscribe asks the hubs of a topic to end it. Content is refused from then
// on; hubs that do not answer are asked again by Tick.
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

func (s *Subscriber) all() []*subscribed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*subscribed, 0, len(s.subs))
	for _, sub := range s.subs {
		list = append(list, sub)
	}
	slices.SortFunc(list, func(a, b *subscribed) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Hub, b.Hub))
	})
	return list
}

// ask makes one request of a hub (5.1). That it is wanted is on stable
// storage before, since the hub may verify it at once.
func (s *Subscriber) ask(ctx context.Context, sub *subscribed, mode string) error {
	s.mu.Lock()
	if sub.Wants != mode {
		sub.Wants, sub.Asked = mode, 0
	}
	sub.Asked++
	sub.AskedAt = s.Now()
	s.version++
	form := url.Values{"hub.mode": {mode}, "hub.topic": {sub.Topic}, "hub.callback": {s.base.JoinPath(sub.ID).String()}}
	if mode == subscribe {
		form.Set("hub.secret", sub.Secret)
		form.Set("hub.lease_seconds", strconv.FormatInt(int64(s.Lease/time.Second), 10))
	}
	hub := sub.Hub
	s.mu.Unlock()
	if err := s.save(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hub, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", formType)
	req.Header.Set("User-Agent", agent)
	resp, err := s.Doer.Do(req)
	if err != nil {
		return fmt.Errorf("hub %s: %w", hub, plainError(err, s.Timeout))
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if mode == unsubscribe && resp.StatusCode == http.StatusNotFound {
		s.forget(sub) // the hub does not know of it
		return s.save()
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("hub %s answered %d: %.200q", hub, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}

func (s *Subscriber) forget(sub *subscribed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub.ID)
	s.version++
}

// Tick asks hubs again that did not verify, and renews what ends soon. It is
// to be called now and then, once a minute, and waits for the answers.
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

// due returns what a hub is to be asked now, "" for nothing, and whether the
// lease has ended since the last Tick.
func (s *Subscriber) due(sub *subscribed) (mode string, lapsed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if !sub.Expires.IsZero() && !sub.Expires.After(now) {
		lapsed = sub.Wants != unsubscribe
		sub.Expires = time.Time{}
		s.version++
	}
	if sub.Wants == "" {
		if sub.Expires.Sub(now) > sub.Lease/3 {
			return "", lapsed
		}
		return subscribe, lapsed
	}
	wait := 24 * time.Hour
	if n := max(sub.Asked-1, 0); n < 20 {
		wait = min(wait, s.Patience<<n)
	}
	if now.Sub(sub.AskedAt) < wait {
		return "", lapsed
	}
	return sub.Wants, lapsed
}

func (s *Subscriber) save() error {
	s.mu.Lock()
	version := s.version
	s.mu.Unlock()
	if err := s.store.save(version, s.present); err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	return nil
}

func (s *Subscriber) present() (uint64, []wish) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wishes := make([]wish, 0, len(s.subs))
	for _, sub := range s.subs {
		wishes = append(wishes, sub.wish)
	}
	slices.SortFunc(wishes, func(a, b wish) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Hub, b.Hub))
	})
	return s.version, wishes
}

func (s *Subscriber) report(err error) {
	if s.Report != nil {
		s.Report(err)
	}
}
