package queuefs

import (
	"math"
	"sync/atomic"
	"time"
)

// bursts tells of bursts, in which the queues want all processors but one: they
// wait for the disk at times, and what else would use it then would have them wait
// longer. It may be asked at any time.
type bursts struct {
	last time.Time // by the clock of the service
	on   atomic.Bool
	calm atomic.Int64 // up to how much journal there is none, after calm
}

// afterBurst is how long a pause is still part of a burst.
const afterBurst = time.Second

// next takes in what Maintain has seen.
func (b *bursts) next(now time.Time, written int64, calm bool, idle float64) {
	if !calm && idle <= 1 {
		b.last = now
	}
	since := now.Sub(b.last)
	b.on.Store(0 <= since && since < afterBurst)
	if !calm {
		written = math.MaxInt64 - calmRate
	}
	b.calm.Store(written + calmRate/4)
}

// is tells whether there is one, when so much journal is written.
func (b *bursts) is(written int64) bool { return b.on.Load() || written > b.calm.Load() }
