package publisher

import (
	"context"
	"errors"
	"fmt"
)

// Publish makes at once what Ticks would make in time: it brings all lists up to
// date, makes the packages of all closed lists, and a Resource Dump of each set
// that has changed since its last one. It returns when that is done, with
// the errors of what cannot be made, which keeps nothing else. Ticks go on meanwhile.
func (p *Publisher) Publish(ctx context.Context) error {
	var waits []*wait // which are not tried again
	if err := p.tick(ctx, &waits); err != nil {
		return err
	}
	feeds := p.opened()
	for _, f := range feeds {
		f.want()
	}
	for more := true; more; {
		var err error
		if more, err = p.slice(ctx, &waits); err != nil {
			return err
		}
	}
	var errs []error
	for _, f := range feeds {
		errs = append(errs, f.failures()...)
	}
	return errors.Join(append(errs, p.waiting())...)
}

// want makes the next Ticks make Resource Dumps of the queue.
func (f *feed) want() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sets {
		f.sets[s].wanted = f.q.Seq()
	}
}

// slice works on what is to be made as a Tick does, and reports whether there
// is more.
func (p *Publisher) slice(ctx context.Context, waits *[]*wait) (more bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.failure()); err != nil {
		return false, err
	}
	err = p.finish(ctx, true, waits)
	return p.job != nil, errors.Join(err, p.retain())
}

// failures returns why the last package or dump of each set was not made.
func (f *feed) failures() (errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sets {
		if err := f.sets[s].err; err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %s: %w", f.q.ID(), Set(s), err))
		}
	}
	return errs
}
