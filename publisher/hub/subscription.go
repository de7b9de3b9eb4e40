package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A kind is that of a subscription.
type kind string

const (
	subscriber kind = "subscriber"
	otherHub   kind = "hub"
	ofQueue    kind = "queue"
)

// A subscription is one as it is in the file, and its state in memory.
type subscription struct {
	Kind     kind      `json:"kind"`
	Topic    string    `json:"topic"`              // URL; of a callback, the identifier of the queue
	URL      string    `json:"url,omitempty"`      // to deliver to; of a callback the home has it
	Site     string    `json:"site,omitempty"`     // of a callback: tells its URL from another
	Secret   string    `json:"secret,omitempty"`   // of a subscriber
	By       string    `json:"by,omitempty"`       // the subscriber, in the word of Permit; "" if unknown
	Position string    `json:"position,omitempty"` // the cursor
	GapTo    time.Time `json:"gapTo,omitzero"`     // a message has named what was lost up to then
	Failing  time.Time `json:"failing,omitzero"`   // time of the first of the last failures; zero after a success
	Failures int       `json:"failures,omitzero"`  // since then
	Next     time.Time `json:"next,omitzero"`      // no attempt before
	Stopped  bool      `json:"stopped,omitzero"`   // the receiver of a callback answered 410
	Expires  time.Time `json:"expires,omitzero"`   // of a subscriber; zero: not verified
	Asked    *intent   `json:"asked,omitempty"`    // to be verified

	host      string // of the URL, for the limit
	proven    bool   // the last delivery succeeded fast
	lastError string // of the last failure; "" after a success
	busy      bool   // a worker has it
	turn      time.Time
	life      int    // number of resets
	since     uint64 // version that it came with
	missed    int64  // gaps, and jobs that could not be read, since the hub was opened
	delivered int64  // bodies since the hub was opened

	latest  string   // position of the topic when the hub looked
	gone    bool     // the topic was gone then
	seen    string   // latest position with nothing left to deliver
	verdict *verdict // a request waits for it; nil: none does

	q       *queuefs.Queue // of a callback; nil: the queue is not there
	url     string         // of the callback; "": it cannot be read
	cursor  event          // Position, parsed
	past    event          // where the queue was at the last look of an idle hub
	pending []change       // read and not delivered; the worker's alone
}

// An intent is an accepted request before its verification.
type intent struct {
	Mode     string        `json:"mode"`
	Lease    time.Duration `json:"lease,omitzero"`
	Secret   string        `json:"secret,omitempty"`
	By       string        `json:"by,omitempty"`
	Position string        `json:"position,omitempty"` // when it came
	Attempts int           `json:"attempts,omitzero"`
	Next     time.Time     `json:"next,omitzero"`
}

// key names a subscription (5.1). Those of different kinds never replace each other.
func (s *subscription) key() string { return string(s.Kind) + "\n" + s.URL + "\n" + s.Topic }

// active reports whether the subscription gets content.
func (s *subscription) active(now time.Time) bool {
	return s.Kind != subscriber || s.Expires.After(now)
}

// reset forgets all failures, also of a request in progress.
func (s *subscription) reset() {
	s.Failing, s.Failures, s.Next, s.Stopped, s.lastError = time.Time{}, 0, time.Time{}, false, ""
	s.life++
}

// put adds a subscription or replaces it; h.mu is held.
func (h *Hub) put(s *subscription) {
	h.version++
	h.members++
	s.since = h.version
	h.subs[s.key()] = s
}

// drop removes a subscription, unless another one has replaced it; h.mu is held.
func (h *Hub) drop(s *subscription) {
	if h.subs[s.key()] == s {
		delete(h.subs, s.key())
		h.version++
		h.members++
	}
}

func fileIn(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: "subscriptions", Kind: "subscriptions", Max: 256 << 20}
}

func parse(contents []byte) (subs []*subscription, err error) {
	n := 0
	for line := range bytes.Lines(contents) {
		n++
		s := new(subscription)
		if err := json.Unmarshal(line, s); err != nil || s.Kind == "" {
			return nil, fmt.Errorf("subscriptions: %w: line %d: %v", durable.ErrDamaged, n, cmp.Or(err, errors.New("no subscription")))
		}
		subs = append(subs, s)
	}
	return subs, nil
}

