// Package hub tells URLs what changes. Each of them has a subscription:
//
//	subscriber   asked for a topic of the [Source] by WebSub and confirmed it
//	hub          a hub of somebody else, see [External]: it has every topic
//	queue        the callback of a queue: it is told of every job that changes
//
// A subscription is a cursor: a position in its topic, or the number and time of an event of
// its queue. What has not been delivered is what the cursor has not passed, so nothing is
// queued here, a backlog costs nothing, and a URL that does not answer holds nothing up. The
// content of a topic is read from the Change Lists by the Source; what happened in a queue is
// read from the journal, and what the journal has released from the index of the queue, which
// knows the last event of each job and the jobs culled within the tombstone age. Past that, one
// message names the gap.
//
// One request is in progress to a subscription at a time, so bodies arrive in order, at least
// once. 2xx is the receipt. 410 ends a subscriber, and stops a callback until the queue has
// another URL. After any other answer, or none, the delivery is tried again: after a second,
// then after twice the pause before, at last every hour, or later if Retry-After says so. A
// subscriber that fails for seven days is dropped; external hubs and callbacks are not.
// Requests are limited in all and for each host. New, slow and failing receivers share half of
// them and do not hold up the others.
//
// # WebSub
//
// The hub implements the W3C Recommendation of 23 January 2018. A subscriber POSTs to
// [Hub.ServeHTTP], the hub confirms with a GET of the callback (5.3) and from then on POSTs
// content with Link and, under a secret, X-Hub-Signature. Before a delivery the hub asks
// whether the subscriber still has the right; without it the subscription is denied (5.2) and
// ends. [Subscriber] is the other end. Left out: content from other publishers
// (hub.mode=publish), and discovery by links in feeds and HTML pages.
//
// # Callbacks
//
// The properties of a queue name scheme and host of its callback; the rest of the URL is a
// secret in a file of the home. It gets the state of the job in JSON, as a GET of the job would
// return it at the moment:
//
//	POST /mc HTTP/1.1
//	Content-Type: application/json
//	Cutie-Queue: jobs
//	Cutie-Event: consume
//	Cutie-Sequence: 17             number of the event
//	Cutie-Delivery: 6d0f…          the same at every attempt
//	Cutie-Signature: t=1766275200,v1=5257a8…
//
// The state of a culled job has identifier, queueState and sequence only. The last change of
// each job counts: earlier ones are passed over. Of a change that has left the journal the event
// is what the status of the job implies: submit, requeue, consume, delete or cull. A queue that
// gets its first callback begins with the next event, after a crash perhaps with earlier ones.
//
// # State
//
// Each subscription with its cursor is a row of the table of the home, in JSON; rows have
// secrets. A request is on stable storage before the answer 202, a new subscription before its
// first delivery: on a full disk new ones wait. The rows of cursors that have moved are written
// once a second; after a crash later bodies are delivered again.
//
//	no row     there is no such subscription
//	complete   taken up
//	damaged    removed and reported: the subscriber has to subscribe again, an external hub
//	           gets the topic from now on, a callback begins with the first event in the journal
//
// One more row, [begun], says that a hub was here, so that a lost table is noticed: then all
// rows count as damaged.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/outbound"
	"cutie/queuefs/table"
)

// Options are the settings of a [Hub]. Zero values mean the defaults.
type Options struct {
	Home    string           // directory of the home, for the secrets of callbacks; needed
	Rows    table.Rows       // the subscriptions, see [queuefs.Service.Subscriptions]; needed
	Client  *outbound.Client // makes the requests; needed
	Source  Source           // of the topics; nil: there are none
	Service *queuefs.Service // whose queues have callbacks; nil: none have
	URL     string           // of the hub; "": it takes no subscriptions, and its subscribers wait

	// Permit decides whether a request may subscribe to a topic; the topic need not exist. The
	// client sees the error, with the status of its method HTTPStatus, or 403 without one.
	// Permit may add to the header of the answer. It returns a word for the subscriber, for
	// Still; "" if Still is not to be asked. nil permits all.
	Permit func(answer http.Header, r *http.Request, topic string) (by string, err error)

	// Still reports whether the subscriber, in a word of Permit, may still have a topic. It is
	// asked before each delivery and should be fast. nil: until the lease ends.
	Still func(by, topic string) bool

	External []External // hubs besides this one

	Most         int // subscribers; 0: 10,000
	MostOfTopic  int // subscribers of a topic; 0: 1,000
	MostOfHost   int // subscribers with callbacks of one host; 0: 1,000
	MostRequests int // requests to be verified; 0: 500; a twentieth of them of one host

	Parallel int           // requests in progress; 0: 64
	PerHost  int           // requests in progress to a host; 0: 4; four times as many of callbacks
	Timeout  time.Duration // of a request; 0: 10 s; three times as long for callbacks
	Verdict  time.Duration // longest wait of a client for the refusal of its callback; 0: none
	Gather   time.Duration // between notifications of a topic while it has little; 0: 1 s
	GiveUp   time.Duration // longest time of failures of a subscriber; 0: 7 days

	// Idle reports whether another process delivers: then nothing is sent, and the cursors of
	// callbacks follow the queues, [Trail] behind. nil: never.
	Idle func() bool

	// Turned is called by any goroutine when deliveries to an external hub or to the callback
	// of a queue begin to fail, and with nil when they succeed again; nil: not called.
	Turned func(receiver string, err error)
	Report func(error)      // called with damage, losses and dropped subscribers, by any goroutine; nil: not called
	Now    func() time.Time // nil: time.Now
}

