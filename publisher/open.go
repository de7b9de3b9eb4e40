package publisher

import (
	"errors"
	"fmt"
	"math"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

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
	var lines map[string]store.Lines
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
func (p *Publisher) lines(yield func(store.Line) bool) {
	for _, q := range p.svc.queues() {
		p.mu.Lock()
		f := p.open[q.ID()]
		r, rests := p.rest[q.ID()]
		p.mu.Unlock()
		var lines [names.Sets]store.Line
		switch {
		case f != nil:
			for i, s := range f.sets {
				lines[i] = s.Line()
			}
		case rests:
			lines = r.lines.Of(q.ID())
		default:
			continue
		}
		for i := range lines {
			if !yield(lines[i]) {
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

// Holds returns the first event of a queue whose record is wanted for a package, 0 for none;
// see [queuefs.Holder].
func (p *Publisher) Holds(queue string) (first queuefs.Seq) {
	p.mu.Lock()
	f := p.open[queue]
	r, rests := p.rest[queue]
	p.mu.Unlock()
	note := func(seq queuefs.Seq) {
		if seq > 0 && (first == 0 || seq < first) {
			first = seq
		}
	}
	if f != nil {
		for _, s := range f.sets {
			note(s.Holds())
		}
	} else if q, err := p.svc.queue(queue); rests && err == nil {
		for i, open := range r.lines.Open() {
			if open.Entries > 0 && p.src.Dumped(q, names.Set(i)) {
				note(open.First)
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
