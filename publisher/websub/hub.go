package websub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs/durable"
)

// Options are the settings of a [Hub]. Zero values mean the defaults.
type Options struct {
	URL    string       // of the hub, as subscribers are told; needed
	Source Source       // needed
	Doer   Doer         // needed
	Dir    *durable.Dir // a directory of the hub's own; needed; the caller closes it after the hub

	// Permit decides whether a request may subscribe to a topic, which may be
	// none; the error is told to who asked, with status 403. It is not asked
	// again before the subscription is renewed. nil: everybody may.
	Permit func(r *http.Request, topic string) error

	Lease    time.Duration // of a subscription that asks for none; 0: 10 days
	MinLease time.Duration // what less is raised to; 0: 5 minutes
	MaxLease time.Duration // what more is cut to; 0: 30 days

	Most         int // subscriptions; 0: 10,000
	MostOfTopic  int // subscriptions to a topic; 0: 1,000
	MostOfHost   int // subscriptions with callbacks of one host; 0: 1,000
	MostRequests int // requests that wait to be verified; 0: 500; a twentieth of them of one host

	Parallel int           // requests in progress; 0: 64
	PerHost  int           // requests in progress to a host; 0: 4
	Timeout  time.Duration // of a request; 0: 10 s
	Gather   time.Duration // between notifications of a topic while it has little; 0: 1 s
	Shortest time.Duration // until the second attempt; 0: 1 s; then twice that, and so on
	Longest  time.Duration // between attempts; 0: 1 h
	GiveUp   time.Duration // for how long; 0: 7 days

	Method   Method    // of signatures; "": SHA256
	External *External // a hub besides this one; nil: none

	Report func(error)      // told, by any goroutine, what was damaged, dropped or cannot be read; nil: nobody is
	Now    func() time.Time // nil: time.Now
}

// An External hub is told of all topics of the Source.
type External struct {
	URL string
	// Payload has each notification POSTed to the hub, with the links that a
	// subscriber gets, for it to pass on (ResourceSync Change Notification,
	// 4.1). Otherwise the hub is pinged with hub.mode=publish and fetches the
	// topic (6); what came between two fetches is then seen in the topic alone.
	Payload bool
}

// A Hub distributes the topics of a Source. Its methods are safe for
// concurrent use.
type Hub struct {
	Options
	store   *store[subscription]
	workers sync.WaitGroup

	tick    sync.Mutex // one Tick at a time; guards what follows
	savedAt time.Time

	mu      sync.Mutex
	subs    map[key]*subscription
	version uint64 // of what is to be saved
	running load
	told    map[string]string // the last error of a topic
	closed  bool
}

// A key names a subscription (5.1). Those of the external hub are of a kind of
// their own, so that nobody can replace them.
type key struct {
	topic, callback string
	external        bool
}

// A subscription is one as it stands in the file, and what is known of it
// besides. It is guarded by Hub.mu.
type subscription struct {
	Topic    string    `json:"topic"`
	Callback string    `json:"callback"`
	External bool      `json:"external,omitempty"`
	Secret   string    `json:"secret,omitempty"`
	Position string    `json:"position"`          // delivered up to there
	Expires  time.Time `json:"expires,omitzero"`  // zero: not verified, or never
	Failing  time.Time `json:"failing,omitzero"`  // since then every attempt has failed
	Failures int       `json:"failures,omitzero"` // attempts since then
	Next     time.Time `json:"next,omitzero"`     // no attempt before
	Asked    *intent   `json:"asked,omitempty"`   // what is to be verified

	host    string
	busy    bool      // a worker has it
	proven  bool      // the last delivery succeeded, and fast
	turn    time.Time // when it was last given one
	looked  string    // the latest position as of when nothing more was to be said
	lastErr string
}

// An intent is a request that was accepted and not yet verified.
type intent struct {
	Mode     string        `json:"mode"`
	Lease    time.Duration `json:"lease,omitzero"`
	Secret   string        `json:"secret,omitempty"`
	Position string        `json:"position,omitempty"` // when it came
	Attempts int           `json:"attempts,omitzero"`
	Next     time.Time     `json:"next,omitzero"`
}

func (s *subscription) key() key { return key{s.Topic, s.Callback, s.External} }

// active tells whether it gets content.
func (s *subscription) active(now time.Time) bool { return s.External || s.Expires.After(now) }

