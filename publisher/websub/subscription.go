package websub

import "time"

// A key names a subscription (5.1). Those of external hubs are of a kind of
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
	By       string    `json:"by,omitempty"`      // who asked, as Permit says; "" if nobody knows
	Position string    `json:"position"`          // delivered up to there
	Expires  time.Time `json:"expires,omitzero"`  // zero: not verified, or never
	Failing  time.Time `json:"failing,omitzero"`  // since then every attempt has failed
	Failures int       `json:"failures,omitzero"` // attempts since then
	Next     time.Time `json:"next,omitzero"`     // no attempt before
	Asked    *intent   `json:"asked,omitempty"`   // what is to be verified

	host    string
	busy    bool      // a worker has it
	proven  bool      // the last delivery succeeded, and fast
	since   uint64    // version of the hub that had it first; 0: it was read from the file
	turn    time.Time // when it was last given one
	looked  string    // the latest position as of when nothing more was to be said
	lastErr string
	verdict *verdict // somebody waits for it; nil: nobody does
}

// An intent is a request that was accepted and not yet verified.
type intent struct {
	Mode     string        `json:"mode"`
	Lease    time.Duration `json:"lease,omitzero"`
	Secret   string        `json:"secret,omitempty"`
	By       string        `json:"by,omitempty"`
	Position string        `json:"position,omitempty"` // when it came
	Attempts int           `json:"attempts,omitzero"`
	Next     time.Time     `json:"next,omitzero"`
}

func (s *subscription) key() key { return key{s.Topic, s.Callback, s.External} }

// active tells whether it gets content.
func (s *subscription) active(now time.Time) bool { return s.External || s.Expires.After(now) }

// outdated tells whether a subscription is over; h.mu is held.
func (h *Hub) outdated(s *subscription, now time.Time) bool {
	if s.External {
		return h.external(s) == nil
	}
	return s.Asked == nil && !s.active(now)
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
