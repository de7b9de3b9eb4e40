// Package callback tells a URL of every change of a job in a queue.
//
// The properties of a queue name scheme and host of the URL; the rest is a secret in a
// file of the home, see [home.Callbacks]. It gets the state of the job in JSON,
// as a GET of the job would return it at the moment:
//
//	POST /mc HTTP/1.1
//	Content-Type: application/json
//	Cutie-Queue: jobs
//	Cutie-Event: consume
//	Cutie-Sequence: 17             number of the event
//	Cutie-Delivery: 6d0f…          the same at every attempt
//	Cutie-Signature: t=1766275200,v1=5257a8…
//
//	{"@type":"jobState","identifier":"j000000000004","status":"consumed", … }
//
// The state of a culled job has identifier, queueState and sequence only.
//
// The last change of each job is delivered at least once, over restarts and
// crashes, and the numbers of a queue grow. Waiting changes are merged: the last
// one of a job counts. [push] makes the deliveries. When a receiver has failed
// for seven days, older changes are set aside.
//
// The file callback-secrets.txt in the home, for its owner alone, has lines
// "QUEUE: SECRET". For each line of a queue the signature has a v1: the
// hexadecimal HMAC-SHA256 of t, a dot, and the body. So a secret can change
// without a gap. t is the time of the attempt in Unix seconds.
//
// Below callbacks/ in the home stand:
//
//	cursor        a [push.Book]: how far each queue has been delivered
//	Q.outbox      the waiting changes at the last checkpoint, sealed
//	Q.dead        a line for each change set aside
//	corrupt/      damaged files
//
// Events are read into memory. Their journal may go after [Sender.Flush] has
// put the waiting changes into Q.outbox. A crash leaves:
//
//	outbox       cursor              done on opening
//	absent       names event D       the journal is read after D
//	up to R > D  names event D       its changes after D wait; the journal is read after R
//	up to R ≤ D  names event D       as if absent
//	damaged      any                 set aside, reported; as if absent
//	any          absent or damaged   all changes of the outbox and the journal wait
//
// If the journal does not reach back to there, the jobs with changes since then
// wait; culled jobs are skipped and reported. A queue that gets its
// first callback begins with the next event, after a crash perhaps with earlier ones
// of the journal. Queues without a callback have no line in the cursor; one with a
// callback and without a line begins with the first event of the journal.
package callback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// Options are the settings of a [Sender]. Zero values mean the defaults.
type Options struct {
	Doer       push.Doer     // may follow redirects; needed
	Parallel   int           // requests in progress; 0: 16
	Timeout    time.Duration // of a request; 0: 30 s
	MaxWaiting int           // waiting changes of a queue; 0: 100,000; the oldest are set aside
	// Turned is told, by any goroutine, when the callback of a queue begins to
	// fail, and with nil when it works again; nil: not told.
	Turned func(queue string, err error)
	Report func(queuefs.Problem) // told of loss and damage, by any goroutine; nil: not told
	Now    func() time.Time      // nil: time.Now
	Fault  durable.Fault         // for tests

	// Idle reports whether another process delivers: then nothing is sent, and the events
	// pass by, those of the last [Trail] later. nil: never.
	Idle func() bool
}

// Trail is how long the events of an idle Sender wait, in case that their owner is lost.
// When it is, those of about the last half minute are delivered, perhaps once more.
const Trail = 30 * time.Second

// A Sender delivers the changes of all queues of a home. Its methods are safe
// for concurrent use.
type Sender struct {
	Options
	svc     *queuefs.Service
	home    *durable.Dir
	dir     *durable.Dir
	secrets secrets
	secrecy secrecy
	sender  *push.Sender[*feed]

	work     sync.Mutex // one Tick or checkpoint at a time; guards the rest
	changes  changes
	count    int                // of queues, at the last look
	feeds    map[string]*feed   // of queues with a callback, or with something left of one
	lost     map[string]*feed   // those whose URL cannot be read
	silent   map[string]silence // the other queues
	outboxes map[string]bool    // queues with an outbox when the Sender was opened
	closed   bool
}

// Dir is the directory of callbacks in a home.
const Dir = "callbacks"

