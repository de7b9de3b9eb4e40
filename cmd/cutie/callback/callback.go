// Package callback tells a URL of every change of a job in a queue, and of the
// phases of jobs of UWS that are none of it yet.
//
// A queue whose properties name a callback has the state of the job POSTed to
// it, in JSON, as the GET of the state of the job would be answered:
//
//	POST /mc HTTP/1.1
//	Content-Type: application/json
//	Cutie-Queue: jobs
//	Cutie-Event: consume
//	Cutie-Sequence: 17
//	Cutie-Delivery: 6d0f…          the same at every attempt
//	Cutie-Signature: t=1766275200,v1=5257a8…
//
//	{"job:jobState":{"job:identifier":"j000000000004","job:status":"consumed", … }}
//
// Cutie-Event and Cutie-Sequence are kind and number of the event; the state is
// that of the moment, which may be later. Of a job that was culled the state
// has identifier, queueState and sequence alone.
//
// A phase is one of a job of UWS that was not started, or that is archived or
// destroyed there. Cutie-Event is phase, and the body the data of that event:
//
//	{"queue":"jobs","seq":18,"time":"2026-01-01T00:00:00.000001Z","kind":"phase","job":"u…","phase":"ABORTED","state":"http://…/uws/jobs/async/u…"}
//
// Without phase and state the job is gone.
//
// # What is promised
//
// Each job's last change is delivered at least once, over restarts and crashes.
// The numbers of a queue grow: one request is in progress for a queue at a
// time. Changes that wait are merged: of several of one job the last counts,
// likewise of its phases.
//
// An answer of 2xx is the receipt. 410 ends it all until the queue has another
// callback. After anything else the same is sent again, at first after a
// second, at last every hour, or when Retry-After says. When a receiver has
// failed for seven days, what is older than that is set aside.
//
// The signature is there if callback-secrets.txt in the home names the queue:
// lines "QUEUE: SECRET", a file for its owner alone. v1 is the hexadecimal
// HMAC-SHA256 of t, a dot, and the body; there is one for each line of the
// queue, so that a secret can be changed without a gap. t is the time of the
// attempt in Unix seconds; who checks it refuses what is old.
//
// # Files
//
// Below callbacks/ in the home stand:
//
//	cursor        how far each queue has been delivered
//	Q.outbox      what waited at the last checkpoint
//	Q.dead        a line for each change that was set aside
//	cutie-tmp-*   unfinished; removed on opening
//
// The journal is read into memory; it may be let go once a checkpoint has put
// what waits into Q.outbox ([Sender.Flush], [Sender.Synced]). What a crash
// leaves behind:
//
//	outbox       cursor              done on opening
//	absent       names event D       the journal is read from the event after D
//	up to R > D  names event D       what it has after D waits; the journal is read after R
//	up to R ≤ D  names event D       as if absent
//	damaged      any                 set aside, reported; as if absent
//	any          absent or damaged   all that the outbox and the journal have waits
//
// If the journal does not reach back to there, the jobs that have changed since
// wait, whatever happened to them; culled ones and phases are passed over, and
// it is reported. A queue that gets its first callback begins with the event after
// that, or with its first if it is new; after a crash, perhaps with one that
// came shortly before. One of which the cursor knows nothing begins with the
// first event that the journal has.
package callback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A Doer makes requests to URLs that strangers name, and refuses those it
// should not make. It may follow redirects. It is safe for concurrent use.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Options are the settings of a [Sender]. Zero values mean the defaults.
type Options struct {
	Doer       Doer          // needed
	Parallel   int           // requests in progress; 0: 16
	Timeout    time.Duration // of a request; 0: 30 s
	Shortest   time.Duration // until the second attempt; 0: 1 s; then twice that, and so on
	Longest    time.Duration // between attempts; 0: 1 h
	GiveUp     time.Duration // for how long; 0: 7 days
	MaxWaiting int           // changes of a queue that may wait; 0: 100,000; the oldest are set aside
	// Turned is told, by any goroutine, when the callback of a queue begins to
	// fail, and with nil when it works again; nil: nobody is.
	Turned func(queue string, err error)
	Report func(queuefs.Problem) // told, by any goroutine, what was lost or damaged; nil: nobody is
	Now    func() time.Time      // nil: time.Now
	Fault  durable.Fault         // for tests
}

// A Sender delivers the changes of all queues of a home. Its methods are safe
// for concurrent use.
type Sender struct {
	Options
	svc     *queuefs.Service
	home    *durable.Dir
	dir     *durable.Dir
	secrets secrets
	workers sync.WaitGroup

	work    sync.Mutex // one Tick or checkpoint at a time; guards what follows
	feeds   map[string]*feed
	marks   map[string]mark // from the cursor, of queues that are not here
	written []byte          // the cursor as it stands in its file
	wroteAt time.Time
	closed  bool

	mu      sync.Mutex
	running int
}

// Names in the home.
const (
	dirName    = "callbacks"
	cursorName = "cursor"
	outboxExt  = ".outbox"
	deadExt    = ".dead"
	oldExt     = ".old"
	badExt     = ".bad"
)

