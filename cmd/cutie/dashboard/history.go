package dashboard

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/durable"
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

// A Span is the time that a chart shows.
type Span int

// The spans, from the shortest on.
const (
	Hour Span = iota
	Day
	Month // 30 days
	Spans
)

// Points is how many points a span has.
const Points = 360

// Step is the time from one point to the next.
func (s Span) Step() time.Duration {
	return [Spans]time.Duration{10 * time.Second, 4 * time.Minute, 2 * time.Hour}[s]
}

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

// settled is how long a queue is without activity until another may take its place.
const settled = 10 * time.Minute

// A History has figures of the service and of up to [Queues] busy queues over an hour, a
// day and a month, in memory. A point of the day is made of the points of the hour within
// it, one of the month of those of the day. Save writes all of it to one small file; what
// is newer is lost by a crash, and a damaged file is replaced. Nothing else depends on it.
type History struct {
	file durable.Sealed

	mu sync.Mutex // guards of
	of map[string]*series
}

// A series is the figures of the service, with the name "", or of a queue.
type series struct {
	Used time.Time // last activity
	Ring [Spans]map[uint32]Point
}

const maxHistory = 64 << 20 // bytes of the file; 201 full series take 12 MB

// OpenHistory reads the history in a directory. The error says why an existing file could
// not be read; the history then begins empty.
func OpenHistory(dir *durable.Dir) (*History, error) {
	h := &History{file: durable.Sealed{Dir: dir, Name: "history", Kind: "history of figures", Max: maxHistory}, of: map[string]*series{}}
	data, err := h.file.Read()
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(data)).Decode(&h.of)
	}
	if err != nil {
		h.of = map[string]*series{}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if h.of[""] == nil {
		h.of[""] = new(series)
	}
	return h, err
}

// Save writes the history to its file.
func (h *History) Save() error {
	var b bytes.Buffer
	h.mu.Lock()
	err := gob.NewEncoder(&b).Encode(h.of)
	h.mu.Unlock()
	if err == nil {
		err = h.file.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("history of figures: %w", err)
	}
	return nil
}

// Close saves the history and lets go of the directory.
func (h *History) Close() error { return errors.Join(h.Save(), h.file.Dir.Close()) }

// Add adds the figures of an instant to the series of a queue, "" for the service. active
// says that something has happened in the queue: without it a queue gets no series. If all
// places are taken by busy queues, the figures are dropped. Of two points of one step the
// later one counts.
func (h *History) Add(queue string, active bool, at time.Time, p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil && active && len(h.of) > Queues {
		quiet := slices.MinFunc(slices.Collect(maps.Keys(h.of)), func(a, b string) int {
			if a == "" || b == "" { // the service stays
				return len(b) - len(a)
			}
			return h.of[a].Used.Compare(h.of[b].Used)
		})
		if at.Sub(h.of[quiet].Used) < settled {
			return
		}
		delete(h.of, quiet)
	}
	if s == nil {
		if !active {
			return
		}
		s = new(series)
		h.of[queue] = s
	}
	if active {
		s.Used = at
	}
	s.put(Hour, Hour.number(at), p)
	for span := Day; span < Spans; span++ {
		s.put(span, span.number(at), s.joined(span, at))
	}
}

// put adds a point, and drops the one of a span ago.
func (s *series) put(span Span, number uint32, p Point) {
	if s.Ring[span] == nil {
		s.Ring[span] = map[uint32]Point{}
	}
	ring := s.Ring[span]
	if ring[number] = p; len(ring) > Points {
		maps.DeleteFunc(ring, func(n uint32, _ Point) bool { return n+Points <= number })
	}
}

// joined returns the point of a longer span at an instant, from the points of the next
// shorter one: the average of what is known, the greatest of ages and lags.
func (s *series) joined(span Span, at time.Time) Point {
	n := uint32(span.Step() / (span - 1).Step())
	number := span.number(at)
	j := Unknown()
	var counts [Measures]float32
	for i := number * n; i < (number+1)*n; i++ {
		p, there := s.Ring[span-1][i]
		if !there {
			continue
		}
		for m, f := range p {
			switch to := &j[m]; {
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

// Of returns the points of a queue, or of the service for "", the last one at now; false
// if it has no series.
func (h *History) Of(queue string, span Span, now time.Time) (points []Point, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil {
		return nil, false
	}
	points = make([]Point, Points)
	for i := range points {
		p, there := s.Ring[span][span.number(now)+1-Points+uint32(i)]
		if !there {
			p = Unknown()
		}
		points[i] = p
	}
	return points, true
}

// Change returns by how much a figure of a queue, or of the service for "", has grown since
// the first known point of at most so long ago, and how long ago that is; false if it is not
// known, or known for less than a minute.
func (h *History) Change(queue string, m Measure, since time.Duration, now time.Time) (by float32, in time.Duration, ok bool) {
	points, ok := h.Of(queue, Hour, now)
	if !ok {
		return 0, 0, false
	}
	last := Points - 1
	then := last - min(int(since/Hour.Step()), last)
	for then < last && !known(points[then][m]) {
		then++
	}
	for last > then && !known(points[last][m]) {
		last--
	}
	if in = time.Duration(last-then) * Hour.Step(); in < time.Minute {
		return 0, 0, false
	}
	return points[last][m] - points[then][m], in, true
}

// Keep drops the series of queues that are not there any more.
func (h *History) Keep(there func(queue string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.of, func(queue string, _ *series) bool { return queue != "" && !there(queue) })
}
