package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// Most queues of a home with many have no changes most of the time. A queue at rest has
// all its events in its lists, and no work before some instant; the publisher knows its
// two lines of the cursor, and nothing else. An event, a request, or this instant opens
// it. It comes to rest again when many queues are open and others were used later.

// mostOpen is how many queues stay open without work.
const mostOpen = 1000

// trimEach is after how many opened queues in a row some are put to rest.
const trimEach = 256

// followers are the queues of a home: the open ones, and the ones at rest.
type followers struct {
	mu      sync.Mutex
	open    map[string]*follower
	opening map[string]chan struct{} // closed when it is open, or cannot be
	rest    map[string]resting       // a queue without events may be absent
	sorted  []*set.Set               // of open; nil after a change
	most    int                      // stay open without work
	uses    uint64
	seen    uint64    // the lists have all changes up to this count of the engine
	due     time.Time // no queue at rest has work before
	unseen  []Queue   // to be looked at, see look
}

// A resting is a queue at rest.
type resting struct {
	lines set.Lines           // of the cursor
	read  job.Seq             // both sets have all events up to this one
	holds [names.Sets]job.Seq // first event of each open list with entries; 0 without
	due   time.Time           // of the first work without an event; zero: never
}

// restOf returns how a queue with these lines rests.
func restOf(of *[names.Sets]set.Line) (r resting) {
	r.lines = set.LinesOf(of)
	r.read = min(of[names.Pending].Open.Read, of[names.Replica].Open.Read)
	for i := range of {
		if of[i].Open.Entries > 0 {
			r.holds[i] = of[i].Open.First
		}
	}
	return r
}

// use returns the follower of a queue, opening it if it rests. It stays open until
// release.
func (p *Publisher) use(q Queue) (*follower, error) {
	id := q.ID()
	for {
		p.mu.Lock()
		if f := p.open[id]; f != nil {
			p.pin(f)
			p.mu.Unlock()
			return f, nil
		}
		opening := p.opening[id]
		if opening == nil {
			r, known := p.rest[id]
			opening = make(chan struct{})
			p.opening[id] = opening
			p.mu.Unlock()
			return p.wake(q, r, known, opening)
		}
		p.mu.Unlock()
		<-opening
	}
}

func (p *Publisher) wake(q Queue, r resting, known bool, opening chan struct{}) (f *follower, err error) {
	id := q.ID()
	if now, e := p.svc.queue(id); e != nil || now != q {
		err = errors.Join(e, fmt.Errorf("%s: %w", id, ledger.ErrNoQueue)) // it was removed
	} else if known {
		lines, _ := r.lines.Parse()
		f, err = p.openFollower(q, &lines)
	} else {
		f, err = p.openFollower(q, nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.opening, id)
	close(opening)
	if err != nil {
		return nil, err
	}
	delete(p.rest, id)
	p.open[id], p.sorted = f, nil
	p.pin(f)
	return f, nil
}

// pin counts a user. mu is held.
func (p *followers) pin(f *follower) {
	p.uses++
	f.users, f.used = f.users+1, p.uses
}

// release ends a use.
func (f *follower) release() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	f.users--
}

// forget lets go of a queue, and waits for it to be open first if it is being opened.
func (p *followers) forget(id string) {
	for {
		p.mu.Lock()
		opening := p.opening[id]
		if opening == nil {
			break
		}
		p.mu.Unlock()
		<-opening
	}
	defer p.mu.Unlock()
	delete(p.open, id)
	delete(p.rest, id)
	p.sorted = nil
}

// knows reports whether there is, or was just now, a queue of the name.
func (p *followers) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, rests := p.rest[id]
	return rests || p.open[id] != nil || p.opening[id] != nil
}

// sets returns the sets of open queues, sorted by queue. It is not to be changed.
func (p *followers) sets() []*set.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sorted == nil {
		for _, id := range slices.Sorted(maps.Keys(p.open)) {
			p.sorted = append(p.sorted, p.open[id].sets[:]...)
		}
	}
	return p.sorted
}

// atRest returns the lines of a queue at rest, none if it never had an event; false if it
// is open, or has to be opened for its events.
func (p *followers) atRest(q Queue) (lines set.Lines, rests bool) {
	p.mu.Lock()
	r, known := p.rest[q.ID()]
	f := p.open[q.ID()]
	p.mu.Unlock()
	seq := q.Seq()
	switch {
	case f != nil:
		return "", false
	case !known:
		return "", seq == q.State().Before
	}
	return r.lines, r.read == seq
}

