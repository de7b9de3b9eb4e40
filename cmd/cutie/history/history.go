// Package history keeps figures of a service and of its busy queues over an hour, a
// day and a month, in memory and in one file of bounded size.
//
// A [History] has a series for the service and for each of up to [Queues] queues. A
// series has three rings of [Points] points, one for each [Span]. A point of the day is
// made of the points of the hour within it, one of the month of those of the day.
//
//	file     header 64 | series 0, of the service | series 1 | …
//	series   header 512: crc u32, length of name u16, name | rings
//	record   crc u32 | number of its point u32 | figures, f32 each; NaN: unknown
//
// The checksum of a record covers the name of its series. Records are written without a
// sync: after a crash a lost or torn record is a gap of the chart. Nothing else depends on
// the file; a damaged or older one is made anew.
package history

import (
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"time"
)

// A Measure is one figure of a [Point].
type Measure int

// The figures. Rates are jobs a second.
const (
	Pending     Measure = iota
	InWork              // jobs whose consumer is to report
	In                  // rate of jobs that become pending
	Out                 // rate of jobs that leave, taken or deleted
	Failed              // rate
	Oldest              // seconds since the submission of the job at the head
	Queued              // seconds in the queue of the jobs taken, on average
	Worked              // seconds in work of the jobs concluded, on average
	Unpublished         // seconds that the published lists are behind
	MirrorLag           // events that mirrors are behind
	FreeDisk            // bytes
	Memory              // bytes of the process
	Measures
)

// A Point has the figures of one step of time. An unknown one is NaN.
type Point [Measures]float32

// Unknown returns a point without figures.
func Unknown() (p Point) {
	for m := range p {
		p[m] = nan
	}
	return p
}

var nan = float32(math.NaN())

func known(f float32) bool { return f == f }

// A Span is the time of a ring.
type Span int

// The spans, from the shortest on.
const (
	Hour Span = iota
	Day
	Month // of 30 days
	Spans
)

var steps = [Spans]time.Duration{10 * time.Second, 4 * time.Minute, 2 * time.Hour}

// Points is how many points a span has.
const Points = 360

// Step is the time from one point to the next.
func (s Span) Step() time.Duration { return steps[s] }

func (s Span) String() string { return [...]string{"hour", "day", "month"}[s] }

// ParseSpan accepts the output of String; the hour is also "".
func ParseSpan(text string) (Span, bool) {
	for s := range Spans {
		if text == s.String() || text == "" {
			return s, true
		}
	}
	return 0, false
}

// number returns the number of the point of an instant.
func (s Span) number(at time.Time) uint32 { return uint32(at.Unix() / int64(s.Step()/time.Second)) }

// Queues is how many queues have a series at a time.
const Queues = 200

// settled is how long a queue stays without activity until another may take its series.
const settled = 10 * time.Minute

// A History is an open history. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex
	file   *os.File
	series []*series // the first is of the service
	of     map[string]*series
}

// A series is the figures of the service, or of a queue.
type series struct {
	at   int // in the file
	name string
	used time.Time // last activity
	ring [Spans][Points]record
}

type record struct {
	number uint32 // 0: there is none
	point  Point
}

// Add adds the figures of an instant to the series of a queue, "" for the service.
// active says that something has happened in the queue: without it a queue gets no
// series. If no series is free, the figures are dropped. Of two points of one step the
// later one counts.
func (h *History) Add(queue string, active bool, at time.Time, p Point) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.seriesOf(queue, active, at)
	if s == nil || err != nil {
		return err
	}
	err = h.put(s, Hour, record{Hour.number(at), p})
	for span := Day; span < Spans; span++ {
		err = errors.Join(err, h.put(s, span, s.joined(span, at)))
	}
	return err
}

// seriesOf returns the series of a queue, nil if there is none for it.
func (h *History) seriesOf(queue string, active bool, at time.Time) (*series, error) {
	s := h.of[queue]
	if s != nil || !active || len(queue) > maxName {
		if s != nil && active {
			s.used = at
		}
		return s, nil
	}
	if len(h.series) <= Queues {
		s = &series{at: len(h.series)}
		h.series = append(h.series, s)
	} else {
		s = slices.MinFunc(h.series[1:], func(a, b *series) int { return a.used.Compare(b.used) })
		if at.Sub(s.used) < settled {
			return nil, nil
		}
		if s.name != "" {
			delete(h.of, s.name)
		}
		*s = series{at: s.at}
	}
	s.name, s.used = queue, at
	h.of[queue] = s
	return s, h.begin(s)
}

// put takes a record into its place in memory, and in the file.
func (h *History) put(s *series, span Span, r record) error {
	s.ring[span][r.number%Points] = r
	return h.write(s, span, r)
}

// joined returns the point of a longer span at an instant, from the points of the next
// shorter one: the average of what is known, the greatest of ages and lags.
func (s *series) joined(span Span, at time.Time) record {
	number := span.number(at)
	n := uint32(span.Step() / (span - 1).Step())
	j := record{number, Unknown()}
	var counts [Measures]float32
	for i := number * n; i < (number+1)*n; i++ {
		r := &s.ring[span-1][i%Points]
		if r.number != i {
			continue
		}
		for m, f := range r.point {
			switch to := &j.point[m]; {
			case !known(f):
			case !known(*to):
				*to, counts[m] = f, 1
			case Measure(m) == Oldest || Measure(m) == Unpublished || Measure(m) == MirrorLag:
				*to = max(*to, f)
			default:
				counts[m]++
				*to += (f - *to) / counts[m]
			}
		}
	}
	return j
}

// Of returns the points of a queue, or of the service for "", the last one at now;
// false if it has no series.
func (h *History) Of(queue string, span Span, now time.Time) (points []Point, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil {
		return nil, false
	}
	points = make([]Point, Points)
	first := span.number(now) + 1 - Points
	for i := range points {
		number := first + uint32(i)
		if r := &s.ring[span][number%Points]; r.number == number {
			points[i] = r.point
		} else {
			points[i] = Unknown()
		}
	}
	return points, true
}

// Change returns by how much a figure of a queue, or of the service for "", has grown since
// the first known point of at most so long ago, and how long ago that is; false if it is not
// known, or known for less than a minute.
func (h *History) Change(queue string, m Measure, since time.Duration, now time.Time) (by float32, in time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil {
		return 0, 0, false
	}
	last := Hour.number(now)
	figure := func(number uint32) float32 {
		if r := &s.ring[Hour][number%Points]; r.number == number {
			return r.point[m]
		}
		return nan
	}
	then := last - min(uint32(since/Hour.Step()), Points-1)
	for then < last && !known(figure(then)) {
		then++
	}
	for last > then && !known(figure(last)) {
		last--
	}
	if in = time.Duration(last-then) * Hour.Step(); in < time.Minute {
		return 0, 0, false
	}
	return figure(last) - figure(then), in, true
}

// Keep drops the series of queues that are not there any more.
func (h *History) Keep(there func(queue string) bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	for _, s := range h.series[1:] {
		if s.name != "" && !there(s.name) {
			delete(h.of, s.name)
			*s = series{at: s.at}
			err = errors.Join(err, h.begin(s))
		}
	}
	return err
}