// New opens the callbacks of svc. Damage that it finds is reported and lived
// with; an error means that the directory or the secrets cannot be used.
func New(svc *queuefs.Service, o Options) (_ *Sender, err error) {
	if o.Doer == nil {
		return nil, errors.New("callbacks: no client to send them with")
	}
	o.Parallel = cmp.Or(o.Parallel, 16)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Shortest = cmp.Or(o.Shortest, time.Second)
	o.Longest = cmp.Or(o.Longest, time.Hour)
	o.GiveUp = cmp.Or(o.GiveUp, 7*24*time.Hour)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 100_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sender{Options: o, svc: svc, feeds: map[string]*feed{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("callbacks: %w", errors.Join(err, s.closeDirs()))
		}
	}()
	if s.home, err = durable.OpenDir(svc.Dir(), o.Fault); err != nil {
		return nil, err
	}
	if s.dir, err = s.home.MakeSub(dirName); err != nil {
		return nil, err
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	if err := s.secrets.load(s.home); err != nil {
		return nil, err
	}
	if err := s.readCursor(); err != nil {
		return nil, err
	}
	return s, s.meet()
}

// sweep removes what is unfinished.
func (s *Sender) sweep() error {
	var stale []string
	err := s.dir.Names(func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		err = errors.Join(err, s.dir.Remove(name))
	}
	return err
}

// Tick reads what happened and starts the deliveries that are due; it does not
// wait for them. It is to be called a few times a second, by one who ends ctx
// when no delivery is to go on, and then calls [Sender.Wait].
func (s *Sender) Tick(ctx context.Context) error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	err := s.secrets.load(s.home)
	if err != nil {
		err = fmt.Errorf("callbacks: %w; the secrets known before stay in use", err)
	}
	err = errors.Join(err, s.meet())
	if now := s.Now(); now.Sub(s.wroteAt) >= time.Second || now.Before(s.wroteAt) {
		err = errors.Join(err, s.writeCursor())
	}
	s.start(ctx)
	return err
}

// meet brings the feeds of all queues up to their last events, and lets go of
// those of queues that are no longer there.
func (s *Sender) meet() error {
	var errs []error
	queues := s.svc.Queues()
	for _, q := range queues {
		f := s.feeds[q.ID()]
		if f != nil && f.q != q {
			s.drop(f) // another one of its name
			f = nil
		}
		if f == nil {
			var err error
			if f, err = s.openFeed(q); err != nil {
				errs = append(errs, fmt.Errorf("callbacks of queue %s: %w", q.ID(), err))
				continue
			}
			s.feeds[q.ID()] = f
		}
		if err := f.catchUp(); err != nil {
			errs = append(errs, fmt.Errorf("callbacks of queue %s: %w", q.ID(), err))
		}
	}
	if len(s.feeds) > len(queues) {
		for _, f := range s.feeds {
			if !slices.Contains(queues, f.q) {
				s.drop(f)
			}
		}
	}
	return errors.Join(errs...)
}

// drop ends the feed of a queue that is no longer there.
func (s *Sender) drop(f *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.waiting.len(); n > 0 && f.url != "" {
		s.report(f.q.ID(), "the queue was removed, %d changes were not delivered", n)
	}
	f.url, f.waiting = "", backlog{}
	delete(s.feeds, f.q.ID())
	s.marks[f.q.ID()] = f.mark // it may come again
}

// start gives those feeds a turn that are due, the one that waited longest
// first, as long as there is room for a request.
func (s *Sender) start(ctx context.Context) {
	now := s.Now()
	var due []*feed
	for _, f := range s.feeds {
		if f.due(now) {
			due = append(due, f)
		}
	}
	slices.SortFunc(due, func(a, b *feed) int {
		return cmp.Or(a.turn.Compare(b.turn), strings.Compare(a.q.ID(), b.q.ID()))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range due[:min(len(due), max(s.Parallel-s.running, 0))] {
		f.turn = now
		f.setBusy(true)
		s.running++
		s.workers.Go(func() {
			s.deliver(ctx, f)
			f.setBusy(false)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running--
		})
	}
}

// Wait waits for the deliveries in progress. Close the service after it.
func (s *Sender) Wait() { s.workers.Wait() }

// Close lets go of the directory. Close the service first: its last checkpoint
// wants Flush and Synced.
func (s *Sender) Close() error {
	s.Wait()
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.closeDirs()
}

func (s *Sender) closeDirs() error {
	var errs []error
	for _, d := range []*durable.Dir{s.dir, s.home} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *Sender) report(name, text string, args ...any) {
	if s.Report != nil {
		s.Report(queuefs.Problem{Path: dirName + "/" + name, Text: fmt.Sprintf(text, args...)})
	}
}

// setAside gives a file that makes no sense another name.
func (s *Sender) setAside(name string, cause error) error {
	err := s.dir.Rename(name, s.dir, name+badExt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(cause, err)
	}
	s.report(name, "%v; moved to %s", cause, name+badExt)
	return nil
}
