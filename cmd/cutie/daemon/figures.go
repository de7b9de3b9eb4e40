package daemon

import (
	"maps"
	"slices"
	"strings"
)

// maxFigures is how many queues have samples of their own. With more of them a figure is
// one sample of all queues together, with an empty label queue: a server asks for it
// every few seconds, and is not to get, and keep, a million samples.
const maxFigures = 1000

// figures are families with samples for each queue.
type figures struct {
	samples
	together bool
	all      []*figure
}

// ofQueues returns figures of n queues. Its end must follow.
func (s samples) ofQueues(n int) *figures { return &figures{samples: s, together: n > maxFigures} }

// A figure is a family whose first label is the queue.
type figure struct {
	family
	of   *figures
	join func(a, b float64) float64 // of two queues
	sums map[string]float64         // by the other labels
}

func sum(a, b float64) float64 { return a + b }

// greatest and least are for figures not to be added.
func greatest(a, b float64) float64 { return max(a, b) }
func least(a, b float64) float64    { return min(a, b) }

func (f *figures) add(of family, join func(a, b float64) float64) *figure {
	one := &figure{of, f, join, map[string]float64{}}
	f.all = append(f.all, one)
	return one
}

func (f *figures) gauge(name, help string, join func(a, b float64) float64, labels ...string) *figure {
	return f.add(f.samples.gauge(name, help, append([]string{"queue"}, labels...)...), join)
}

func (f *figures) counter(name, help string, labels ...string) *figure {
	return f.add(f.samples.counter(name, help, append([]string{"queue"}, labels...)...), sum)
}

// add adds the value of a queue.
func (f *figure) add(value float64, queue string, labels ...string) {
	if !f.of.together {
		f.family.add(value, append([]string{queue}, labels...)...)
		return
	}
	key := strings.Join(labels, "\x00")
	if before, some := f.sums[key]; some {
		value = f.join(before, value)
	}
	f.sums[key] = value
}

// end gives the samples of all queues together.
func (f *figures) end() {
	for _, one := range f.all {
		for _, key := range slices.Sorted(maps.Keys(one.sums)) {
			labels := []string{""}
			if key != "" {
				labels = append(labels, strings.Split(key, "\x00")...)
			}
			one.family.add(one.sums[key], labels...)
		}
	}
}