// Names in the home.
const (
	dirName    = Dir
	cursorName = "cursor"
	outboxExt  = ".outbox"
	deadExt    = ".dead"
	oldExt     = ".old"
)

const (
	maxFile = 256 << 20          // bytes of the cursor or an outbox
	giveUp  = 7 * 24 * time.Hour // of failures, until older changes are set aside
)

// New opens the callbacks of svc. Damage is reported and lived with; an error
// means an unusable directory or file of secrets.
func New(svc *queuefs.Service, o Options) (_ *Sender, err error) {
	if o.Doer == nil {
		return nil, errors.New("callbacks: no client")
	}
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 100_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Idle == nil {
		o.Idle = func() bool { return false }
	}
	s := &Sender{Options: o, svc: svc, feeds: map[string]*feed{}, lost: map[string]*feed{}, silent: map[string]silence{}, outboxes: map[string]bool{}}
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
	if err := s.dir.Sweep(nil); err != nil {
		return nil, err
	}
	if err := s.dir.Names(func(name string) {
		if queue, ok := strings.CutSuffix(name, outboxExt); ok {
			s.outboxes[queue] = true
		}
	}); err != nil {
		return nil, err
	}
	if err := s.secrets.load(s.home); err != nil {
		return nil, err
	}
	s.sender, err = push.Open(push.Options[*feed]{
		File: cursorIn(s.dir),
		Doer: o.Doer, Agent: queuefs.Scheme, Follow: true, Due: due, Next: s.next, Done: s.done,
		Parallel: o.Parallel, Turn: 256, Timeout: o.Timeout, Now: o.Now,
		Report: func(err error) { s.report(cursorName, "%v", err) },
	})
	if err != nil {
		return nil, err
	}
	return s, s.meet()
}

// Tick reads the new events and starts the due deliveries; it does not wait for
// them. Call it a few times a second: it costs nothing for queues without a change. To
// stop, end ctx and call [Sender.Wait].
func (s *Sender) Tick(ctx context.Context) error {
	if s.Idle() {
		return s.pass()
	}
	err := s.secrecy.conceal(ctx, s.svc) // it asks for locks that others hold in Forget
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	if e := s.secrets.load(s.home); e != nil {
		err = errors.Join(err, fmt.Errorf("callbacks: %w; the secrets known before stay in use", e))
	}
	err = errors.Join(err, s.meet(), s.unread())
	if e := s.sender.Tick(ctx); e != nil {
		err = errors.Join(err, fmt.Errorf("callbacks: %w", e))
	}
	return err
}

// pass is Tick of an idle Sender.
func (s *Sender) pass() error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	return s.meet()
}

// meet brings the feeds of the changed queues up to their last events, and ends the
// feeds of removed queues.
func (s *Sender) meet() error {
	var errs []error
	queues := s.changes.next(s.svc)
	for _, q := range queues {
		if err := s.meetOne(q); err != nil {
			s.changes.again(q)
			errs = append(errs, fmt.Errorf("callbacks of queue %s: %w", q.ID(), err))
		}
	}
	if n := len(s.svc.Queues()); n != s.count {
		s.count = n
		for _, f := range s.feeds {
			if now, err := s.svc.Queue(f.Queue); err != nil || now != f.q {
				s.drop(f)
			}
		}
	}
	return errors.Join(errs...)
}

func (s *Sender) meetOne(q *queuefs.Queue) (err error) {
	f := s.feeds[q.ID()]
	if f != nil && f.q != q {
		s.drop(f) // another queue has its name
		f = nil
	}
	if f == nil {
		if q.Info().Callback == "" && !s.remembered(q.ID()) {
			state := q.State()
			s.silent[q.ID()] = silence{q, state.Seq, state.LastEvent}
			return nil
		}
		if f, err = s.openFeed(q); err != nil {
			return err
		}
		s.feeds[q.ID()] = f
		delete(s.silent, q.ID())
	}
	return s.catchUp(f)
}

// unread returns the errors of URLs that cannot be read, and has their queues looked at
// again.
func (s *Sender) unread() error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(s.lost)) {
		f := s.lost[id]
		s.changes.again(f.q)
		errs = append(errs, fmt.Errorf("callbacks of queue %s: %w", id, f.lost))
	}
	return errors.Join(errs...)
}

