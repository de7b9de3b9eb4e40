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
	URL    string       // of the hub, as subscribers are told; "": it takes none, and those it has wait
	Source Source       // needed
	Doer   Doer         // needed
	Dir    *durable.Dir // a directory of the hub's own; needed; the caller closes it after the hub

	// Permit decides whether a request may subscribe to a topic, which may be
	// none; the error is told to who asked, with the status of its method
	// HTTPStatus, or 403 if it has none. What the answer needs besides, Permit
	// adds to its header. It returns a word for who asked, for Still; "" if that
	// is not to be asked. nil: everybody may.
	Permit func(answer http.Header, r *http.Request, topic string) (by string, err error)

	// Still tells whether who subscribed to a topic, as a word of Permit, may
	// have it. It is asked before each delivery, so it should not take long; if
	// the answer is no the subscriber is told so and the subscription ends. nil:
	// whoever was permitted may until the lease ends.
	Still func(by, topic string) bool

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
	Verdict  time.Duration // for how long who asks waits to hear that the Doer refuses the callback; 0: not at all
	Gather   time.Duration // between notifications of a topic while it has little; 0: 1 s
	Shortest time.Duration // until the second attempt; 0: 1 s; then twice that, and so on
	Longest  time.Duration // between attempts; 0: 1 h
	GiveUp   time.Duration // for how long; 0: 7 days

	Method   Method     // of signatures; "": SHA256
	External []External // hubs besides this one

	Report func(error)      // told, by any goroutine, what was damaged, dropped or cannot be read or kept; nil: nobody is
	Now    func() time.Time // nil: time.Now
}

// A Hub distributes the topics of a Source. Its methods are safe for
// concurrent use.
type Hub struct {
	Options
	store   *store[subscription]
	workers sync.WaitGroup

	tick    sync.Mutex // one Tick at a time; guards what follows
	savedAt time.Time
	met     map[string]bool // external hubs that had their topics
	seen    sight

	mu      sync.Mutex
	subs    map[key]*subscription
	topics  []string // that somebody has subscribed to; nil if that is to be found out
	offered []string // topics that every external hub is subscribed to; nil likewise
	version uint64   // of what is to be saved
	running load
	told    map[string]string // the last error of a topic
	failing map[string]bool   // external hubs that have not taken all there was
	closed  bool
}

// A sight is how the Source stood when it was looked at.
type sight struct {
	version uint64
	topics  []string          // that were looked at
	latest  map[string]string // position by topic
	gone    map[string]bool
}

// NewHub opens a hub. Damage that it finds is reported and lived with, and so is
// a full disk; an error means that the directory cannot be read or that the
// options are wrong.
func NewHub(o Options) (*Hub, error) {
	if o.Source == nil || o.Doer == nil || o.Dir == nil {
		return nil, errors.New("hub: no source, no client or no directory")
	}
	if _, err := parseURL(o.URL); err != nil && o.URL != "" {
		return nil, fmt.Errorf("hub: URL %.80q: %w", o.URL, err)
	}
	for i, x := range o.External {
		if _, err := parseURL(x.URL); err != nil {
			return nil, fmt.Errorf("hub: external hub %.80q: %w", x.URL, err)
		}
		if slices.ContainsFunc(o.External[:i], func(y External) bool { return x.URL == y.URL }) || x.URL == o.URL {
			return nil, fmt.Errorf("hub: external hub %.80q is there twice", x.URL)
		}
	}
	if o.Method = cmp.Or(o.Method, SHA256); methods[o.Method] == nil {
		return nil, fmt.Errorf("hub: method %.20q of signatures is none of sha1, sha256, sha384, sha512", o.Method)
	}
	o.fill()
	if o.MinLease > o.MaxLease {
		return nil, fmt.Errorf("hub: shortest lease %v is above the longest, %v", o.MinLease, o.MaxLease)
	}
	h := &Hub{Options: o, subs: map[key]*subscription{}, told: map[string]string{}, failing: map[string]bool{}, met: map[string]bool{},
		running: load{hosts: map[string]int{}}}
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
		h.met[all[i].Callback] = h.met[all[i].Callback] || all[i].External
	}
	if err := h.meet(); err != nil { // so that external hubs miss nothing from now on
		h.report(err)
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
// for them. An error means that the subscriptions could not be written down:
// those that are new wait, the others go on, and the next Tick tries again. It
// is to be called a few times a second, by one who ends ctx when no request is
// to go on, and then calls [Hub.Wait].
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

// room tells whether one more request of s may be in progress.
func (h *Hub) room(s *subscription) bool {
	l := &h.running
	return l.all < h.Parallel && l.hosts[s.host] < h.PerHost && (s.proven || l.unproven < max(1, h.Parallel/2))
}

// start gives those a turn that are due, the one that waited longest first,
// as long as there is room.
func (h *Hub) start(ctx context.Context, now time.Time) {
	h.look()
	latest, gone, kept := h.seen.latest, h.seen.gone, h.store.kept()
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
		case s.since > kept: // nothing comes of what a crash would forget
		case h.URL == "" && !s.External: // until there is a hub of ours again
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

// look asks the Source where its topics stand, if that may have changed.
func (h *Hub) look() {
	topics := h.subscribed()
	if len(topics) == 0 {
		h.seen = sight{}
		return
	}
	version := h.Source.Version()
	if h.seen.latest != nil && h.seen.version == version && slices.Equal(h.seen.topics, topics) {
		return
	}
	h.seen = sight{version, topics, make(map[string]string, len(topics)), map[string]bool{}}
	for _, topic := range topics {
		position, err := h.Source.Latest(topic)
		h.note(topic, err)
		h.seen.latest[topic] = position
		if errors.Is(err, ErrNoTopic) {
			h.seen.gone[topic] = true
		}
	}
}

// subscribed returns the topics that somebody has subscribed to.
func (h *Hub) subscribed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		topics := map[string]bool{}
		for k := range h.subs {
			topics[k.topic] = true
		}
		h.topics = slices.Sorted(maps.Keys(topics))
	}
	return h.topics
}

// add puts a subscription in; h.mu is held.
func (h *Hub) add(s *subscription) {
	h.subs[s.key()] = s
	h.topics = nil
	h.version++
	s.since = h.version
}

// work gives a subscription its turn.
func (h *Hub) work(ctx context.Context, s *subscription, latest string, gone bool) {
	h.mu.Lock()
	asked := s.Asked
	h.mu.Unlock()
	switch {
	case gone:
		h.deny(ctx, s)
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
	h.topics, h.offered = nil, nil
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
