// Package push delivers bodies to URLs at least once. It does not know the
// bodies: the owner of a [Sender] has a record for each target, embeds a
// [Target] in it, and returns the next body when it is asked.
//
// One request is in progress to a target at a time, so bodies arrive in order.
// An answer of 2xx is the receipt. 410 stops the target. After any other answer,
// or none, the owner is asked again: after a second, then after twice the pause
// before, at last every hour, or later if Retry-After says so. Requests are
// limited in all and for each host. New, slow and failing targets share half of
// the requests and do not hold up the others.
//
// The records stand in a [Book]. A Sender saves it at most once a second. After
// a crash the position of a target can be a second old, or as old as the disk
// has been full: later bodies are then delivered again. A new record waits for
// its first request until it is on stable storage.
package push

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs/durable"
)

// A Doer makes requests to URLs from strangers and refuses unsafe ones. It is
// safe for concurrent use.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// A Target is the state of the deliveries to one URL.
type Target struct {
	Position string    `json:"position"`          // delivered up to here; the owner's words
	Failing  time.Time `json:"failing,omitzero"`  // time of the first of the last failures; zero after a success
	Failures int       `json:"failures,omitzero"` // since then
	Next     time.Time `json:"next,omitzero"`     // no attempt before
	Stopped  bool      `json:"stopped,omitzero"`  // the receiver answered 410

	Host      string `json:"-"` // of the URL, for the limit
	Proven    bool   `json:"-"` // the last delivery succeeded fast
	LastError string `json:"-"` // of the last failure; "" after a success

	busy bool      // a worker has the record
	turn time.Time // start of its last turn
	life int       // number of resets
}

// State returns the target. Records have this method by embedding.
func (t *Target) State() *Target { return t }

// Ready reports whether the target may get a request.
func (t *Target) Ready(now time.Time) bool { return !t.Stopped && !now.Before(t.Next) }

// Reset forgets all failures, also of a request in progress.
func (t *Target) Reset() {
	t.Failing, t.Failures, t.Next, t.Stopped, t.LastError = time.Time{}, 0, time.Time{}, false, ""
	t.life++
}

// A Recipient is a record with an embedded [Target].
type Recipient interface {
	Record
	State() *Target
}

// A Message is the next request to a target.
type Message struct {
	URL    string
	Header http.Header
	Body   []byte // nil: no request, the position moves on
	Upto   string // the position after it
	More   bool   // the owner has more already
	To     string // the receiver, in errors; "": "the receiver"
	Keep   bool   // 410 is a failure like others
}

// Options are the settings of a [Sender]. Zero values mean the defaults.
type Options[R Recipient] struct {
	File   durable.Sealed // of the records; needed
	Doer   Doer           // needed
	Agent  string         // User-Agent of requests
	Follow bool           // the Doer follows redirects; else a redirect is a failure

	// Due reports whether a record has something to do. Next returns the next
	// message, or nil; its own requests, by [Sender.Exchange], count as the one
	// in progress. If Next fails it is called again after Shortest. Done is told
	// of the end of a message. Due is called within View, the other two are not.
	Due  func(r R, now time.Time) bool
	Next func(ctx context.Context, r R) (*Message, error)
	Done func(r R, m *Message, err error)

	Parallel int           // requests in progress; 0: 16
	PerHost  int           // requests in progress to a host; 0: Parallel
	Turn     int           // messages of a record before others have a turn; 0: 16
	Timeout  time.Duration // of a request; 0: 30 s
	Gather   time.Duration // pause after a message without more
	Shortest time.Duration // pause after the first failure; 0: 1 s
	Longest  time.Duration // longest pause; 0: 1 h

	Report func(error)      // told of a damaged file; needed
	Now    func() time.Time // nil: time.Now
}

// A Sender delivers to many targets. Its methods are safe for concurrent use,
// but for Tick.
type Sender[R Recipient] struct {
	*Book[R]
	Options[R]
	workers sync.WaitGroup
	savedAt time.Time // of Tick

	running load // guarded by View
	closed  bool // likewise
}

// load is how many requests are in progress.
type load struct {
	all, unproven int
	hosts         map[string]int
}

func (l *load) add(host string, proven bool, n int) {
	l.all += n
	if !proven {
		l.unproven += n
	}
	if l.hosts[host] += n; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

// Open reads the records.
func Open[R Recipient](o Options[R]) (*Sender[R], error) {
	o.Parallel, o.Turn = cmp.Or(o.Parallel, 16), cmp.Or(o.Turn, 16)
	o.PerHost = cmp.Or(o.PerHost, o.Parallel)
	o.Timeout, o.Shortest, o.Longest = cmp.Or(o.Timeout, 30*time.Second), cmp.Or(o.Shortest, time.Second), cmp.Or(o.Longest, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	book, err := OpenBook[R](o.File, o.Report)
	return &Sender[R]{Book: book, Options: o, running: load{hosts: map[string]int{}}}, err
}

// Tick starts the due requests and does not wait for them. An error means the records could
// not be saved: new ones wait, and the next Tick tries again. Call it a few times a second
// from one goroutine. To stop, end ctx and call Wait.
func (s *Sender[R]) Tick(ctx context.Context) (err error) {
	now := s.Now()
	var fresh bool
	s.View(func() { fresh = len(s.fresh) > 0 })
	if age := now.Sub(s.savedAt); fresh || age >= time.Second || age < 0 {
		err = s.Save()
		s.savedAt = now
	}
	s.start(ctx, now)
	return err
}

// start gives due records a turn, the longest waiting first, while there are
// free requests.
func (s *Sender[R]) start(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		return
	}
	var due []R
	for key, r := range s.records {
		if s.fresh[key] == 0 && !r.State().busy && s.Due(r, now) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b R) int {
		if c := a.State().turn.Compare(b.State().turn); c != 0 {
			return c
		}
		return strings.Compare(a.Key(), b.Key())
	})
	for _, r := range due {
		t, l := r.State(), &s.running
		if l.all >= s.Parallel || l.hosts[t.Host] >= s.PerHost || !t.Proven && l.unproven >= max(1, s.Parallel/2) {
			continue
		}
		t.turn, t.busy = now, true
		host, proven := t.Host, t.Proven
		l.add(host, proven, 1)
		s.workers.Go(func() {
			s.work(ctx, r)
			s.mu.Lock()
			defer s.mu.Unlock()
			t.busy = false
			l.add(host, proven, -1)
		})
	}
}

// Wait waits for the requests in progress.
func (s *Sender[R]) Wait() { s.workers.Wait() }

// Close waits for the requests in progress and saves the records.
func (s *Sender[R]) Close() error {
	s.View(func() { s.closed = true })
	s.Wait()
	return s.Save()
}
