package queuefs

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// bursts tells of bursts, in which the queues want all processors but one: they
// wait for the disk at times, and what else would use it then would have them wait
// longer. It may be asked at any time.
type bursts struct {
	until atomic.Int64 // when it ends, in µs by the clock of the service
	calm  atomic.Int64 // up to how much journal there is none, after calm
}

// afterBurst is how long a pause is still part of a burst.
const afterBurst = time.Second

// restIdle is up to how many processors are idle in a burst.
var restIdle = min(1, float64(runtime.NumCPU())/2)

// next takes in what Maintain has seen.
func (b *bursts) next(now time.Time, written int64, calm bool, idle float64) {
	if !calm && idle <= restIdle {
		b.until.Store(now.Add(afterBurst).UnixMicro())
	}
	if !calm {
		written = math.MaxInt64 - calmRate
	}
	b.calm.Store(written + calmRate/4)
}

// is tells whether there is one, when so much journal is written. A clock that was
// set back ends it.
func (b *bursts) is(now time.Time, written int64) bool {
	left := b.until.Load() - now.UnixMicro()
	return 0 < left && left <= afterBurst.Microseconds() || written > b.calm.Load()
}
