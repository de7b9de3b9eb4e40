package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
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

	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// SubscriberOptions are the settings of a [Subscriber]. Zero values mean the defaults.
type SubscriberOptions struct {
	// Callback is the URL at which hubs reach the Subscriber's ServeHTTP. Each subscription has
	// a URL below it. Needed.
	Callback string
	Client   *http.Client // needed

	// Receive takes a notification. It must have put what it needs of it on stable storage when
	// it returns nil; after an error the hub sends it again. Needed.
	Receive func(topic string, body []byte) error

	Lease    time.Duration    // to ask for; 0: 10 days
	MaxBody  int64            // bytes of a notification; 0: 16 MiB
	Timeout  time.Duration    // of a request; 0: 30 s
	Patience time.Duration    // until a silent hub is asked again; 0: 5 minutes; doubled each time up to a day
	Report   func(error)      // called with denials and failures of hubs, by any goroutine; needed
	Now      func() time.Time // nil: time.Now
}

// A Subscriber receives the topics of any Source by the hubs it names. Its methods are safe for
// concurrent use.
//
// Each subscription has a random callback and secret of its own, and lives as long as the
// Subscriber: the next delivery for an earlier process is answered with 410, which ends it at the
// hub. A wrong signature is refused with 403. Receive may see a notification twice.
// Subscriptions are renewed when a third of their lease is left.
type Subscriber struct {
	SubscriberOptions
	base *url.URL
	tick sync.Mutex // one Tick at a time

	mu   sync.Mutex // guards the rest
	subs map[string]*subscribed
}

// subscribed is one subscription; mu of the Subscriber guards what changes.
type subscribed struct {
	id, topic, hub, secret string

	lease   time.Duration // as last verified; 0: never
	expires time.Time     // zero: not verified
	wants   string        // hub.mode to be verified
	asked   int           // times since the last verification
	askedAt time.Time     // the last of them
}

// NewSubscriber returns a Subscriber without subscriptions.
func NewSubscriber(o SubscriberOptions) (*Subscriber, error) {
	base, err := parseURL(o.Callback)
	if err != nil || base.RawQuery != "" {
		return nil, fmt.Errorf("subscriber: callback %.80q: %w", o.Callback, cmp.Or(err, errors.New("has a query")))
	}
	o.Lease, o.MaxBody = cmp.Or(o.Lease, defaultLease), cmp.Or(o.MaxBody, 16<<20)
	o.Timeout, o.Patience = cmp.Or(o.Timeout, 30*time.Second), cmp.Or(o.Patience, 5*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Subscriber{SubscriberOptions: o, base: base, subs: map[string]*subscribed{}}, nil
}

// Subscribe subscribes to the topic of a resource and returns the topic. A hub has accepted the
// request when Subscribe returns; content follows the verification. A second call renews the
// subscription.
func (s *Subscriber) Subscribe(ctx context.Context, resource string) (topic string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	topic, hubs, err := s.discover(ctx, resource)
	if err != nil {
		return "", fmt.Errorf("discover %s: %w", resource, err)
	}
	var errs []error
	for _, hub := range hubs {
		sub, fresh := s.want(topic, hub)
		err := s.ask(ctx, sub, subscribe)
		if err == nil {
			return topic, nil
		}
		if errs = append(errs, err); fresh {
			s.forget(sub)
		}
	}
	return topic, errors.Join(errs...)
}

// want returns the subscription to a topic at a hub and makes it if need be.
func (s *Subscriber) want(topic, hub string) (sub *subscribed, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if sub.topic == topic && sub.hub == hub {
			return sub, false
		}
	}
	sub = &subscribed{id: rand.Text(), topic: topic, hub: hub, secret: rand.Text() + rand.Text()}
	s.subs[sub.id] = sub
	return sub, true
}

func (s *Subscriber) forget(sub *subscribed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub.id)
}

// Unsubscribe asks the hubs of all topics to end them. Content is refused from then on; Tick
// asks silent hubs again.
func (s *Subscriber) Unsubscribe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var errs []error
	for _, sub := range s.all() {
		errs = append(errs, s.ask(ctx, sub, unsubscribe))
	}
	return errors.Join(errs...)
}

func (s *Subscriber) all() (list []*subscribed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		list = append(list, sub)
	}
	slices.SortFunc(list, func(a, b *subscribed) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), strings.Compare(a.hub, b.hub))
	})
	return list
}