// NewHub opens a hub. Damage that it finds is reported and lived with; an
// error means that the directory cannot be used or that the options are wrong.
func NewHub(o Options) (*Hub, error) {
	if o.Source == nil || o.Doer == nil || o.Dir == nil {
		return nil, errors.New("hub: no source, no client or no directory")
	}
	if _, err := parseURL(o.URL); err != nil {
		return nil, fmt.Errorf("hub: URL %.80q: %w", o.URL, err)
	}
	if o.External != nil {
		if _, err := parseURL(o.External.URL); err != nil {
			return nil, fmt.Errorf("hub: external hub %.80q: %w", o.External.URL, err)
		}
	}
	if o.Method = cmp.Or(o.Method, SHA256); methods[o.Method] == nil {
		return nil, fmt.Errorf("hub: method %.20q of signatures is none of sha1, sha256, sha384, sha512", o.Method)
	}
	o.fill()
	if o.MinLease > o.MaxLease {
		return nil, fmt.Errorf("hub: shortest lease %v is above the longest, %v", o.MinLease, o.MaxLease)
	}
	h := &Hub{Options: o, subs: map[key]*subscription{}, told: map[string]string{}, running: load{hosts: map[string]int{}}}
	s, all, damage, err := openStore[subscription](o.Dir, "subscriptions")
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if h.store = s; damage != nil {
		h.report(fmt.Errorf("hub: %w", damage))
	}
	for i := range all {
		u, err := parseURL(all[i].Callback)
		if err != nil {
			h.report(fmt.Errorf("hub: callback %s: %w; the subscription is dropped", redact(all[i].Callback), err))
			continue
		}
		all[i].host, all[i].proven = u.Host, all[i].Failures == 0 && !all[i].Expires.IsZero()
		h.subs[all[i].key()] = &all[i]
	}
	return h, nil
}

