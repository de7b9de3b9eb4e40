// Package scrub reads everything again, slowly: at so many bytes a second, or once in
// a period. It knows nothing of files: a pass is a function, and it yields the bytes of
// each part it has read.
package scrub

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Pace is how fast everything is read: Rate bytes a second, or once in each Period.
// The zero Pace is never.
type Pace struct {
	Rate   int64
	Period time.Duration
}

// restPeriod is the least time from the begin of a pass to that of the next.
const restPeriod = time.Hour

// leastRate bounds the rate of a period from below, in bytes a second: a small home is
// read in seconds, and then the reader rests.
const leastRate = 1 << 20

// String prints the pace as [ParsePace] reads it.
func (p Pace) String() string {
	switch {
	case p.Rate > 0:
		return strconv.FormatInt(p.Rate, 10)
	case p.Period > 0:
		return p.Period.String()
	}
	return "0"
}

// ParsePace reads a duration like 168h or 7d, a rate in bytes a second like 1000000,
// 500kB or 10MB, or 0 for never.
func ParsePace(s string) (p Pace, err error) {
	text := strings.TrimSuffix(s, "/s")
	unit := int64(1)
	for _, u := range []struct {
		name  string
		times int64
	}{{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = n, u.times
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= 1<<50/unit {
		return Pace{Rate: n * unit}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
			return Pace{Period: time.Duration(n) * 24 * time.Hour}, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return Pace{Period: d}, nil
	}
	return Pace{}, fmt.Errorf("%.40q is no rate such as 10MB, and no period such as 7d", s)
}

// A Reader makes passes at a pace. It is safe for concurrent use.
type Reader struct {
	pace Pace
	size func() int64                 // bytes of a pass, about
	pass func(yield func(int64) bool) // one pass
	now  func() time.Time

	mu    sync.Mutex
	next  func() (int64, bool) // of the pass in progress; nil between passes
	stop  func()
	last  time.Time // of the last Step
	sized time.Time // when size was asked last: it is a sum over all there is
	fast  float64   // bytes a second, for that size
	owed  float64   // bytes to read now; below 0 after more were read
	stats Stats
}

// Stats are figures since the Reader was made.
type Stats struct {
	Bytes  int64
	Passes int
	Began  time.Time // of the last pass; zero before the first
	Ended  time.Time // of the last complete pass; zero without one
}

// NewReader returns a Reader of passes.
func NewReader(pace Pace, size func() int64, pass func(yield func(int64) bool), now func() time.Time) *Reader {
	return &Reader{pace: pace, size: size, pass: pass, now: now}
}

// SetPace makes passes at another pace from the next Step on.
func (r *Reader) SetPace(pace Pace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pace != r.pace {
		r.pace, r.fast = pace, 0
	}
}

// maxStep bounds the time a Step makes up for: after a pause it does not hurry.
const maxStep = 2 * time.Second

// Step reads what is due since the last Step, unless stopped returns true. Call it about
// once a second.
func (r *Reader) Step(stopped func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pace == (Pace{}) {
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
		r.stats.Began, r.owed = now, 0
	}
	rate := r.rate(now)
	r.owed = min(r.owed+passed.Seconds()*rate, maxStep.Seconds()*rate)
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

// sizeEvery is how long a size holds.
const sizeEvery = 5 * time.Minute

func (r *Reader) rate(now time.Time) float64 {
	if r.pace.Rate > 0 {
		return float64(r.pace.Rate)
	}
	if since := now.Sub(r.sized); r.fast == 0 || since < 0 || since >= sizeEvery {
		r.sized, r.fast = now, max(leastRate, float64(r.size())/r.pace.Period.Seconds())
	}
	return r.fast
}

// Stats returns the figures.
func (r *Reader) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Close ends the pass in progress.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

func (r *Reader) drop() {
	if r.next != nil {
		r.stop()
		r.next, r.stop = nil, nil
	}
}
