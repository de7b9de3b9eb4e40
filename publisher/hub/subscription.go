package hub

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
)

// A kind is that of a subscription.
type kind string

const (
	subscriber kind = "subscriber"
	otherHub   kind = "hub"
	ofQueue    kind = "queue"
)

// A subscription is one as it is in its row, and its state in memory.
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
	life      int   // number of resets
	kept      bool  // its row is on stable storage
	missed    int64 // gaps, and jobs that could not be read, since the hub was opened
	delivered int64 // bodies since the hub was opened

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
	h.members++
	h.subs[s.key()] = s
	h.mark(s)
}

// drop removes a subscription, unless another one has replaced it; h.mu is held.
func (h *Hub) drop(s *subscription) {
	if h.subs[s.key()] == s {
		delete(h.subs, s.key())
		h.members++
		h.mark(s)
	}
}

// mark says that the row of a subscription is to be written, or to go; h.mu is held.
func (h *Hub) mark(s *subscription) { h.unsaved[s.key()] = true }

// begun is the key of the row that every hub has.
const begun = "begun"

// rowOf returns the key of the row of a subscription. The URL is a secret, and keys are in
// reports of damage.
func rowOf(key string) string {
	kind, rest, _ := strings.Cut(key, "\n")
	url, topic, _ := strings.Cut(rest, "\n")
	if url == "" { // of a callback
		return kind + " " + topic
	}
	sum := sha256.Sum256([]byte(rest))
	return kind + " " + hex.EncodeToString(sum[:16])
}

// load reads the rows when the hub is opened. Damaged ones are to go with the next commit.
func (h *Hub) load() error {
	var subs []*subscription
	var lost []error
	err := h.Rows.Each(func(row string, contents []byte, bad error) bool {
		s := new(subscription)
		if bad == nil {
			bad = json.Unmarshal(contents, s)
		}
		switch {
		case bad != nil:
			h.Rows.Delete(row)
			lost = append(lost, bad)
		case row == begun:
			h.whole = true
		default:
			subs = append(subs, s)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, s := range subs {
		h.takeUp(s)
	}
	for _, err := range lost {
		h.report(fmt.Errorf("hub: %w; the subscription is lost", err))
	}
	if !h.whole {
		h.Rows.Put(begun, []byte("{}"))
	}
	h.whole = h.whole && len(lost) == 0
	return nil
}

// takeUp adds a subscription of an earlier process.
func (h *Hub) takeUp(s *subscription) {
	if s.kept = true; s.Kind == ofQueue {
		s.cursor = parseEvent(s.Position)
		s.Next, s.proven = time.Time{}, true // it is tried at once
	} else {
		u, err := parseURL(s.URL)
		if err != nil {
			h.report(fmt.Errorf("hub: callback %s: %w; the subscription is dropped", publicURL(s.URL), err))
			h.mark(s)
			return
		}
		s.host, s.proven = u.Host, s.Failures == 0 && !s.Expires.IsZero()
		h.met[s.URL] = h.met[s.URL] || s.Kind == otherHub
	}
	h.subs[s.key()] = s
}

// save puts the rows of changed subscriptions on stable storage. After an error they are
// written with the next ones.
func (h *Hub) save() error {
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	changed := h.unsaved
	h.unsaved = map[string]bool{}
	var fresh []*subscription
	for key := range changed {
		s := h.subs[key]
		if s == nil {
			h.Rows.Delete(rowOf(key))
			continue
		}
		contents, _ := json.Marshal(s) // texts, numbers and times of our own do not fail
		h.Rows.Put(rowOf(key), contents)
		if !s.kept {
			fresh = append(fresh, s)
		}
	}
	h.mu.Unlock()
	err := h.Rows.Commit()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		maps.Copy(h.unsaved, changed)
		return fmt.Errorf("hub: %w", err)
	}
	for _, s := range fresh {
		s.kept = true
	}
	return nil
}

// saveNow saves what has changed if a subscription is new, or if the last time is a second ago.
func (h *Hub) saveNow() error {
	now, fresh := h.Now(), false
	h.mu.Lock()
	some := len(h.unsaved) > 0
	for key := range h.unsaved {
		fresh = fresh || h.subs[key] != nil && !h.subs[key].kept
	}
	h.mu.Unlock()
	if age := now.Sub(h.savedAt); !some || !fresh && age >= 0 && age < time.Second {
		return nil
	}
	h.savedAt = now
	return h.save()
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
