package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/options"
	"cutie/publisher/scrub"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	svc      engine
	src      *set.Source
	cursor   *store.Cursor
	gone     *store.Removed
	server   answer.Server
	router   *web.Router
	work     work
	topics   atomic.Pointer[Topics] // stand in Capability Lists; may be nil
	scrubber *scrub.Reader
	followers
}

var (
	_ queuefs.Follower  = (*Publisher)(nil)
	_ queuefs.Keeper    = (*Publisher)(nil)
	_ queuefs.Forgetter = (*Publisher)(nil)
)

// cacheSize is how many bytes of compressed entries a Publisher keeps.
const cacheSize = 48 << 20

// New opens the Source of svc. Damage is reported, and publishing goes on; an
// error means: resourcesync in the home cannot be used at all, or the options are
// wrong.
func New[Q Queue](svc Service[Q], o Options) (*Publisher, error) {
	p, err := open(adapt(svc), o)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	return p, nil
}

func open(svc engine, o Options) (_ *Publisher, err error) {
	opts, err := o.Complete()
	if err != nil {
		return nil, err
	}
	p := &Publisher{svc: svc, src: &set.Source{Complete: opts, Cache: compose.NewCache(cacheSize)},
		server: answer.Server{Salt: opts.Salt, Now: opts.Now, Report: opts.Reportf}}
	p.scrubber = p.newScrubber()
	p.router = web.NewRouter(web.Plain, p.Routes()...)
	change, changed := options.Changed(svc.dir, o)
	if changed && !o.Anew && svc.hasEvents() {
		return nil, &options.ChangeError{Change: change}
	}
	if err := p.beginResults(); err != nil {
		return nil, err
	}
	if p.src.Store, err = opts.OpenStore(svc.dir); err != nil {
		return nil, err
	}
	if changed {
		if err = p.begin(); err != nil {
			return nil, errors.Join(err, p.src.Store.Close())
		}
	}
	p.gone = p.src.Store.Removed()
	var lines map[string][]store.Line
	if p.cursor, lines, err = p.src.Store.Cursor(); err == nil {
		p.resume(lines)
		err = p.look(firstLooks, math.MaxInt64)
	}
	if err != nil {
		return nil, errors.Join(err, p.src.Store.Close())
	}
	return p, nil
}

// Tick brings all lists up to date, closes lists at the end of their period, makes
// packages for a twentieth of a second, and removes files past their retention.
// Call it about once a second; its cost grows with the changes. A failed package
// or dump does not stop the others. It is an error of each Tick until it is made;
// it is tried again when there is free space, or after a pause of a second to a
// minute.
func (p *Publisher) Tick(ctx context.Context) error {
	return errors.Join(p.tick(ctx), p.waiting())
}

