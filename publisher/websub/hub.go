package websub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs/durable"
)

// Options are the settings of a [Hub]. Zero values mean the defaults.
type Options struct {
	URL    string       // of the hub; "": it takes no subscriptions, and its own wait
	Source Source       // needed
	Doer   push.Doer    // follows no redirects; needed
	Dir    *durable.Dir // the hub's own; needed; the caller closes it after the hub

	// Permit decides whether a request may subscribe to a topic; the topic need
	// not exist. The client is told the error, with the status of its method
	// HTTPStatus, or 403 without one. Permit may add to the header of the answer.
	// It returns a word for the subscriber, for Still; "" if Still is not to be
	// asked. nil permits all.
	Permit func(answer http.Header, r *http.Request, topic string) (by string, err error)

	// Still reports whether the subscriber, in a word of Permit, may still have a
	// topic. It is asked before each delivery and should be fast. After no, the
	// subscriber is told and the subscription ends. nil: until the lease ends.
	Still func(by, topic string) bool

	Most         int // subscriptions; 0: 10,000
	MostOfTopic  int // subscriptions to a topic; 0: 1,000
	MostOfHost   int // subscriptions with callbacks of one host; 0: 1,000
	MostRequests int // requests to be verified; 0: 500; a twentieth of them of one host

	Parallel int           // requests in progress; 0: 64
	PerHost  int           // requests in progress to a host; 0: 4
	Timeout  time.Duration // of a request; 0: 10 s
	Verdict  time.Duration // longest wait of a client for the refusal of its callback; 0: none
	Gather   time.Duration // between notifications of a topic while it has little; 0: 1 s
	GiveUp   time.Duration // longest time of failures; 0: 7 days

	External []External // hubs besides this one

	Report func(error)      // told of damage, dropped subscribers and failing topics, by any goroutine; nil: not told
	Now    func() time.Time // nil: time.Now
}

// Leases of subscriptions.
const (
	day          = 24 * time.Hour
	defaultLease = 10 * day
	minLease     = 5 * time.Minute
	maxLease     = 30 * day
)

// A Hub distributes the topics of a Source. Its methods are safe for
// concurrent use.
type Hub struct {
	Options
	sender *push.Sender[*subscription]

	tick      sync.Mutex // one Tick at a time; guards the next six fields
	met       map[string]bool
	offered   []string // all external hubs have subscriptions to these topics
	offeredAt uint64   // members of the sender then
	topics    []string // with subscriptions
	members   uint64   // of the sender when topics were listed
	sources   sight

	told    map[string]string // last error of a topic; guarded by View
	failing map[string]bool   // external hubs with something left; likewise
}

// A sight is the state of the Source when the hub looked.
type sight struct {
	version uint64
	topics  []string          // the hub looked at these
	latest  map[string]string // position by topic
	gone    map[string]bool
}