// resume takes the lines of the cursor, for all queues to be at rest.
func (p *Publisher) resume(lines map[string]set.Lines) {
	p.followers = followers{open: map[string]*follower{}, opening: map[string]chan struct{}{}, rest: make(map[string]resting, len(lines)),
		most: mostOpen, unseen: slices.Clone(p.svc.queues())}
	for _, q := range p.unseen {
		of, known := lines[q.ID()]
		if !known {
			continue
		}
		at, _ := of.Parse()
		r := restOf(&at)
		for i := range at {
			r.due = set.Sooner(r.due, p.src.Closing(&at[i].Open, at[i].Files.Lists, set.Since(q)))
		}
		p.rest[q.ID()] = r
	}
}

// firstLooks is how many queues are looked at on opening, lookTime for how long a Tick
// looks at others.
const (
	firstLooks = 100
	lookTime   = 5 * time.Millisecond
)

// look opens queues that were not open since the start, up to max of them, and begins
// none after some time: files of a set may be absent or short, or belong to work that a
// crash has ended.
func (p *Publisher) look(max int, within time.Duration) error {
	for start := time.Now(); max > 0 && time.Since(start) < within; max-- {
		p.mu.Lock()
		var q Queue
		if len(p.unseen) > 0 {
			q = p.unseen[0]
		}
		p.mu.Unlock()
		if q == nil {
			return nil
		}
		if err := p.touch(q); err != nil {
			return err
		}
		p.mu.Lock()
		if p.unseen = p.unseen[1:]; len(p.unseen) == 0 {
			p.unseen = nil
		}
		p.mu.Unlock()
	}
	return nil
}

// touch opens a queue. A queue that was removed is no error.
func (p *Publisher) touch(q Queue) error {
	f, err := p.use(q)
	if err == nil {
		f.release()
	}
	if err != nil && !errors.Is(err, ledger.ErrNoQueue) {
		return fmt.Errorf("queue %s: %w", q.ID(), err)
	}
	return nil
}

// mostWoken is how many queues a Tick wakes for work.
const mostWoken = 64

// wakeReady opens queues at rest with work, those that wait longest first. It looks at all
// of them only when the first of them has some.
func (p *Publisher) wakeReady() error {
	now := p.Now()
	p.mu.Lock()
	var ready []string
	if !now.Before(p.due) {
		p.due = now.Add(time.Hour)
		for id, r := range p.rest {
			switch {
			case r.due.IsZero():
			case r.due.After(now):
				p.due = set.Sooner(p.due, r.due)
			default:
				ready = append(ready, id)
			}
		}
		slices.SortFunc(ready, func(a, b string) int {
			return cmp.Or(p.rest[a].due.Compare(p.rest[b].due), cmp.Compare(a, b))
		})
		if len(ready) > mostWoken {
			ready, p.due = ready[:mostWoken], now
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, id := range ready {
		if q, err := p.svc.queue(id); err == nil && q.ID() == id {
			errs = append(errs, p.touch(q))
		}
	}
	return errors.Join(errs...)
}

// trim puts the queues used longest ago to rest if more are open than need be. The lock of
// work is held, so that no Tick is at them.
func (p *Publisher) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) <= p.most {
		return
	}
	now := p.Now()
	idle := slices.SortedFunc(maps.Values(p.open), func(a, b *follower) int { return cmp.Compare(a.used, b.used) })
	for _, f := range idle[:len(idle)-p.most/2] {
		if f.users == 0 {
			p.putToRest(f, now)
		}
	}
}

// putToRest puts a queue without users to rest if it can. mu is held.
func (p *Publisher) putToRest(f *follower, now time.Time) {
	r, ok := f.resting(now)
	if !ok {
		return
	}
	id := f.Queue.ID()
	p.rest[id] = r
	delete(p.open, id)
	p.sorted = nil
	if !r.due.IsZero() && r.due.Before(p.due) {
		p.due = r.due
	}
}

// tryTrim is trim unless a Tick is at work: it never waits, since Close waits for Scrub.
func (p *Publisher) tryTrim() {
	if p.work.TryLock() {
		defer p.work.Unlock()
		p.trim()
	}
}

// resting returns how the queue rests; false if it has work that is known in memory
// alone.
func (f *follower) resting(now time.Time) (r resting, ok bool) {
	seq := f.Queue.Seq()
	var lines [names.Sets]set.Line
	var first time.Time
	for i, s := range f.sets {
		line, due, rests := s.Rest(seq, now)
		if !rests {
			return resting{}, false
		}
		lines[i], first = line, set.Sooner(first, due)
	}
	r = restOf(&lines)
	r.due = first
	return r, true
}

// A follower reads the events of one queue into both sets.
type follower struct {
	set.Subject
	p    *Publisher
	sets [names.Sets]*set.Set
	heir *heir // the queue, if it inherits events; else nil

	users int    // who need it open; its lock is the one of followers, as of the next one
	used  uint64 // number of the last use

	mu sync.Mutex // held while events are read
}

