package callback

import (
	"maps"
	"net/url"
	"slices"
	"time"
)

// A State is how the callback of a queue fares.
type State struct {
	Queue     string
	URL       string // without user and query, which may be secret
	Signed    bool
	Waiting   int       // changes to be delivered
	Oldest    time.Time // of them; zero if there is none
	Stopped   bool      // the receiver wants no more
	Failing   time.Time // since then every attempt has failed; zero if the last one did not
	Failures  int       // attempts since then
	Next      time.Time // no attempt before
	LastError string    // of the attempt that failed last
	Delivered int64     // changes, since the Sender was opened
	SetAside  int64     // likewise, not delivered
}

// States returns the states of all queues that have a callback, in the order of
// their identifiers.
func (s *Sender) States() []State {
	s.work.Lock()
	defer s.work.Unlock()
	var all []State
	for _, id := range slices.Sorted(maps.Keys(s.feeds)) {
		if st, ok := s.feeds[id].state(); ok {
			st.Signed = s.secrets.has(id)
			all = append(all, st)
		}
	}
	return all
}

func (f *feed) state() (st State, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest, _ := f.waiting.first()
	return State{Queue: f.q.ID(), URL: redact(f.url), Waiting: f.waiting.len(), Oldest: oldest.at, Stopped: f.stopped,
		Failing: f.failing, Failures: f.failures, Next: f.next, LastError: f.lastErr, Delivered: f.delivered, SetAside: f.aside}, f.url != ""
}

// redact returns what may be shown of a URL.
func redact(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
