package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	options
	svc   engine
	cache *cache
	turns chan struct{} // held while a Resource List is read and compressed

	mu    sync.Mutex
	feeds map[string]*feed  // by queue
	marks map[string][]mark // from the cursor, of queues not met yet

	roots    atomic.Pointer[root]
	reviving sync.Mutex // guards changes of roots

	cursorMu  sync.Mutex
	flushed   []byte       // cursor as of the last Flush
	written   []byte       // cursor as it stands in the file
	writtenTo *durable.Dir // where that is

	notifier atomic.Pointer[Notifier] // whose topics Capability Lists name; nil: there is none

	polls  polls
	work   sync.Mutex // one Tick at a time
	job    *task
	failed atomic.Pointer[error]
	closed atomic.Bool
}

// New opens the Source of svc. Damage that it finds is reported and lived
// with; an error means that resourcesync in the home cannot be used at all,
// or that the options are wrong.
func New[Q Queue](svc Service[Q], o Options) (*Publisher, error) {
	return open(adapt(svc), o)
}

func open(svc engine, o Options) (*Publisher, error) {
	opts, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	home, err := durable.OpenDir(svc.dir, o.Fault)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	defer home.Close()
	root, err := openRoot(home)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p := &Publisher{
		options: opts,
		svc:     svc,
		cache:   newCache(cacheSize),
		turns:   make(chan struct{}, 2),
		feeds:   make(map[string]*feed),
	}
	p.roots.Store(root)
	if err = p.remember(); err == nil {
		err = p.begin()
	}
	if err != nil {
		p.roots.Load().close()
		return nil, fmt.Errorf("publisher: %w", err)
	}
	return p, nil
}

// begin removes what is unfinished, reads the cursor and opens all queues.
func (p *Publisher) begin() error {
	var stale []string
	root := p.root()
	err := root.Names(func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		err = errors.Join(err, root.Remove(name))
	}
	if err != nil {
		return err
	}
	if err := p.readCursor(); err != nil {
		return err
	}
	for _, q := range p.svc.queues() {
		if _, err := p.feed(q); err != nil {
			return err
		}
	}
	return nil
}

// feed returns the feed of a queue, opening it when the queue is new.
func (p *Publisher) feed(q Queue) (published, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.feeds[q.ID()]; f != nil {
		return published{f}, nil
	}
	if now, err := p.svc.queue(q.ID()); err != nil || now != q {
		return published{}, errors.Join(err, fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)) // it was removed
	}
	f, err := p.openFeed(q, p.marks[q.ID()])
	if err != nil {
		return published{}, err
	}
	delete(p.marks, q.ID())
	p.feeds[q.ID()] = f
	return published{f}, nil
}

// opened returns the feeds of all queues met so far, in order of their names.
func (p *Publisher) opened() []*feed {
	p.mu.Lock()
	feeds := slices.Collect(maps.Values(p.feeds))
	p.mu.Unlock()
	slices.SortFunc(feeds, func(a, b *feed) int { return strings.Compare(a.q.ID(), b.q.ID()) })
	return feeds
}

// Tick brings all lists up to date, closes those whose period is over, works on
// packages for some tenths of a second, or a few hundredths if the machine is busy,
// and removes what is kept no longer. It is to be called about once a second; what
// it costs grows with what has changed. What cannot be made keeps nothing else, and
// is an error of each until it is made: it is tried again when there is room, or
// after a pause of a second, and later of up to a minute.
func (p *Publisher) Tick(ctx context.Context) error {
	return errors.Join(p.tick(ctx), p.waiting())
}

// tick is a Tick without the errors of what is not made.
func (p *Publisher) tick(ctx context.Context) error {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.failure(); err != nil {
		return err
	}
	defer p.polls.look(p.find)
	var waits []*wait
	return errors.Join(p.catchUp(true), p.finish(ctx, false, &waits), p.retain())
}

// catchUp brings the feeds of all queues that changed up to date.
func (p *Publisher) catchUp(tick bool) error {
	var errs []error
	for _, q := range p.svc.queues() {
		f, err := p.feed(q)
		if err == nil && f.behind() {
			err = f.catchUp()
		}
		if err == nil && tick && p.Period > 0 {
			err = f.closeOld(p.Now().Add(-p.Period))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// Flush brings every committed event into the files, unsynced. The engine
// calls it before a checkpoint syncs the file system.
func (p *Publisher) Flush() error {
	if err := p.failure(); err != nil {
		return err
	}
	if err := p.catchUp(false); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	p.cursorMu.Lock()
	defer p.cursorMu.Unlock()
	p.flushed = p.cursor()
	return nil
}

// Synced makes what the last Flush wrote the point from which the lists go on
// after a crash. The engine calls it after the sync; when it has returned nil
// the events before that Flush are no longer needed.
func (p *Publisher) Synced() error {
	if err := p.failure(); err != nil {
		return err
	}
	p.cursorMu.Lock()
	defer p.cursorMu.Unlock()
	if err := p.writeCursor(); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	return nil
}

// Close ends unfinished work on packages and lets go of the directory. Close
// the service first: its last checkpoint wants Flush and Synced.
func (p *Publisher) Close() error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.closed.Swap(true) {
		return nil
	}
	p.drop()
	return p.roots.Load().close()
}

// fail remembers that what was written may not be on stable storage. Nothing
// is closed and no event is let go of until the home is opened again.
func (p *Publisher) fail(err error) error {
	err = errors.Join(queuefs.ErrFailed, err)
	p.failed.CompareAndSwap(nil, &err)
	return err
}

func (p *Publisher) failure() error {
	if p.closed.Load() {
		return fmt.Errorf("publisher: %w", queuefs.ErrClosed)
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *Publisher) report(path, text string, args ...any) {
	if p.Report != nil {
		p.Report(queuefs.Problem{Path: "resourcesync/" + path, Text: fmt.Sprintf(text, args...)})
	}
}