// NewHub opens a hub. Damage is reported and lived with, and so is a full disk.
// An error means an unreadable directory or wrong options.
func NewHub(o Options) (*Hub, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	o.Most, o.MostOfTopic = cmp.Or(o.Most, 10_000), cmp.Or(o.MostOfTopic, 1000)
	o.MostOfHost, o.MostRequests = cmp.Or(o.MostOfHost, 1000), cmp.Or(o.MostRequests, 500)
	o.Parallel, o.PerHost = cmp.Or(o.Parallel, 64), cmp.Or(o.PerHost, 4)
	o.Timeout, o.Gather, o.GiveUp = cmp.Or(o.Timeout, 10*time.Second), cmp.Or(o.Gather, time.Second), cmp.Or(o.GiveUp, 7*day)
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Hub{Options: o, told: map[string]string{}, failing: map[string]bool{}, met: map[string]bool{}}
	file, err := stateFile(o.Dir, subscriptionsName)
	if err == nil {
		h.sender, err = push.Open(push.Options[*subscription]{File: file, Doer: discreet{o.Doer}, Agent: agent,
			Due: h.due, Next: h.next, Done: h.done, Parallel: o.Parallel, PerHost: o.PerHost, Timeout: o.Timeout, Gather: o.Gather,
			Report: func(err error) { h.report(fmt.Errorf("hub: %w", err)) }, Now: o.Now})
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h.update(func() {
		for s := range h.sender.All() {
			u, err := parseURL(s.Callback)
			if err != nil {
				h.report(fmt.Errorf("hub: callback %s: %w; the subscription is dropped", redact(s.Callback), err))
				h.sender.Drop(s)
				continue
			}
			s.Host, s.Proven = u.Host, s.Failures == 0 && !s.Expires.IsZero()
			h.met[s.Callback] = h.met[s.Callback] || s.External
		}
	})
	if err := h.meet(); err != nil { // external hubs miss nothing from now on
		h.report(err)
	}
	// A hub without subscriptions has its file, too, so that a lost one is noticed.
	if err := h.sender.Save(); err != nil {
		h.report(fmt.Errorf("hub: %w", err))
	}
	return h, nil
}

func (o *Options) check() error {
	if o.Source == nil || o.Doer == nil || o.Dir == nil {
		return errors.New("no source, no client or no directory")
	}
	if _, err := parseURL(o.URL); err != nil && o.URL != "" {
		return fmt.Errorf("URL %.80q: %w", o.URL, err)
	}
	for i, x := range o.External {
		if _, err := parseURL(x.URL); err != nil {
			return fmt.Errorf("external hub %.80q: %w", x.URL, err)
		}
		if slices.ContainsFunc(o.External[:i], func(y External) bool { return x.URL == y.URL }) || x.URL == o.URL {
			return fmt.Errorf("external hub %.80q is there twice", x.URL)
		}
	}
	return nil
}

// Tick starts the due verifications and deliveries and does not wait for them.
// An error means the subscriptions could not be saved: new ones wait, the others
// go on, and the next Tick tries again. Call it a few times a
// second. To stop, end ctx and call [Hub.Wait].
func (h *Hub) Tick(ctx context.Context) error {
	h.tick.Lock()
	defer h.tick.Unlock()
	err := h.meet()
	h.expire()
	h.look()
	return errors.Join(h.saved(h.sender.Tick(ctx)), err)
}

// saved adds the name of the hub to an error.
func (h *Hub) saved(err error) error {
	if err != nil {
		err = fmt.Errorf("hub: %w", err)
	}
	return err
}

// expire drops subscriptions after their end.
func (h *Hub) expire() {
	now := h.Now()
	var over []*subscription
	h.sender.View(func() {
		for s := range h.sender.All() {
			if s.External && h.external(s) == nil || !s.External && s.Asked == nil && !s.active(now) {
				over = append(over, s)
			}
		}
	})
	if len(over) > 0 {
		h.update(func() {
			for _, s := range over {
				if s.Asked == nil { // nobody has asked meanwhile
					h.sender.Drop(s)
				}
			}
		})
	}
}

// update changes subscriptions.
func (h *Hub) update(f func()) {
	_ = h.sender.Update(func() error { f(); return nil })
}

// look asks the Source for the positions of its topics if they may have
// changed.
func (h *Hub) look() {
	h.sender.View(func() {
		if n := h.sender.Members(); h.topics == nil || h.members != n {
			topics := map[string]bool{}
			for s := range h.sender.All() {
				topics[s.Topic] = true
			}
			h.topics, h.members = slices.Sorted(maps.Keys(topics)), n
		}
	})
	if len(h.topics) == 0 {
		h.sources = sight{}
		return
	}
	version := h.Source.Version()
	if h.sources.latest != nil && h.sources.version == version && slices.Equal(h.sources.topics, h.topics) {
		return
	}
	h.sources = sight{version, h.topics, make(map[string]string, len(h.topics)), map[string]bool{}}
	for _, topic := range h.topics {
		position, err := h.Source.Latest(topic)
		h.note(topic, err)
		h.sources.latest[topic] = position
		if errors.Is(err, ErrNoTopic) {
			h.sources.gone[topic] = true
		}
	}
}

// note reports the error of a topic when it begins or changes.
func (h *Hub) note(topic string, err error) {
	text := ""
	if err != nil && !errors.Is(err, ErrNoTopic) {
		text = err.Error()
	}
	var known bool
	h.sender.View(func() {
		known = h.told[topic] == text
		if h.told[topic] = text; text == "" {
			delete(h.told, topic)
		}
	})
	if !known && text != "" {
		h.report(fmt.Errorf("hub: topic %s: %w", topic, err))
	}
}

func (h *Hub) report(err error) {
	if h.Report != nil {
		h.Report(err)
	}
}

// Wait waits for the requests in progress.
func (h *Hub) Wait() { h.sender.Wait() }

// Close waits for the requests in progress and saves the positions.
func (h *Hub) Close() error { return h.saved(h.sender.Close()) }
