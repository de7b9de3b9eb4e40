package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	options
	svc    engine
	store  *store.Store
	cursor *store.Cursor
	gone   *store.Removed
	cache  *compose.Cache
	server answer.Server
	router *web.Router
	work   work
	topics atomic.Pointer[Topics] // stand in Capability Lists; may be nil
	failed atomic.Pointer[error]
	closed atomic.Bool

	mu     sync.Mutex
	queues map[string]*follower
	sorted []*set                      // of all queues; nil after a change
	open   map[string][]store.OpenList // from the cursor, of queues not opened yet
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
	opts, err := o.complete()
	if err != nil {
		return nil, err
	}
	p := &Publisher{options: opts, svc: svc, queues: make(map[string]*follower), cache: compose.NewCache(cacheSize),
		server: answer.Server{Salt: opts.salt, Now: opts.Now, Report: opts.report}}
	p.router = web.NewRouter(web.Plain, p.Routes()...)
	change, changed := Changed(svc.dir, o)
	if changed && !o.Anew && svc.hasEvents() {
		return nil, &ChangeError{change}
	}
	if p.store, err = opts.openStore(svc.dir); err != nil {
		return nil, err
	}
	if changed {
		if err = p.begin(); err != nil {
			return nil, errors.Join(err, p.store.Close())
		}
	}
	p.gone = p.store.Removed()
	p.cursor, p.open, err = p.store.Cursor()
	for _, q := range svc.queues() {
		if err == nil {
			_, err = p.follower(q)
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	return p, nil
}

// follower returns the follower of a queue, opening it when the queue is new.
func (p *Publisher) follower(q Queue) (*follower, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.queues[q.ID()]; f != nil {
		return f, nil
	}
	if now, err := p.svc.queue(q.ID()); err != nil || now != q {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)) // it was removed
	}
	f, err := p.openFollower(q, p.open[q.ID()])
	if err != nil {
		return nil, err
	}
	delete(p.open, q.ID())
	p.queues[q.ID()], p.sorted = f, nil
	return f, nil
}

// sets returns the sets of all queues opened so far, sorted by queue. It is not
// to be changed.
func (p *Publisher) sets() []*set {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sorted == nil {
		for _, id := range slices.Sorted(maps.Keys(p.queues)) {
			p.sorted = append(p.sorted, p.queues[id].sets[:]...)
		}
	}
	return p.sorted
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
	if err := p.failure(); err != nil {
		return err
	}
	defer p.server.Check()
	var waits []*wait
	return errors.Join(p.catchUp(true), p.makeSome(ctx, false, &waits), p.retain())
}

// catchUp brings the lists of all changed queues up to date.
func (p *Publisher) catchUp(tick bool) error {
	var errs []error
	for _, q := range p.svc.queues() {
		f, err := p.follower(q)
		if err == nil {
			err = f.catchUp()
		}
		if err == nil && tick && p.Period > 0 {
			err = f.closeOld()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// Publish does at once the work of many Ticks: it brings all lists up to date,
// closes them, makes the packages of all closed lists, and a Resource Dump of each set with
// changes since its last one. It returns at the end, with the errors of packages
// and dumps not made. Ticks go on meanwhile.
func (p *Publisher) Publish(ctx context.Context) error {
	behind, err := p.bringUp(ctx)
	if err != nil {
		return err
	}
	sets := p.sets()
	for _, s := range sets {
		s.mu.Lock()
		s.made.wanted, s.made.passed = s.q.Seq(), nil
		s.mu.Unlock()
	}
	var waits []*wait // are not tried again
	for more := true; more; {
		more, err = p.slice(ctx, &waits)
		if errors.Join(ctx.Err(), p.failure()) != nil {
			return err
		}
	}
	errs := []error{behind, err}
	for _, s := range sets {
		s.mu.Lock()
		passed := append([]error{s.made.dump.passed}, s.made.passed...)
		if len(s.made.passed) == 0 {
			passed = append(passed, s.made.lists.passed)
		}
		s.mu.Unlock()
		for _, err := range passed {
			if err != nil {
				errs = append(errs, fmt.Errorf("queue %s: %s: %w", s.q.ID(), s.kind, err))
			}
		}
	}
	return errors.Join(append(errs, p.waiting())...)
}

// bringUp brings all lists up to date; behind says why some are not.
func (p *Publisher) bringUp(ctx context.Context) (behind, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.failure()); err != nil {
		return nil, err
	}
	defer p.server.Check()
	behind = p.catchUp(true)
	for _, s := range p.sets() {
		behind = errors.Join(behind, s.closeIf(func() bool { return true }))
	}
	return behind, nil
}

// slice makes packages as a Tick does, and reports whether there is more.
func (p *Publisher) slice(ctx context.Context, waits *[]*wait) (more bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.failure()); err != nil {
		return false, err
	}
	err = p.makeSome(ctx, true, waits)
	return p.work.task != nil, errors.Join(err, p.retain())
}

// Flush writes all committed events into the files, unsynced. The engine calls
// it before a checkpoint syncs the file system.
func (p *Publisher) Flush() error {
	if err := p.failure(); err != nil {
		return err
	}
	if err := p.catchUp(false); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	p.cursor.Take(p.lines)
	return nil
}

// lines returns how far all sets are.
func (p *Publisher) lines() (all []store.Line) {
	for _, s := range p.sets() {
		s.mu.Lock()
		all = append(all, store.Line{Queue: s.q.ID(), Set: s.kind, Open: s.at})
		s.mu.Unlock()
	}
	return all
}

// Synced makes the last Flush the point where the lists go on after a crash.
// The engine calls it after the sync; when it has returned nil the events
// before that Flush are no longer needed.
func (p *Publisher) Synced() error {
	err := p.failure()
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
	p.mu.Lock()
	f := p.queues[queue]
	p.mu.Unlock()
	if f == nil {
		return since
	}
	for _, s := range f.sets {
		at, all := s.needs()
		if all {
			return f.created()
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
	if t := p.work.task; t != nil && t.q.ID() == queue {
		p.work.drop()
	}
	if err := p.gone.Add(queue, p.Now().UTC()); err != nil {
		p.report(queue, "its removal is not noted: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.queues, queue)
	delete(p.open, queue)
	p.sorted = nil
	return nil
}

// removed returns when a queue that is not there was removed, and whether one of the
// name was.
func (p *Publisher) removed(id string) (time.Time, bool) {
	p.mu.Lock()
	f := p.queues[id]
	p.mu.Unlock()
	if f != nil {
		return p.Now().UTC(), true // just now, and Forget is to come
	}
	return p.gone.At(id)
}

// Close ends unfinished work on packages and closes the directory. Close the
// service first: its last checkpoint calls Flush and Synced.
func (p *Publisher) Close() error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.closed.Swap(true) {
		return nil
	}
	p.work.drop()
	return p.store.Close()
}

// fail records that written data may not be on stable storage. No list is
// closed and no event released until the home is opened again.
func (p *Publisher) fail(err error) error {
	if !errors.Is(err, queuefs.ErrFailed) {
		err = errors.Join(queuefs.ErrFailed, err)
	}
	p.failed.CompareAndSwap(nil, &err)
	return err
}

// Failure returns why nothing is published any more; nil while it is.
func (p *Publisher) Failure() error { return p.failure() }

func (p *Publisher) failure() error {
	if p.closed.Load() {
		return fmt.Errorf("publisher: %w", queuefs.ErrClosed)
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}