func (p *Publisher) tick(ctx context.Context) error {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.reopen(); err != nil {
		return err
	}
	defer p.server.Check()
	defer p.trim()
	errs := []error{p.look(math.MaxInt, lookTime), p.catchUp(true)}
	if !p.work.more { // else the open ones have enough of it
		errs = append(errs, p.wakeReady())
	}
	if p.src.Period > 0 {
		for _, s := range p.sets() {
			if err := s.CloseOld(); err != nil {
				errs = append(errs, fmt.Errorf("queue %s: %w", s.Queue.ID(), err))
			}
		}
	}
	var waits []*set.Wait
	return errors.Join(append(errs, p.heal(ctx), p.makeSome(ctx, false, &waits), p.retain())...)
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
		if err := p.catchUpWith(q); err != nil && !errors.Is(err, queuefs.ErrNoQueue) {
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

// Publish does at once the work of many Ticks: it brings all lists up to date,
// closes them, makes the packages of all closed lists, and a Resource Dump of each set with
// changes since its last one. It returns at the end, with the errors of packages
// and dumps not made. Ticks go on meanwhile.
func (p *Publisher) Publish(ctx context.Context) error {
	var errs []error
	var waits []*set.Wait // are not tried again
	for some := range slices.Chunk(p.svc.queues(), mostOpen) {
		more, err := p.publish(ctx, some, &waits)
		errs = append(errs, more...)
		if err != nil {
			return err
		}
	}
	return errors.Join(append(errs, p.waiting())...)
}

// publish is Publish for some queues; err ends it.
func (p *Publisher) publish(ctx context.Context, queues []Queue, waits *[]*set.Wait) (errs []error, err error) {
	open, behind, err := p.bringUp(ctx, queues)
	if err != nil {
		return nil, err
	}
	var sets []*set.Set
	for _, f := range open {
		defer f.release()
		sets = append(sets, f.sets[:]...)
	}
	for more := true; more; {
		more, err = p.slice(ctx, waits)
		if stop := errors.Join(ctx.Err(), p.src.Failure()); stop != nil {
			return nil, cmp.Or(err, stop)
		}
	}
	errs = []error{behind, err}
	for _, s := range sets {
		errs = append(errs, s.Passed()...)
	}
	return errs, nil
}

// bringUp opens queues, brings their lists up to date and closes them, and asks for
// Resource Dumps; behind says why some are not.
func (p *Publisher) bringUp(ctx context.Context, queues []Queue) (open []*follower, behind, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.src.Failure()); err != nil {
		return nil, nil, err
	}
	defer p.server.Check()
	for _, q := range queues {
		f, err := p.use(q)
		if errors.Is(err, queuefs.ErrNoQueue) {
			continue
		}
		if err == nil {
			open = append(open, f)
			err = f.catchUp()
		}
		if err != nil {
			behind = errors.Join(behind, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	for _, f := range open {
		for _, s := range f.sets {
			behind = errors.Join(behind, s.Close())
			s.WantDump()
		}
	}
	return open, behind, nil
}

// slice makes packages as a Tick does, and reports whether there is more.
func (p *Publisher) slice(ctx context.Context, waits *[]*set.Wait) (more bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.src.Failure()); err != nil {
		return false, err
	}
	err = p.makeSome(ctx, true, waits)
	return p.work.task != nil || p.src.Damaged(), errors.Join(err, p.retain())
}

// Flush writes all committed events into the files, unsynced. The engine calls
// it before a checkpoint syncs the file system.
func (p *Publisher) Flush() error {
	if err := p.src.Failure(); err != nil {
		return err
	}
	if err := p.catchUp(false); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	p.cursor.Take(p.lines)
	return nil
}

// lines yields how far all sets are. A queue that opens meanwhile has the lines of its
// rest: they have all events up to the last catchUp.
func (p *Publisher) lines(yield func(store.Line) bool) {
	for _, q := range p.svc.queues() {
		p.mu.Lock()
		f, r, rests := p.open[q.ID()], resting{}, false
		if f == nil {
			r, rests = p.rest[q.ID()]
		}
		p.mu.Unlock()
		if f != nil {
			for i, s := range f.sets {
				r.lines[i] = s.Line()
			}
		}
		if f == nil && !rests {
			continue
		}
		for i := range r.lines {
			if !yield(r.lines[i]) {
				return
			}
		}
	}
}

// Synced makes the last Flush the point where the lists go on after a crash.
// The engine calls it after the sync; when it has returned nil the events
// before that Flush are no longer needed.
func (p *Publisher) Synced() error {
	err := p.src.Failure()
	if err == nil {
		err = p.cursor.Write()
	}
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	return nil
}

// Needs returns the time from which on the engine must keep changed jobs; zero if
// it may cull any. Jobs in closed lists are kept until the lists have
// packages, and all jobs while a Resource Dump is made. The open list keeps
// none, since it may stay open for ever. Nor do lists with packages that wait
// for free space: culling makes it.
func (p *Publisher) Needs(queue string) (since time.Time) {
	q, err := p.svc.queue(queue)
	if err != nil || q.ID() != queue {
		return since
	}
	if p.knowsRest(queue) {
		return since // its lists have their packages
	}
	f, err := p.use(q)
	if err != nil {
		return since
	}
	defer f.release()
	for _, s := range f.sets {
		at, all := s.Needs()
		if all {
			return f.Created()
		}
		if !at.IsZero() && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}

// Forget lets go of a removed queue. The engine removes its documents.
func (p *Publisher) Forget(queue string) error {
	p.work.Lock()
	defer p.work.Unlock()
	if t := p.work.task; t != nil && t.Queue.ID() == queue {
		p.work.drop()
	}
	if err := p.gone.Add(queue, p.Now().UTC()); err != nil {
		p.src.Reportf(queue, "its removal is not noted: %v", err)
	}
	p.forget(queue)
	return nil
}

// removed returns when a queue that is not there was removed, and whether one of the
// name was.
func (p *Publisher) removed(id string) (time.Time, bool) {
	if p.knows(id) {
		return p.Now().UTC(), true // just now, and Forget is to come
	}
	return p.gone.At(id)
}

// Close ends unfinished work on packages and closes the directory. Close the
// service first: its last checkpoint calls Flush and Synced.
func (p *Publisher) Close() error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.src.Shut() {
		return nil
	}
	p.work.drop()
	p.scrubber.Close()
	return p.src.Store.Close()
}

// Failure returns why nothing is published now; nil while it is.
func (p *Publisher) Failure() error { return p.src.Failure() }