// load reads the file when the hub is opened.
func (h *Hub) load() error {
	contents, err := fileIn(h.dir).Read()
	var subs []*subscription
	if err == nil {
		subs, err = parse(contents)
	}
	if errors.Is(err, durable.ErrDamaged) {
		to, e := fileIn(h.dir).SetAside()
		if e != nil {
			return errors.Join(err, e)
		}
		h.report(fmt.Errorf("hub: %w; moved to %s", err, to))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h.whole = err == nil
	for _, s := range subs {
		switch s.Kind {
		case ofQueue:
			s.cursor = parseEvent(s.Position)
			s.Next, s.proven = time.Time{}, true // it is tried at once
		default:
			u, err := parseURL(s.URL)
			if err != nil {
				h.report(fmt.Errorf("hub: callback %s: %w; the subscription is dropped", publicURL(s.URL), err))
				continue
			}
			s.host, s.proven = u.Host, s.Failures == 0 && !s.Expires.IsZero()
			h.met[s.URL] = h.met[s.URL] || s.Kind == otherHub
		}
		h.subs[s.key()] = s
	}
	h.size, h.version = len(contents), 1
	return nil
}

// save puts the present subscriptions on stable storage. Callers that come during a writing
// share the next one.
func (h *Hub) save() error {
	h.mu.Lock()
	want := h.version
	h.mu.Unlock()
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	if h.saved >= want {
		h.mu.Unlock()
		return nil
	}
	version := h.version
	var contents []byte
	for _, key := range slices.Sorted(maps.Keys(h.subs)) {
		line, err := json.Marshal(h.subs[key])
		if err != nil {
			h.mu.Unlock()
			return fmt.Errorf("hub: %w", err)
		}
		contents = append(append(contents, line...), '\n')
	}
	h.mu.Unlock()
	if err := fileIn(h.dir).Write(contents); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saved, h.size = version, len(contents)
	return nil
}

// saveNow saves if a subscription is new, or if the last time is long enough ago: a second, and
// one more for each 256 KiB of the file, because it is written whole.
func (h *Hub) saveNow() error {
	now, fresh := h.Now(), false
	h.mu.Lock()
	for _, s := range h.subs {
		fresh = fresh || s.since > h.saved
	}
	pause := time.Second * time.Duration(1+h.size>>18)
	h.mu.Unlock()
	if age := now.Sub(h.savedAt); !fresh && age >= 0 && age < pause {
		return nil
	}
	h.savedAt = now
	return h.save()
}

// Check returns the damage of the subscriptions in a home, and changes nothing. [New] sets a
// damaged file aside.
func Check(home string) []durable.Finding {
	problem := func(name string, err error) []durable.Finding {
		text, gone := durable.Bare(err).Error(), errors.Is(err, fs.ErrNotExist)
		if gone {
			text = "is missing: all subscriptions are lost"
		}
		return []durable.Finding{durable.Damage(filepath.Join(Dir, name), text, !gone && !errors.Is(err, durable.ErrDamaged))}
	}
	dir, err := durable.LookIn(filepath.Join(home, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there was no hub
	}
	if err != nil {
		return problem("", err)
	}
	defer dir.Close()
	contents, err := fileIn(dir).Read()
	if err == nil {
		_, err = parse(contents)
	}
	if err != nil {
		return problem("subscriptions", err)
	}
	return nil
}

// A State is the public state of a subscription. To know its whole URL is to be allowed to use it.
type State struct {
	Topic     string    `json:"topic"`              // URL of a topic; "" of a callback
	Queue     string    `json:"-"`                  // of a callback; else ""
	Host      string    `json:"host"`               // to deliver to
	External  bool      `json:"external,omitempty"` // a hub of somebody else
	Verified  bool      `json:"verified"`           // it gets content
	Signed    bool      `json:"signed"`             // with a secret
	Expires   time.Time `json:"expires,omitzero"`   // of a subscriber; zero: not verified
	Position  string    `json:"position,omitempty"` // delivered up to there
	Latest    string    `json:"latest,omitempty"`   // what there is of the topic, when the hub looked last
	Stopped   bool      `json:"-"`                  // the receiver of a callback answered 410
	Waiting   int64     `json:"-"`                  // events of a queue that the cursor has not passed
	Delivered int64     `json:"-"`                  // bodies since the hub was opened
	Missed    int64     `json:"missed,omitempty"`   // gaps in what was delivered, and jobs that could not be read, likewise
	Failing   time.Time `json:"failingSince,omitzero"`
	Failures  int       `json:"failures"`             // since then
	Next      time.Time `json:"nextAttempt,omitzero"` // zero without failures
	LastError string    `json:"error,omitempty"`
}

// States returns the states of all subscriptions, callbacks first, in the order of their topics.
// Callbacks whose URL cannot be read are left out.
func (h *Hub) States() []State {
	now := h.Now()
	var states []State
	h.mu.Lock()
	for _, s := range h.subs {
		st := State{Topic: s.Topic, Host: s.host, External: s.Kind == otherHub, Verified: s.active(now), Signed: s.Secret != "",
			Stopped: s.Stopped, Position: s.Position, Latest: s.latest, Delivered: s.delivered, Missed: s.missed, Expires: s.Expires,
			Failing: s.Failing, Failures: s.Failures, LastError: s.lastError}
		if s.Failures > 0 {
			st.Next = s.Next
		}
		if s.Kind == ofQueue {
			if s.url == "" {
				continue
			}
			st.Topic, st.Queue, st.Waiting, st.Signed = "", s.Topic, s.waiting(), h.secrets.has(s.Topic)
		}
		states = append(states, st)
	}
	h.mu.Unlock()
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Host, b.Host), a.Expires.Compare(b.Expires))
	})
	return states
}
