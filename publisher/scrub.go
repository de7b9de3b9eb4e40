package publisher

import (
	"context"
	"iter"
	"sync"
	"time"

	"cutie/publisher/names"
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
		for _, r := range p.rest {
			of, _ := r.lines.Parse()
			for i := range of {
				n += of[i].Files.Octets + of[i].Open.Length + perSet
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
	f, err := p.use(q)
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

// restPeriod is the least time from the begin of a pass to that of the next.
const restPeriod = time.Hour

// leastRate bounds the rate of a period from below, in bytes a second: a small home is
// read in seconds, and then the reader rests.
const leastRate = 1 << 20

// A rereader reads everything again, slowly: at so many bytes a second, or once in a period.
// It knows nothing of files: a pass is a function, and it yields the bytes of each part it has
// read. It is safe for concurrent use.
type rereader struct {
	pace names.Pace
	size func() int64                 // bytes of a pass, about
	pass func(yield func(int64) bool) // one pass
	now  func() time.Time

	mu    sync.Mutex
	next  func() (int64, bool) // of the pass in progress; nil between passes
	stop  func()
	last  time.Time // of the last Step
	rate  float64   // bytes a second; 0: to be found
	owed  float64   // bytes to read now; below 0 after more were read
	stats ScrubStats
}

// ScrubStats are figures of reading all files again, since the start.
type ScrubStats struct {
	Bytes  int64
	Passes int
	Began  time.Time // of the last pass; zero before the first
	Ended  time.Time // of the last complete pass; zero without one
}

// newRereader returns a rereader of passes.
func newRereader(pace names.Pace, size func() int64, pass func(yield func(int64) bool), now func() time.Time) *rereader {
	return &rereader{pace: pace, size: size, pass: pass, now: now}
}

// SetPace makes passes at another pace from the next Step on.
func (r *rereader) SetPace(pace names.Pace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pace != r.pace {
		r.pace, r.rate = pace, 0
	}
}

// maxStep bounds the time a Step makes up for: after a pause it does not hurry.
const maxStep = 2 * time.Second

// Step reads what is due since the last Step, unless stopped returns true. Call it about
// once a second.
func (r *rereader) Step(stopped func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pace == (names.Pace{}) {
		return
	}
	now := r.now()
	passed := min(max(now.Sub(r.last), 0), maxStep)
	if r.last.IsZero() {
		passed = 0
	}
	r.last = now
	if r.next == nil {
		if rest := max(r.pace.Period, restPeriod); !r.stats.Began.IsZero() && now.Sub(r.stats.Began) < rest && !now.Before(r.stats.Began) {
			return
		}
		r.next, r.stop = iter.Pull(iter.Seq[int64](r.pass))
		r.stats.Began, r.owed, r.rate = now, 0, 0
	}
	if r.rate == 0 {
		if r.rate = float64(r.pace.Rate); r.rate == 0 {
			r.rate = max(leastRate, float64(r.size())/r.pace.Period.Seconds())
		}
	}
	r.owed = min(r.owed+passed.Seconds()*r.rate, maxStep.Seconds()*r.rate)
	for r.owed > 0 && !stopped() {
		n, more := r.next()
		if !more {
			r.drop()
			r.stats.Passes++
			r.stats.Ended = now
			return
		}
		r.owed -= float64(n)
		r.stats.Bytes += n
	}
}

// Stats returns the figures.
func (r *rereader) Stats() ScrubStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Close ends the pass in progress.
func (r *rereader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func (r *rereader) drop() {
	if r.next != nil {
		r.stop()
		r.next, r.stop = nil, nil
	}
}