// openFollower opens the sets of a queue. open are its lines of the cursor,
// nil if there are none.
func (p *Publisher) openFollower(q Queue, open *[names.Sets]set.Line) (*follower, error) {
	f := &follower{p: p, heir: p.inherits(q, open)}
	if f.heir != nil {
		q = f.heir
	}
	f.Subject = p.src.Subject(q)
	for i := range f.sets {
		var at *set.Line
		if open != nil {
			at = &open[i]
		}
		var err error
		if f.sets[i], err = set.Open(f.Subject, names.Set(i), at, f.catchUp); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	// Find a gap now, when it ends with the events there are.
	if f.heir.has(f.read()) {
		return f, nil
	}
	if _, err := q.Events(f.read(), 1); errors.Is(err, ledger.ErrGone) {
		if err := f.skip(); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return f, nil
}

// read returns the last event in both sets.
func (f *follower) read() job.Seq {
	return min(f.sets[names.Pending].Seq(), f.sets[names.Replica].Seq())
}

// maxTries is how often catchUp begins again at the same event.
const maxTries = 10

// catchUp reads all events committed before the call. After an error the lists
// are true up to an earlier event, and the next call goes on from there.
func (f *follower) catchUp() error {
	to := f.Queue.Seq()
	if f.read() >= to {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Failure(); err != nil {
		return err
	}
	var events []job.Event
	var err error
	tries := 0 // in which a damaged list began again and no event was read
	for at, before := f.read(), f.read(); at < to; at, before = f.read(), at {
		if tries++; at > before {
			tries = 0
		}
		if tries > maxTries {
			return fmt.Errorf("lists after event %d do not stay as they are written", at)
		}
		events, err = f.events(at)
		if errors.Is(err, ledger.ErrGone) {
			return f.skip()
		}
		if err != nil {
			return err
		}
		if len(events) == 0 || events[0].Seq != at+1 {
			return fmt.Errorf("events after %d of %d are missing", at, to)
		}
		for _, s := range f.sets {
			if err := s.Append(events); err != nil {
				return err
			}
		}
	}
	return nil
}

// events returns events after one, some at a time: inherited ones, or those in the journal.
func (f *follower) events(after job.Seq) ([]job.Event, error) {
	if f.heir.has(after) {
		return f.heir.events(after, set.EventBatch)
	}
	return f.Queue.Events(after, set.EventBatch)
}

// skip leaves a gap where events are gone: the open lists are closed where they
// end, and new ones begin after the last event.
func (f *follower) skip() error {
	next, why := f.Queue.Seq(), ""
	if f.p.cursor.None() {
		why = ", and there is no " + set.CursorFile + " to say where the list was"
	}
	for _, s := range f.sets {
		if err := s.Skip(next, why); err != nil {
			return err
		}
	}
	return nil
}

// catchUp brings the lists of all changed queues up to date. A Tick has the lock of
// work.
func (p *Publisher) catchUp(tick bool) error {
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	changed, now := p.svc.changed(seen)
	var errs []error
	for i, q := range changed {
		switch {
		case i%trimEach != trimEach-1:
		case tick:
			p.trim()
		default:
			p.tryTrim()
		}
		if err := p.catchUpWith(q); err != nil && !errors.Is(err, ledger.ErrNoQueue) {
			errs = append(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	if len(errs) == 0 { // else all of them are looked at again
		p.mu.Lock()
		p.seen = max(p.seen, now)
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (p *Publisher) catchUpWith(q Queue) error {
	if _, rests := p.atRest(q); rests {
		return nil
	}
	f, err := p.use(q)
	if err != nil {
		return err
	}
	defer f.release()
	return f.catchUp()
}

// Between two Ticks thousands of changes may come, and the next reader of an open Change
// List waits until all of them are in it. While somebody reads one, the lists are kept up
// to date, and each reader waits for few. Without readers the changes wait for the Tick:
// many at once cost less each.
const (
	keptFor   = 2 * time.Second       // after the last reading of an open list
	keptEach  = 20 * time.Millisecond // from one look to the next, at least
	keptShare = 8                     // looks take an eighth of the time, at most
)

// reading is the wish of a reader of an open list; see KeepUp.
func (p *Publisher) reading() {
	select {
	case p.read <- struct{}{}:
	default: // it is known
	}
}

// KeepUp keeps the lists up to date while open Change Lists are read, until ctx ends. An
// error of a list is left to the next Tick.
func (p *Publisher) KeepUp(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.read:
		}
		for end := time.Now().Add(keptFor); time.Now().Before(end); {
			began := time.Now()
			_ = p.catchUp(false)
			pause.Reset(max(keptEach, (keptShare-1)*time.Since(began)))
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			select {
			case <-p.read:
				end = time.Now().Add(keptFor)
			default:
			}
		}
	}
}