// remembered reports whether the queue has a line in the cursor, or an outbox.
func (s *Sender) remembered(queue string) (so bool) {
	s.sender.View(func() { so = s.sender.Get(queue) != nil })
	return so || s.outboxes[queue]
}

// hush ends the feeds of queues without a callback, once nothing of them is left to
// deliver or to remove.
func (s *Sender) hush() {
	s.update(func() (changed bool) {
		for _, f := range s.feeds {
			if f.met && f.url == "" && f.Site == "" && f.saved == 0 && f.waiting.len() == 0 {
				s.silent[f.Queue] = silence{f.q, f.read, f.readAt}
				delete(s.feeds, f.Queue)
				s.sender.Drop(f)
				changed = true
			}
		}
		return changed
	})
}

// drop ends the feed of a removed queue. Its record stays: the queue may come
// again.
func (s *Sender) drop(f *feed) {
	n := 0
	s.sender.View(func() {
		if f.url != "" {
			n = f.waiting.len()
		}
		f.q, f.url, f.waiting = nil, "", backlog{}
	})
	if n > 0 {
		s.report(f.Queue, "the queue was removed, %d changes were not delivered", n)
	}
	delete(s.feeds, f.Queue)
	delete(s.lost, f.Queue)
}

// Flush reads all committed events and writes the waiting changes into the
// outboxes. The engine calls it before a checkpoint syncs the file system.
func (s *Sender) Flush() error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	if err := s.meet(); err != nil {
		return err
	}
	s.hush()
	for _, f := range s.feeds {
		if err := s.catchUp(f); err != nil { // its last event may be too new for meet
			return fmt.Errorf("callbacks of queue %s: %w", f.Queue, err)
		}
		o := outbox{read: f.read, readAt: f.readAt}
		s.update(func() bool {
			if f.read > f.saved {
				o.changes = f.waiting.all()
			}
			return (f.url == "" && f.lost == nil || f.Stopped) && f.settle()
		})
		if len(o.changes) > 0 {
			if err := s.outbox(f.Queue).Write(o.contents()); err != nil {
				return err
			}
			f.saved = o.read
		}
	}
	return nil
}

// Synced saves the cursor. The engine calls it after the sync; when it has
// returned nil, the events before the last Flush are no longer needed.
func (s *Sender) Synced() error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	var over []*feed // with an outbox and nothing of it waiting
	s.sender.View(func() {
		for _, f := range s.feeds {
			if done, _ := f.done(); f.saved > 0 && done >= f.saved {
				over = append(over, f)
			}
		}
	})
	if err := s.sender.Save(); err != nil {
		return fmt.Errorf("callbacks: %w", err)
	}
	for _, f := range over {
		if err := s.removeOutbox(f.Queue); err != nil {
			return err
		}
		f.saved = 0
	}
	return nil
}

// Forget drops the state of a removed queue. Q.dead stays, for people.
func (s *Sender) Forget(queue string) error {
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return queuefs.ErrClosed
	}
	if f := s.feeds[queue]; f != nil {
		s.drop(f)
	}
	delete(s.silent, queue)
	s.update(func() bool {
		f := s.sender.Get(queue)
		if f != nil {
			s.sender.Drop(f)
		}
		return f != nil
	})
	if err := s.removeOutbox(queue); err != nil {
		return err
	}
	return s.sender.Save()
}

func (s *Sender) removeOutbox(queue string) error {
	delete(s.outboxes, queue)
	if err := s.dir.Remove(queue + outboxExt); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// update runs f while no feed changes; f reports whether the cursor is another
// one afterwards.
func (s *Sender) update(f func() bool) {
	_ = s.sender.Update(func() error {
		if f() {
			return nil
		}
		return errSame
	})
}

var errSame = errors.New("nothing has changed")

// Wait waits for the deliveries in progress. Close the service after it.
func (s *Sender) Wait() { s.sender.Wait() }

// Close ends the Sender. Close the service first: its last checkpoint calls
// Flush and Synced.
func (s *Sender) Close() error {
	s.Wait()
	s.work.Lock()
	defer s.work.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.sender.Close(), s.closeDirs())
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
