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
	behind, err := p.bringUp(ctx)
	if err != nil {
		return err
	}
	feeds := p.opened()
	for _, f := range feeds {
		f.want()
	}
	var waits []*wait // which are not tried again
	for more := true; more; {
		more, err = p.slice(ctx, &waits)
		if errors.Join(ctx.Err(), p.failure()) != nil {
			return err
		}
	}
	errs := []error{behind, err}
	for _, f := range feeds {
		errs = append(errs, f.passedOver()...)
	}
	return errors.Join(append(errs, p.waiting())...)
}

// bringUp brings all lists up to date. behind is why some are not.
func (p *Publisher) bringUp(ctx context.Context) (behind, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.failure()); err != nil {
		return nil, err
	}
	defer p.polls.look(p.find)
	return p.catchUp(true), nil
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

// passedOver returns why the last package or dump of each set was passed over.
func (f *feed) passedOver() (errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sets {
		for _, w := range []*wait{&f.sets[s].forLists, &f.sets[s].forDump} {
			if w.passed != nil {
				errs = append(errs, fmt.Errorf("queue %s: %s: %w", f.q.ID(), Set(s), w.passed))
			}
		}
	}
	return errs
}
