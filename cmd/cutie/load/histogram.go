package load

import (
	"math/bits"
	"time"
)

// A value below 2*subBuckets nanoseconds has a bucket of its own. Above, each
// power of two is cut into subBuckets equal parts, so that a bucket is never
// wider than 1/64 of the values in it.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	maxBits    = 41 // values up to 2^41 ns, about 36 minutes; longer ones count as that
	buckets    = (maxBits - subBits + 1) * subBuckets
)

// Histogram counts durations in buckets of logarithmic width. It never
// allocates; a quantile is exact to 1.6 percent. The zero value is empty and
// ready. It is not safe for concurrent use: each client fills one of its own,
// and they are merged at the end.
type Histogram struct {
	counts [buckets]int64
	total  int64
	max    time.Duration
}

// Record counts one duration; negative ones count as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d)]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds everything that other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.total }

// Max returns the longest duration recorded, exactly; zero if there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that the fraction f of all recorded ones (0 to
// 1) did not exceed, rounded up to the end of its bucket but never above Max.
// It is zero for an empty histogram.
func (h *Histogram) Quantile(f float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := int64(f * float64(h.total))
	if float64(rank) < f*float64(h.total) {
		rank++
	}
	rank = min(max(rank, 1), h.total)
	var seen int64
	for i, n := range h.counts {
		seen += n
		if seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// bucket returns the index of the bucket that d belongs to.
func bucket(d time.Duration) int {
	v := uint64(d)
	if v >= 1<<maxBits {
		return buckets - 1
	}
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift*subBuckets + int(v>>shift)
}

// upper returns the largest duration that belongs to bucket i.
func upper(i int) time.Duration {
	if i < 2*subBuckets {
		return time.Duration(i)
	}
	shift := i/subBuckets - 1
	first := uint64(i-shift*subBuckets) << shift
	return time.Duration(first + 1<<shift - 1)
}
