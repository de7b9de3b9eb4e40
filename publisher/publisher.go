package publisher

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
	"cutie/sitemap"
)

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	svc      engine
	src      *set.Source
	cursor   *set.Cursor
	gone     *set.Removed
	server   server
	router   *web.Router
	work     work
	topics   atomic.Pointer[Topics] // stand in Capability Lists; may be nil
	read     chan struct{}          // an open list is read; see KeepUp
	scrubber *rereader
	followers
}

// Topics are the topics of notifications, as Capability Lists name them.
type Topics struct {
	Tag     string                                          // differs with the Entries
	Entries func(queue string, s names.Set) []sitemap.Entry // of a set
	Newest  func(uri string) ([]byte, error)                // document at the URI of a topic
}

// removed returns when a queue that is not there was removed, and whether one of the
// name was.
func (p *Publisher) removed(id string) (time.Time, bool) {
	if p.knows(id) {
		return p.Now().UTC(), true // just now, and Forget is to come
	}
	return p.gone.At(id)
}

// Failure returns why nothing is published now; nil while it is.
func (p *Publisher) Failure() error { return p.src.Failure() }

// Now returns the time by the clock of the Source.
func (p *Publisher) Now() time.Time { return p.src.Now() }

// Queues returns the published queues.
func (p *Publisher) Queues() []Queue { return p.svc.queues() }

// Announce makes Capability Lists name topics from then on.
func (p *Publisher) Announce(t Topics) { p.topics.Store(&t) }

// A Queue is the part of *queuefs.Queue for a Source.
type Queue = set.Queue

// Service is the part of *queuefs.Service for a Source. With its method Changed, too, a
// Tick looks at changed queues alone.
type Service[Q Queue] interface {
	Dir() string
	Queues() []Q
	Queue(name string) (Q, error)
	Calm() bool
}

// engine is a Service with queues as interfaces.
type engine struct {
	dir    string
	queues func() []Queue
	queue  func(id string) (Queue, error)
	calm   func() bool

	// changed returns the queues with changes after a count, all for 0, and the count
	// for the next call.
	changed func(after uint64) ([]Queue, uint64)
}

func adapt[Q Queue](svc Service[Q]) engine {
	as := func(all []Q) []Queue {
		out := make([]Queue, len(all))
		for i, q := range all {
			out[i] = q
		}
		return out
	}
	queues := func() []Queue { return as(svc.Queues()) }
	changed := func(uint64) ([]Queue, uint64) { return queues(), 0 }
	if svc, ok := any(svc).(interface {
		Changed(after uint64) ([]Q, uint64)
	}); ok {
		changed = func(after uint64) ([]Queue, uint64) {
			some, now := svc.Changed(after)
			return as(some), now
		}
	}
	return engine{
		dir:     svc.Dir(),
		queues:  queues,
		changed: changed,
		calm:    svc.Calm,
		queue: func(id string) (Queue, error) {
			q, err := svc.Queue(id)
			if err != nil {
				return nil, err
			}
			return q, nil
		},
	}
}

var (
	_ queuefs.Follower  = (*Publisher)(nil)
	_ queuefs.Forgetter = (*Publisher)(nil)
	_ queuefs.Holder    = (*Publisher)(nil)
)

