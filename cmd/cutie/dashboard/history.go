package dashboard

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
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
		p[m] = float32(math.NaN())
	}
	return p
}

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

// spans are the facts of each span: its name, the same in words, the time from one point to
// the next, how times are printed, and the ticks of its axis.
var spans = [Spans]struct {
	name, words string
	step        time.Duration
	layout      string
	tick        time.Duration
	tickLayout  string
}{
	{"hour", "hour", 10 * time.Second, "15:04", 15 * time.Minute, "15:04"},
	{"day", "day", 4 * time.Minute, "15:04", 6 * time.Hour, "15:04"},
	{"month", "30 days", 2 * time.Hour, "01-02 15:04", 7 * 24 * time.Hour, "01-02"},
}

// parseSpan accepts the name of a span; the hour is also "".
func parseSpan(name string) (Span, bool) {
	for s := range Spans {
		if name == spans[s].name || name == "" {
			return s, true
		}
	}
	return 0, false
}

// number is the number of the step with an instant.
func (s Span) number(at time.Time) int64 { return at.Unix() / int64(spans[s].step/time.Second) }

// Queues is how many queues have figures at a time.
const Queues = 200

// quietTime is how long a queue is without activity until another may take its place.
const quietTime = 10 * time.Minute

// A History has figures of the service and of up to [Queues] busy queues over an hour, a
// day and a month, in memory. Save writes all of it to one small file; what is newer is lost
// by a crash, and a damaged file is replaced. Nothing else depends on it.
type History struct {
	file durable.Sealed

	mu sync.Mutex // guards of
	of map[string]*series
}

// A series is the figures of a queue, or of the service, whose name is "". A point of the day
// is made of the points of the hour within it, one of the month of those of the day.
type series struct {
	Used time.Time // last activity
	Ring [Spans][]sample
}

// A sample is the point of the step with a number. Those of a ring are in order.
type sample struct {
	N int64
	P Point
}

const maxHistory = 64 << 20 // bytes of the file; 201 full series take 12 MB