// A Hub delivers topics and the changes of queues. Its methods are safe for concurrent use.
type Hub struct {
	Options
	plain   *http.Client // follows no redirects
	secrets secrets
	reading sync.Mutex // one reader of the Source at a time; guards shared
	shared  shared
	workers sync.WaitGroup

	tick      sync.Mutex // one Tick at a time; guards the next fields; before saving and mu
	savedAt   time.Time
	whole     bool // no row was lost; not changed after New
	look      look
	met       map[string]bool // external hubs that have had their first topics
	offered   []string        // all external hubs have subscriptions to these topics
	offeredAt uint64          // members then
	queues    queues

	saving sync.Mutex // one commit at a time; before mu

	mu          sync.Mutex // guards the rest, and all fields of subscriptions but where they say otherwise
	subs        map[string]*subscription
	members     uint64          // changes with each subscription that comes or goes
	unsaved     map[string]bool // keys of subscriptions whose rows are to be written, or to go
	running     load
	failing     map[string]bool   // receivers that Turned was told of
	topicErrors map[string]string // last error of a topic
	closed      bool
}

const agent = home.Scheme // User-Agent of requests

// New opens a hub. Damage is reported and lived with, and so is a full disk. An error means
// an unreadable table or file of secrets, or wrong options.
func New(o Options) (*Hub, error) {
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
	plain := *o.Client.HTTP()
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h := &Hub{Options: o, plain: &plain, met: map[string]bool{}, queues: queues{seen: map[string]seen{}},
		subs: map[string]*subscription{}, unsaved: map[string]bool{}, running: load{hosts: map[string]int{}},
		failing: map[string]bool{}, topicErrors: map[string]string{}}
	if err := errors.Join(h.secrets.load(o.Home), h.load()); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	// External hubs and callbacks miss nothing from now on.
	h.report(errors.Join(h.meetHubs(), h.meetQueues(context.Background()), h.save()))
	return h, nil
}

func (o *Options) check() error {
	if o.Home == "" || o.Rows == (table.Rows{}) || o.Client == nil {
		return errors.New("no home, no table, or no client")
	}
	if _, err := parseURL(o.URL); err != nil && o.URL != "" {
		return fmt.Errorf("URL %.80q: %w", o.URL, err)
	}
	if o.Source == nil && (o.URL != "" || len(o.External) > 0) {
		return errors.New("no source of topics")
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

// Tick starts the due verifications and deliveries and does not wait for them. An error means
// that something could not be read or saved; the rest goes on, and the next Tick tries again.
// Call it a few times a second: what did not change costs nothing. To stop, end ctx and call
// [Hub.Wait].
func (h *Hub) Tick(ctx context.Context) error {
	h.tick.Lock()
	defer h.tick.Unlock()
	if h.idle() {
		return h.trail(ctx)
	}
	var errs []error
	if err := h.secrets.load(h.Home); err != nil {
		errs = append(errs, fmt.Errorf("hub: %w; the secrets known before stay in use", err))
	}
	errs = append(errs, h.meetHubs(), h.meetQueues(ctx))
	h.expire()
	h.lookAtTopics()
	errs = append(errs, h.saveNow())
	h.start(ctx)
	return errors.Join(errs...)
}

func (h *Hub) idle() bool { return h.Idle != nil && h.Idle() }

// expire drops subscribers after their end, and hubs that are named no longer.
func (h *Hub) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	for _, s := range h.subs {
		if s.Kind == otherHub && h.external(s) == nil || s.Kind == subscriber && s.Asked == nil && !s.Expires.After(now) {
			h.drop(s)
		}
	}
}

func (h *Hub) report(err error) {
	if err != nil && h.Report != nil {
		h.Report(err)
	}
}

// Wait waits for the requests in progress.
func (h *Hub) Wait() { h.workers.Wait() }

// Close waits for the requests in progress and saves the cursors.
func (h *Hub) Close() error {
	h.mu.Lock()
	was := h.closed
	h.closed = true
	h.mu.Unlock()
	h.Wait()
	if was {
		return nil
	}
	return h.save()
}

const maxURL = 2048 // bytes of a topic or callback

// parseURL reads an absolute URL for requests.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return nil, errors.New("longer than 2048 octets")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !utf8.ValidString(text):
		return nil, errors.New("not an absolute http or https URL")
	case u.User != nil:
		return nil, errors.New("has a user or a password")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// publicURL returns scheme and host of a URL: the whole of it is a right to use it.
func publicURL(full string) string {
	u, err := url.Parse(full)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return strings.ToLower(u.Scheme) + "://" + u.Host
}
