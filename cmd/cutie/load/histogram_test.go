package load_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cutie/cmd/cutie/load"
)

func TestHistogramQuantilesAreExactTo1Point6Percent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h load.Histogram
	values := make([]time.Duration, 100_000)
	for i := range values {
		// From nanoseconds to minutes, as many in each power of two.
		values[i] = time.Duration(rng.Uint64N(1 << (1 + rng.Uint64N(38))))
		h.Record(values[i])
	}
	slices.Sort(values)
	for _, f := range []float64{0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
		want := values[int(f*float64(len(values)))-1]
		got := h.Quantile(f)
		if got < want || float64(got) > float64(want)*(1+1.0/64) {
			t.Errorf("Quantile(%v) = %d, want %d to 1/64 above", f, got, want)
		}
	}
	if got, want := h.Max(), values[len(values)-1]; got != want {
		t.Errorf("Max = %v, want %v", got, want)
	}
	if got := h.Quantile(1); got > h.Max() {
		t.Errorf("Quantile(1) = %v, above Max = %v", got, h.Max())
	}
}

func TestHistogramKeepsSmallValuesExactly(t *testing.T) {
	for d := range time.Duration(128) {
		var h load.Histogram
		h.Record(d)
		h.Record(time.Hour) // so that Max does not bound the answer
		if got := h.Quantile(0.5); got != d {
			t.Errorf("Quantile(0.5) of %d ns = %d ns", d, got)
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h load.Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Error("an empty histogram has values")
	}
	h.Record(-time.Second)
	if got := h.Quantile(1); got != 0 {
		t.Errorf("a negative duration counts as %v, want 0", got)
	}
	h.Record(1<<63 - 1)
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("Quantile(0.5) = %v, want 0", got)
	}
	if got := h.Quantile(1); got < 30*time.Minute {
		t.Errorf("the longest duration counts as %v", got)
	}
}

func TestHistogramMergeIsRecordingEverythingInOne(t *testing.T) {
	var a, b, both load.Histogram
	for i := range time.Duration(1000) {
		d := i * i * time.Microsecond
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
		both.Record(d)
	}
	a.Merge(&b)
	if a != both {
		t.Errorf("merged %v %v %v, want %v %v %v", a.Count(), a.Quantile(0.5), a.Max(), both.Count(), both.Quantile(0.5), both.Max())
	}
}

func TestHistogramRecordDoesNotAllocate(t *testing.T) {
	var h load.Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
