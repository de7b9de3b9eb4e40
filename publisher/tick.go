package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"cutie/publisher/set"
	"cutie/queuefs/ledger"
)

// Tick brings all lists up to date, closes lists that are old, makes packages, and removes
// files past their retention. Closing and packages have a twentieth of a second together while
// the engine is busy, and half a second in calm, or when the journal cannot wait for packages.
// Call it about once a second; its cost grows with the changes. A failed package
// or dump does not stop the others. It is an error of each Tick until it is made;
// it is tried again when there is free space, or after a pause of a second to a
// minute.
func (p *Publisher) Tick(ctx context.Context) error {
	var waits []*set.Wait
	more, err := p.tick(ctx, &waits)
	for n := 1; more && n < p.slices(); n++ {
		var e error
		more, e = p.slice(ctx, false, &waits)
		err = errors.Join(err, e)
	}
	return errors.Join(err, p.waiting())
}

// tick is Tick with the first slice of its time; more reports whether there is work for others.
func (p *Publisher) tick(ctx context.Context, waits *[]*set.Wait) (more bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.src.Failure(); err != nil {
		return false, err
	}
	defer p.server.Check()
	defer p.trim()
	errs := []error{p.look(math.MaxInt, lookTime), p.catchUp(true)}
	if p.work.task == nil && !p.work.behind { // else the open ones have enough of it
		errs = append(errs, p.wakeReady())
	}
	start := p.Now()
	p.work.behind, err = p.closeOld()
	errs = append(errs, err, p.makeSome(ctx, start, false, waits), p.retain())
	return p.work.task != nil, errors.Join(errs...)
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
		more, err = p.slice(ctx, true, waits)
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
		if errors.Is(err, ledger.ErrNoQueue) {
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
			behind = errors.Join(behind, s.CloseList())
			s.WantDump()
		}
	}
	return open, behind, nil
}

// slice makes packages for a slice of time, and reports whether there is more. See makeSome.
func (p *Publisher) slice(ctx context.Context, now bool, waits *[]*set.Wait) (more bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	if err := errors.Join(ctx.Err(), p.src.Failure()); err != nil {
		return false, err
	}
	err = p.makeSome(ctx, p.Now(), now, waits)
	return p.work.task != nil, errors.Join(err, p.retain())
}

// A Tick closes lists and makes packages for a slice of time, a twentieth if there is a Tick a
// second: requests go first. In calm there are mostSlices of them. A load that lasts gets by
// with one until the lists that wait for packages hold most of the log that is kept; from there
// on there are more, and mostSlices before their records are let go of.
const (
	sliceTime  = 50 * time.Millisecond
	mostSlices = 10
	mostKept   = 0.75 // of the log, for one slice
)

// slices returns how many slices a Tick has now.
func (p *Publisher) slices() int {
	if p.svc.calm() {
		return mostSlices
	}
	kept := 0.0
	for _, s := range p.sets() {
		kept = max(kept, s.Kept())
	}
	return 1 + int((mostSlices-1)*min(max(0, kept-mostKept)/(1-mostKept), 1))
}

// closeOld closes lists that are old enough, those that wait longest first, for half of
// sliceTime; behind is whether some are left.
func (p *Publisher) closeOld() (behind bool, err error) {
	type old struct {
		*set.Set
		since time.Time
	}
	var all []old
	start := p.Now()
	for _, s := range p.sets() {
		if since, due := s.Due(start); due {
			all = append(all, old{s, since})
		}
	}
	slices.SortStableFunc(all, func(a, b old) int { return a.since.Compare(b.since) })
	var errs []error
	for i, s := range all {
		if behind = i > 0 && p.Now().Sub(start) > sliceTime/2; behind {
			break
		}
		if err := s.CloseList(); err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", s.Queue.ID(), err))
		}
	}
	return behind, errors.Join(errs...)
}

// work is the making of packages. Its lock is held for one slice at a time.
type work struct {
	sync.Mutex
	task   *set.Task // nil if there is none
	behind bool      // the last Tick had no time to close all old lists
}

// drop ends the task where it is.
func (w *work) drop() {
	if w.task != nil {
		w.task.Stop()
		w.task = nil
	}
}

// makeSome makes packages until the slice that began at start is over or none is left; now
// ignores pauses after failures. A failure is added to waits, and nothing in waits is
// tried.
func (p *Publisher) makeSome(ctx context.Context, start time.Time, now bool, waits *[]*set.Wait) error {
	for {
		if p.work.task == nil {
			if p.work.task = p.nextTask(now, *waits); p.work.task == nil {
				return nil
			}
		}
		t := p.work.task
		for t.Step() {
			if ctx.Err() != nil || p.Now().Sub(start) > sliceTime {
				return ctx.Err()
			}
		}
		p.work.drop()
		if w := t.Done(); w != nil {
			*waits = append(*waits, w)
		}
		if ctx.Err() != nil || p.src.Failure() != nil {
			return ctx.Err()
		}
	}
}

// nextTask returns the next task, nil if there is none now.
func (p *Publisher) nextTask(now bool, waits []*set.Wait) *set.Task {
	for _, s := range p.sets() {
		if t := s.NextTask(now, waits); t != nil {
			return t
		}
	}
	return nil
}

// maxWaiting is how many errors of waits are returned.
const maxWaiting = 4

// waiting returns why packages and dumps are not made.
func (p *Publisher) waiting() error {
	var errs []error
	for _, s := range p.sets() {
		errs = append(errs, s.Waits()...)
	}
	if n := len(errs) - maxWaiting; n > 0 {
		errs = append(errs[:maxWaiting], fmt.Errorf("%d more are not made", n))
	}
	return errors.Join(errs...)
}

// retain removes documents beyond Keep and KeepOctets.
func (p *Publisher) retain() error {
	if err := p.src.Failure(); err != nil {
		return err
	}
	var errs []error
	for _, s := range p.sets() {
		errs = append(errs, s.Retain())
	}
	return errors.Join(errs...)
}