// formsSize is how many bytes of compressed documents a Publisher keeps.
const formsSize = 48 << 20

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
	p := &Publisher{svc: svc, read: make(chan struct{}, 1), src: &set.Source{Complete: opts},
		server: server{Salt: opts.Salt, Now: opts.Now, Report: opts.Reportf, forms: newForms(formsSize)}}
	p.scrubber = p.newScrubber()
	p.router = web.NewRouter(web.Plain, p.Routes()...)
	change, changed := Changed(svc.dir, o)
	if changed && !o.Anew && svc.hasEvents() {
		return nil, &ChangeError{Change: change}
	}
	if p.src.Store, err = openStore(svc.dir, &opts); err != nil {
		return nil, err
	}
	if changed {
		if err = p.begin(); err != nil {
			return nil, errors.Join(err, p.src.Store.Close())
		}
	}
	p.gone = p.src.Store.Removed()
	var lines map[string]set.Lines
	if p.cursor, lines, err = p.src.Store.Cursor(); err == nil {
		p.resume(lines)
		err = p.look(firstLooks, math.MaxInt64)
	}
	if err != nil {
		return nil, errors.Join(err, p.src.Store.Close())
	}
	return p, nil
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
func (p *Publisher) lines(yield func(set.Lines) bool) {
	for _, q := range p.svc.queues() {
		p.mu.Lock()
		f := p.open[q.ID()]
		r, rests := p.rest[q.ID()]
		p.mu.Unlock()
		switch {
		case f != nil:
			var lines [names.Sets]set.Line
			for i, s := range f.sets {
				lines[i] = s.Line()
			}
			r.lines = set.LinesOf(&lines)
		case !rests:
			continue
		}
		if !yield(r.lines) {
			return
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

// Holds returns the first event of a queue whose record is wanted for a package, 0 for none;
// see [queuefs.Holder].
func (p *Publisher) Holds(queue string) (first job.Seq) {
	p.mu.Lock()
	f := p.open[queue]
	r, rests := p.rest[queue]
	p.mu.Unlock()
	note := func(seq job.Seq) {
		if seq > 0 && (first == 0 || seq < first) {
			first = seq
		}
	}
	if f != nil {
		for _, s := range f.sets {
			note(s.Holds())
		}
	} else if q, err := p.svc.queue(queue); rests && err == nil {
		for i, seq := range r.holds {
			if p.src.Dumped(q, names.Set(i)) {
				note(seq)
			}
		}
	}
	return first
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

// Take puts other terms in force, and another pace of reading files again. Documents that
// are too old by them go with the next Tick, those of queues at rest as these are
// opened. The terms are kept in the home.
func (p *Publisher) Take(t Terms, pace names.Pace) error {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.src.Failure(); err != nil {
		return err
	}
	p.scrubber.SetPace(pace)
	if t == p.src.Terms() {
		return nil
	}
	if err := p.src.Take(t); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	now := p.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.rest {
		r.due = now
		p.rest[id] = r
	}
	p.due = now
	return nil
}

// SetState is how far the publishing of a set is.
type SetState = set.State

// State returns the state of all sets, sorted by queue. A queue with
// unusable lists is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		if lines, rests := p.atRest(q); rests {
			of := linesNow(q) // it never had an event
			if lines != "" {
				*of, _ = lines.Parse()
			}
			for i := range of {
				all = append(all, set.Resting(&of[i]))
			}
		} else if f, err := p.use(q); err == nil {
			now := q.State()
			for _, s := range f.sets {
				all = append(all, s.State(&now))
			}
			f.release()
		}
	}
	return all
}

// linesNow are the lines of a queue with lists that begin after the last event.
func linesNow(q Queue) *[names.Sets]set.Line {
	var lines [names.Sets]set.Line
	for s := range lines {
		lines[s] = set.Line{Queue: q.ID(), Set: names.Set(s), Open: (&set.Subject{Queue: q}).ListNow()}
	}
	return &lines
}

// BaseURI returns the beginning of all published references, without a slash
// at the end.
func (p *Publisher) BaseURI() string { return string(p.src.Base) }

// CapabilityList returns the URI of the Capability List of a set; queue is
// the cleaned identifier of the queue.
func (p *Publisher) CapabilityList(queue string, s names.Set) string {
	return p.src.Base.Queue(queue).Doc(s, names.CapabilityList.Of())
}

// ResourceLists returns the URIs of the Resource Lists of both sets of a queue;
// queue is its cleaned identifier.
func (p *Publisher) ResourceLists(queue string) (uris []string) {
	for s := range names.Set(names.Sets) {
		uris = append(uris, p.src.Base.Queue(queue).Doc(s, names.ResourceList.Of()))
	}
	return uris
}

// Sitemaps returns the URIs of the Sitemaps of the sets of a queue, which have no terms of
// ResourceSync. A set without resources has none: sitemaps.org wants an entry.
func (p *Publisher) Sitemaps(q Queue) (uris []string) {
	for s := range names.Set(names.Sets) {
		if s != names.Pending || q.State().Pending > 0 {
			uris = append(uris, p.src.Base.Queue(q.ID()).Doc(s, names.Sitemap.Of()))
		}
	}
	return uris
}