// ask makes one request of a hub (5.1).
func (s *Subscriber) ask(ctx context.Context, sub *subscribed, mode string) error {
	form := url.Values{"hub.mode": {mode}, "hub.topic": {sub.topic}, "hub.callback": {s.base.JoinPath(sub.id).String()}}
	if mode == subscribe {
		form.Set("hub.secret", sub.secret)
		form.Set("hub.lease_seconds", strconv.FormatInt(int64(s.Lease/time.Second), 10))
	}
	s.mu.Lock() // before the request: the hub may verify it at once
	if sub.wants != mode {
		sub.wants, sub.asked = mode, 0
	}
	sub.asked++
	sub.askedAt = s.Now()
	s.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.hub, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", formType)
	req.Header.Set("User-Agent", agent)
	resp, err := s.Client.Do(req)
	if err != nil {
		return fmt.Errorf("hub %s: %w", sub.hub, explain(err, s.Timeout))
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if mode == unsubscribe && resp.StatusCode == http.StatusNotFound {
		s.forget(sub) // the hub does not know of it
		return nil
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("hub %s answered %d: %.200q", sub.hub, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}

// Tick asks hubs without a verification again, and renews leases near their end. It waits for
// the answers. Call it about once a minute.
func (s *Subscriber) Tick(ctx context.Context) {
	s.tick.Lock()
	defer s.tick.Unlock()
	for _, sub := range s.all() {
		mode, lapsed := s.due(sub)
		if lapsed {
			s.Report(fmt.Errorf("subscriber: %s: the lease has ended and hub %s did not renew it; notifications may be missing since then", sub.topic, sub.hub))
		}
		if mode == "" {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, s.Timeout)
		err := s.ask(limited, sub, mode)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.Report(fmt.Errorf("subscriber: %s: %w", sub.topic, err))
		}
	}
}

// due returns the hub.mode of a request to be made now, "" for none, and whether the lease has
// ended since the last Tick.
func (s *Subscriber) due(sub *subscribed) (mode string, lapsed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	ended := !sub.expires.IsZero() && !sub.expires.After(now)
	wait := day
	if n := max(sub.asked-1, 0); n < 20 {
		wait = min(wait, s.Patience<<n)
	}
	switch {
	case sub.wants == "" && (ended || sub.expires.Sub(now) <= sub.lease/3):
		mode = subscribe
	case sub.wants != "" && now.Sub(sub.askedAt) >= wait:
		mode = sub.wants
	}
	if ended {
		sub.expires = zeroTime
	}
	return mode, ended && sub.wants != unsubscribe
}

// ServeHTTP answers hubs: it confirms our own requests (5.3) and receives content (7). The last
// segment of the path names the subscription; the rest is free.
func (s *Subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	sub := s.subs[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	ended := sub == nil || sub.wants == unsubscribe
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case ended && r.Method == http.MethodPost:
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
	mode, word := args.Get("hub.mode"), args.Get("hub.challenge")
	if args.Get("hub.topic") != sub.topic {
		http.Error(w, "the topic is another one", http.StatusNotFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode == denied {
		if sub.wants == unsubscribe {
			delete(s.subs, sub.id)
			return
		}
		// The hub is asked again later.
		sub.wants, sub.expires, sub.askedAt = subscribe, zeroTime, s.Now()
		sub.asked = max(sub.asked, 1)
		s.Report(fmt.Errorf("subscriber: hub %s denies %s: %.200q", sub.hub, sub.topic, args.Get("hub.reason")))
		return
	}
	lease, err := strconv.ParseUint(args.Get("hub.lease_seconds"), 10, 32)
	if sub.wants != mode || mode == "" || word == "" || mode == subscribe && (err != nil || lease == 0) {
		http.Error(w, "this was not asked for", http.StatusNotFound)
		return
	}
	sub.wants, sub.asked = "", 0
	sub.lease = time.Duration(lease) * time.Second
	sub.expires = s.Now().Add(sub.lease)
	if mode == unsubscribe {
		delete(s.subs, sub.id)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, word)
}

// content receives a notification.
func (s *Subscriber) content(w http.ResponseWriter, r *http.Request, sub *subscribed) {
	in, err := web.NewBodyReader(w, r, s.MaxBody, web.BodyIdle)
	var body []byte
	if err == nil {
		body, err = in.All()
	}
	if err != nil {
		web.Plain(w, r, err)
		return
	}
	if err := Verify(r.Header.Get(signatureField), sub.secret, body); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if err := s.Receive(sub.topic, body); err != nil {
		s.Report(fmt.Errorf("subscriber: %s: %w", sub.topic, err))
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// errNoHub is the error of a resource without a hub or a topic.
var errNoHub = errors.New("names no hub or no topic")

// maxHead is how many bytes of a document are read for links.
const maxHead = 1 << 20

// discover asks a resource for its topic and hubs (4), by Link headers or by the links at the
// head of a ResourceSync document. All URLs are absolute.
func (s *Subscriber) discover(ctx context.Context, resource string) (topic string, hubs []string, err error) {
	if _, err := parseURL(resource); err != nil {
		return "", nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, resource, nil)
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("User-Agent", agent)
	resp, err := s.Client.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", nil, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	links := map[string][]string{RelHub: wellknown.Links(resp.Header, RelHub), RelSelf: wellknown.Links(resp.Header, RelSelf)}
	if len(links[RelHub]) == 0 || len(links[RelSelf]) != 1 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxHead))
		if err != nil {
			return "", nil, err
		}
		_, head, err := sitemap.NewReader(bytes.NewReader(text)).ReadHead()
		if err != nil {
			return "", nil, errNoHub
		}
		clear(links)
		for _, l := range head.Links {
			links[l.Rel] = append(links[l.Rel], l.Href)
		}
	}
	if len(links[RelHub]) == 0 || len(links[RelSelf]) != 1 {
		return "", nil, errNoHub
	}
	base := resp.Request.URL
	for _, ref := range append(links[RelSelf], links[RelHub]...) {
		u, err := base.Parse(ref)
		if err == nil {
			_, err = parseURL(u.String())
		}
		if err != nil {
			return "", nil, fmt.Errorf("link %.80q: %w", ref, err)
		}
		hubs = append(hubs, u.String())
	}
	return hubs[0], hubs[1:], nil
}
