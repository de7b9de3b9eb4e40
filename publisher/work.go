package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cutie/publisher/set"
)

// sliceTime bounds the work of one Tick on closing lists and making packages: a twentieth
// of the time, if there is a Tick a second. Lists that close because they are full come as
// fast as the load makes them, so there is as much time again for each one of a set that
// waits behind another, up to mostSlices.
const (
	sliceTime  = 50 * time.Millisecond
	mostSlices = 10
)

// budget returns for how long a Tick closes lists and makes packages.
func (p *Publisher) budget() time.Duration {
	slices := 1
	for _, s := range p.sets() {
		slices += max(0, s.Unpacked()-1)
	}
	return sliceTime * time.Duration(min(slices, mostSlices))
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

// work is the making of packages. Its lock is held by one Tick at a time.
type work struct {
	sync.Mutex
	task *set.Task // nil if there is none
	more bool      // the last Tick had no time for all
}

// drop ends the task where it is.
func (w *work) drop() {
	if w.task != nil {
		w.task.Stop()
		w.task = nil
	}
}

// makeSome makes packages until the time from start on is up or none is left; now ignores
// pauses after failures. A failure is added to waits, and nothing in waits is
// tried.
func (p *Publisher) makeSome(ctx context.Context, start time.Time, now bool, waits *[]*set.Wait) error {
	budget := p.budget()
	p.work.more = true
	for {
		if p.work.task == nil {
			if p.work.task = p.nextTask(now, *waits); p.work.task == nil {
				p.work.more = false
				return nil
			}
		}
		t := p.work.task
		for t.Step() {
			if ctx.Err() != nil || p.Now().Sub(start) > budget {
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