// OpenHistory reads the history in a directory. The error says why an existing file could
// not be read; the history then begins empty.
func OpenHistory(dir *durable.Dir) (*History, error) {
	h := &History{file: durable.Sealed{Dir: dir, Name: "history", Kind: "history of figures", Max: maxHistory}}
	data, err := h.file.Read()
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(data)).Decode(&h.of)
	}
	if err != nil || h.of[""] == nil {
		h.of = map[string]*series{"": {}}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
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

// Add adds the figures of an instant to those of a queue, "" for the service. active says
// that something has happened in the queue: without it a queue gets no place. If all places
// are taken by busy queues, the figures are dropped. Of two points of one step the later one
// counts.
func (h *History) Add(queue string, active bool, at time.Time, p Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil && !active {
		return
	}
	if s == nil && len(h.of) > Queues {
		quiet := slices.MinFunc(slices.Collect(maps.Keys(h.of)), func(a, b string) int {
			if a == "" || b == "" { // the service stays
				return len(b) - len(a)
			}
			return h.of[a].Used.Compare(h.of[b].Used)
		})
		if at.Sub(h.of[quiet].Used) < quietTime {
			return
		}
		delete(h.of, quiet)
	}
	if s == nil {
		s = new(series)
		h.of[queue] = s
	}
	if active {
		s.Used = at
	}
	s.put(Hour, sample{Hour.number(at), p})
	for span := Day; span < Spans; span++ {
		s.put(span, sample{span.number(at), s.joined(span, at)})
	}
}

// put adds the last point of a span, and drops those before the span. After the clock was set
// back it takes the place of the points that are later.
func (s *series) put(span Span, p sample) {
	ring := s.Ring[span]
	for len(ring) > 0 && ring[len(ring)-1].N >= p.N {
		ring = ring[:len(ring)-1]
	}
	for len(ring) > 0 && ring[0].N <= p.N-Points {
		ring = ring[1:]
	}
	s.Ring[span] = append(ring, p)
}

// joined returns the point of a longer span at an instant, from the points of the next
// shorter one: the average of what is known, the greatest of ages and lags.
func (s *series) joined(span Span, at time.Time) Point {
	first := span.number(at) * int64(spans[span].step/spans[span-1].step)
	j := Unknown()
	var counts [Measures]float32
	for _, one := range slices.Backward(s.Ring[span-1]) {
		if one.N < first {
			break
		}
		for m, f := range one.P {
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

// Of returns the points of a queue, or of the service for "", the last one at now; nil if it
// has none.
func (h *History) Of(queue string, span Span, now time.Time) (points []Point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of[queue]
	if s == nil {
		return nil
	}
	points = slices.Repeat([]Point{Unknown()}, Points)
	for _, one := range s.Ring[span] {
		if at := one.N - span.number(now) + Points - 1; at >= 0 && at < Points {
			points[at] = one.P
		}
	}
	return points
}

// Keep drops the figures of queues that are not there any more.
func (h *History) Keep(there func(queue string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.of, func(queue string, _ *series) bool { return queue != "" && !there(queue) })
}

// SampleEvery is how often [Sampler.Sample] is to be called.
const SampleEvery = 10 * time.Second

// Once in so many samples the history is saved, and the lag of all published sets is looked
// at: with 100,000 queues that takes a tenth of a second.
const minute = int(time.Minute / SampleEvery)

// A Sampler adds the figures of a service to its history. Its hooks are safe for
// concurrent use.
type Sampler struct {
	svc  *queuefs.Service
	pub  *publisher.Publisher // nil: nothing is published
	hist *History

	flows map[*queuefs.Queue]index.Flow // as of the last sample
	last  time.Time
	turn  int
	lag   map[string]time.Duration // of queues whose lists are behind

	mu    sync.Mutex
	noted map[string]*figures // by the hooks since the last sample, by queue
}

// figures are sums over jobs, or over queues.
type figures struct {
	sums             [Measures]float64 // rates are jobs yet, and times those of all jobs
	taken, concluded int
}

// join adds the figures of other jobs or queues. Of ages and lags the greatest one counts.
func (f *figures) join(g *figures) {
	for m := range f.sums {
		if Measure(m) == Oldest || Measure(m) == Unpublished {
			f.sums[m] = max(f.sums[m], g.sums[m])
		} else {
			f.sums[m] += g.sums[m]
		}
	}
	f.taken, f.concluded = f.taken+g.taken, f.concluded+g.concluded
}

// active reports whether something has happened to jobs.
func (f *figures) active() bool {
	return f.sums[In] > 0 || f.sums[Out] > 0 || f.sums[Failed] > 0 || f.taken > 0 || f.concluded > 0
}

// point returns the figures of the time since the last sample as a point. At the first sample
// there was none, and there are no rates.
func (f *figures) point(since time.Duration) Point {
	p := Unknown()
	for _, m := range []Measure{Pending, InWork, Oldest, Unpublished, MirrorLag} {
		p[m] = float32(f.sums[m])
	}
	average := func(m Measure, n float64) {
		if n > 0 {
			p[m] = float32(f.sums[m] / n)
		}
	}
	average(In, since.Seconds())
	average(Out, since.Seconds())
	average(Failed, since.Seconds())
	average(Queued, float64(f.taken))
	average(Worked, float64(f.concluded))
	return p
}

// NewSampler returns a sampler of svc.
func NewSampler(svc *queuefs.Service, pub *publisher.Publisher, hist *History) *Sampler {
	return &Sampler{svc: svc, pub: pub, hist: hist,
		flows: map[*queuefs.Queue]index.Flow{}, noted: map[string]*figures{}}
}

// Taken notes a job handed out.
func (s *Sampler) Taken(j *job.Job) {
	s.note(j.Queue, figures{sums: [Measures]float64{Queued: j.Consumed.Sub(j.PendingSince()).Seconds()}, taken: 1})
}

// Concluded notes a job with an outcome.
func (s *Sampler) Concluded(j *job.Job) {
	s.note(j.Queue, figures{sums: [Measures]float64{Worked: j.Finished.Sub(j.Consumed).Seconds()}, concluded: 1})
}

func (s *Sampler) note(queue string, f figures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noted[queue] == nil {
		s.noted[queue] = &figures{}
	}
	s.noted[queue].join(&f)
}

// Sample adds the figures of now. Once a minute it saves the history.
func (s *Sampler) Sample(context.Context) error {
	now := time.Now()
	s.mu.Lock()
	noted := s.noted
	s.noted = map[string]*figures{}
	s.mu.Unlock()
	s.look()
	var since time.Duration // 0: unknown
	if !s.last.IsZero() {
		since = now.Sub(s.last)
	}
	s.last = now
	var all figures
	queues := s.svc.Queues()
	for _, q := range queues {
		f := s.of(q, now, since == 0)
		if n := noted[q.ID()]; n != nil {
			f.join(n)
		}
		s.hist.Add(q.ID(), f.active(), now, f.point(since))
		all.join(&f)
	}
	if len(s.flows) > len(queues) { // some were removed
		s.hist.Keep(func(id string) bool { _, err := s.svc.Queue(id); return err == nil })
		maps.DeleteFunc(s.flows, func(q *queuefs.Queue, _ index.Flow) bool {
			there, err := s.svc.Queue(q.ID())
			return err != nil || there != q
		})
	}
	p := all.point(since)
	p[FreeDisk], p[Memory] = freeDisk(s.svc.Dir()), memory()
	s.hist.Add("", true, now, p)
	if s.turn%minute != 0 {
		return nil
	}
	return s.hist.Save()
}

// of returns the figures of a queue, without times of jobs. At the first sample nothing is
// known of what flows: the flow before is that of the start.
func (s *Sampler) of(q *queuefs.Queue, now time.Time, first bool) figures {
	state, flow, before := q.State(), q.Flow(), s.flows[q]
	s.flows[q] = flow
	f := figures{}
	f.sums[Pending], f.sums[InWork] = float64(state.Pending), float64(state.Leased)
	f.sums[Unpublished] = s.lag[state.Info.ID].Seconds()
	if !first {
		f.sums[In], f.sums[Out] = float64(flow.In-before.In), float64(flow.Out-before.Out)
		f.sums[Failed] = float64(flow.Failed - before.Failed)
	}
	if !state.Oldest.IsZero() {
		f.sums[Oldest] = max(now.Sub(state.Oldest).Seconds(), 0)
	}
	if state.Mirror.Live() {
		f.sums[MirrorLag] = max(float64(state.Progress.Known)-float64(state.Seq), 0)
	}
	return f
}

// look asks from time to time how far the published lists are behind.
func (s *Sampler) look() {
	if s.turn++; s.pub == nil || s.turn%minute != 1 {
		return
	}
	s.lag = map[string]time.Duration{}
	for _, set := range s.pub.State() {
		if set.Lag > s.lag[set.Queue] {
			s.lag[set.Queue] = set.Lag
		}
	}
}

func freeDisk(dir string) float32 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return Unknown()[FreeDisk]
	}
	return float32(fs.Bavail) * float32(fs.Bsize)
}

// memory returns the resident bytes of this process (proc(5), statm).
func memory() float32 {
	text, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return Unknown()[Memory]
	}
	pages, _ := strconv.ParseFloat(string(fields[1]), 32)
	return float32(pages) * float32(os.Getpagesize())
}

// trendTime is over how long a [Trend] is taken.
const trendTime = 10 * time.Minute

// A Trend says whether the pending jobs of a queue grow in number. The zero Trend is unknown.
type Trend struct {
	By   float64
	In   time.Duration
	Left float64 // jobs pending at its end
}

// Trend returns the trend of a queue, of the service for "": from the first known point of the
// last ten minutes to the last one, if that is a minute or more.
func (h *History) Trend(queue string, now time.Time) (t Trend) {
	points := h.Of(queue, Hour, now)
	last := -1
	for back := range min(len(points), int(trendTime/spans[Hour].step)+1) {
		at := Points - 1 - back
		switch f := points[at][Pending]; {
		case !known(f):
			continue
		case last < 0:
			last = at
		}
		in := time.Duration(last-at) * spans[Hour].step
		if in >= time.Minute {
			t = Trend{By: float64(points[last][Pending] - points[at][Pending]), In: in}
		}
	}
	return t
}

// Sign is the change for a column.
func (t Trend) Sign() string {
	switch n := int64(math.Round(t.By)); {
	case t.In == 0:
		return "–"
	case n > 0:
		return "+" + figure(n)
	default:
		return strings.Replace(figure(n), "-", "−", 1)
	}
}

// String is the change as a sentence, "" for an unknown one.
func (t Trend) String() string {
	n := int64(math.Round(t.By))
	ago := lasting(t.In.Seconds())
	switch {
	case t.In == 0:
		return ""
	case n > 0:
		return fmt.Sprintf("It grows: %s more pending than %s ago.", figure(n), ago)
	case n == 0:
		return fmt.Sprintf("As many pending as %s ago.", ago)
	}
	s := fmt.Sprintf("It shrinks: %s fewer pending than %s ago.", figure(-n), ago)
	if t.Left > 0 {
		s += " At this pace none is left in " + lasting(t.Left/-t.By*t.In.Seconds()) + "."
	}
	return s
}
