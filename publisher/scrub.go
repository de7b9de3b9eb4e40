package publisher

import (
	"context"
	"errors"
)

// Scrub reads published files again at the pace of the options, and sets damaged ones aside. Call it about once a second; without a pace it does
// nothing.
func (p *Publisher) Scrub(ctx context.Context) error {
	if p.src.Closed() {
		return nil
	}
	p.scrubber.Step(func() bool { return ctx.Err() != nil || p.src.Closed() })
	return nil
}

// Care is what was found by reading published files, since the start.
type Care struct {
	ScrubStats
	Lost int64 // damaged files, and sets of files, that were set aside
}

// Care returns the figures of the background reader .
func (p *Publisher) Care() Care {
	return Care{p.scrubber.Stats(), p.src.Lost()}
}

func (p *Publisher) newScrubber() *rereader {
	size := func() (n int64) {
		for _, s := range p.sets() {
			n += s.Octets() + perSet
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for id, r := range p.rest {
			for _, l := range r.lines.Of(id) {
				n += l.Files.Octets + l.Open.Length + perSet
			}
		}
		return n
	}
	return newRereader(p.src.Pace, size, p.scrubAll, p.src.Now)
}

// perSet is how many bytes the small files of a set count for, and opening it.
const perSet = 256 << 10

// scrubAll reads the files of all sets.
func (p *Publisher) scrubAll(yield func(int64) bool) {
	n, err := p.cursor.Verify(p.lines)
	if err = errors.Join(err, p.src.Store.VerifySettings()); err != nil {
		p.src.Reportf("", "%v", err)
	}
	if !yield(n) {
		return
	}
	for i, q := range p.svc.queues() {
		if i%trimEach == trimEach-1 {
			p.tryTrim()
		}
		if !p.scrubQueue(q, yield) {
			return
		}
	}
}

// scrubQueue reads the files of a queue, and reports whether to go on.
func (p *Publisher) scrubQueue(q Queue, yield func(int64) bool) bool {
	f, err := p.visit(q)
	if err != nil {
		return true // a Tick says why
	}
	defer f.release()
	for _, s := range f.sets {
		if !s.Scrub(yield) || !yield(perSet) {
			return false
		}
	}
	return true
}