func (o *Options) fill() {
	const day = 24 * time.Hour
	o.Lease, o.MinLease, o.MaxLease = cmp.Or(o.Lease, 10*day), cmp.Or(o.MinLease, 5*time.Minute), cmp.Or(o.MaxLease, 30*day)
	o.Most, o.MostOfTopic = cmp.Or(o.Most, 10_000), cmp.Or(o.MostOfTopic, 1000)
	o.MostOfHost, o.MostRequests = cmp.Or(o.MostOfHost, 1000), cmp.Or(o.MostRequests, 500)
	o.Parallel, o.PerHost = cmp.Or(o.Parallel, 64), cmp.Or(o.PerHost, 4)
	o.Timeout, o.Gather = cmp.Or(o.Timeout, 10*time.Second), cmp.Or(o.Gather, time.Second)
	o.Shortest, o.Longest = cmp.Or(o.Shortest, time.Second), cmp.Or(o.Longest, time.Hour)
	o.GiveUp = cmp.Or(o.GiveUp, 7*day)
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Tick starts the verifications and deliveries that are due; it does not wait
// for them. It is to be called a few times a second, by one who ends ctx when
// no request is to go on, and then calls [Hub.Wait].
func (h *Hub) Tick(ctx context.Context) error {
	h.tick.Lock()
	defer h.tick.Unlock()
	now := h.Now()
	var err error
	if now.Sub(h.savedAt) >= time.Second || now.Before(h.savedAt) {
		err = h.save()
		h.savedAt = now
	}
	err = errors.Join(err, h.meet())
	h.start(ctx, now)
	return err
}

// meet sees that the external hub has a subscription to every topic. That it
// begins is on stable storage before anything comes of it.
func (h *Hub) meet() error {
	if h.External == nil {
		return nil
	}
	added := false
	for _, topic := range h.Source.Topics() {
		k := key{topic, h.External.URL, true}
		h.mu.Lock()
		known := h.subs[k] != nil
		h.mu.Unlock()
		if known {
			continue
		}
		position, err := h.Source.Latest(topic)
		if err != nil {
			continue // another time
		}
		u, _ := parseURL(k.callback) // NewHub has seen it
		h.mu.Lock()
		h.subs[k] = &subscription{Topic: topic, Callback: k.callback, External: true, Position: position, host: u.Host}
		h.version++
		h.mu.Unlock()
		added = true
	}
	if !added {
		return nil
	}
	return h.save()
}

// A load is how many requests are in progress.
type load struct {
	all, unproven int
	hosts         map[string]int
}

func (l *load) add(s *subscription, proven bool, n int) {
	l.all += n
	if !proven {
		l.unproven += n
	}
	if l.hosts[s.host] += n; l.hosts[s.host] == 0 {
		delete(l.hosts, s.host)
	}
}

// room tells whether one more request of s may be in progress.
func (h *Hub) room(s *subscription) bool {
	l := &h.running
	return l.all < h.Parallel && l.hosts[s.host] < h.PerHost && (s.proven || l.unproven < max(1, h.Parallel/2))
}

// start gives those a turn that are due, the one that waited longest first,
// as long as there is room.
func (h *Hub) start(ctx context.Context, now time.Time) {
	latest := map[string]string{}
	gone := map[string]bool{}
	for _, topic := range h.topics() {
		position, err := h.Source.Latest(topic)
		h.note(topic, err)
		latest[topic], gone[topic] = position, errors.Is(err, ErrNoTopic)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || ctx.Err() != nil {
		return
	}
	var due []*subscription
	for k, s := range h.subs {
		position := latest[s.Topic]
		switch {
		case s.busy:
		case h.outdated(s, now):
			h.drop(k)
		case gone[s.Topic], s.Asked != nil && !now.Before(s.Asked.Next),
			s.active(now) && position != "" && position != s.looked && !now.Before(s.Next):
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b *subscription) int {
		return cmp.Or(a.turn.Compare(b.turn), strings.Compare(a.Callback, b.Callback), strings.Compare(a.Topic, b.Topic))
	})
	for _, s := range due {
		if !h.room(s) {
			continue
		}
		s.turn, s.busy = now, true
		proven := s.proven
		h.running.add(s, proven, 1)
		h.workers.Go(func() {
			h.work(ctx, s, latest[s.Topic], gone[s.Topic])
			h.mu.Lock()
			defer h.mu.Unlock()
			s.busy = false
			h.running.add(s, proven, -1)
		})
	}
}

// outdated tells whether a subscription is over; h.mu is held.
func (h *Hub) outdated(s *subscription, now time.Time) bool {
	if s.External {
		return h.External == nil || s.Callback != h.External.URL
	}
	return s.Asked == nil && !s.active(now)
}

// topics returns those that somebody has subscribed to.
func (h *Hub) topics() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := map[string]bool{}
	for k := range h.subs {
		topics[k.topic] = true
	}
	return slices.Sorted(maps.Keys(topics))
}

// work gives a subscription its turn.
func (h *Hub) work(ctx context.Context, s *subscription, latest string, gone bool) {
	h.mu.Lock()
	asked := s.Asked
	h.mu.Unlock()
	switch {
	case gone:
		h.deny(ctx, s, "the topic is no longer there")
	case asked != nil && !h.Now().Before(asked.Next):
		h.verify(ctx, s, *asked)
	default:
		h.deliver(ctx, s, latest)
	}
}

// end ends a subscription, unless it was asked for anew.
func (h *Hub) end(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Asked != nil && s.Asked.Mode == subscribe {
		s.Expires, s.Failing, s.Failures, s.Next = time.Time{}, time.Time{}, 0, time.Time{}
		h.version++
		return
	}
	h.drop(s.key())
}

// drop takes a subscription out; h.mu is held.
func (h *Hub) drop(k key) {
	delete(h.subs, k)
	h.version++
}

// save puts all subscriptions on stable storage.
func (h *Hub) save() error {
	h.mu.Lock()
	version := h.version
	h.mu.Unlock()
	if err := h.store.save(version, h.present); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

func (h *Hub) present() (uint64, []subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]subscription, 0, len(h.subs))
	for _, s := range h.subs {
		one := *s
		if s.Asked != nil {
			asked := *s.Asked
			one.Asked = &asked
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b subscription) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Callback, b.Callback))
	})
	return h.version, all
}

// Wait waits for the requests in progress.
func (h *Hub) Wait() { h.workers.Wait() }

// Close waits for the requests in progress and writes down what was delivered.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.Wait()
	return h.save()
}

// note reports the error of a topic when it begins or changes.
func (h *Hub) note(topic string, err error) {
	text := ""
	if err != nil && !errors.Is(err, ErrNoTopic) {
		text = err.Error()
	}
	h.mu.Lock()
	known := h.told[topic] == text
	if h.told[topic] = text; text == "" {
		delete(h.told, topic)
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
	External  bool      // it is that of the external hub
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
