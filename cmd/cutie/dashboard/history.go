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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher"
	"cutie/queuefs"
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

	flows map[*queuefs.Queue]queuefs.Flow // as of the last sample
	last  time.Time
	turn  int
	lag   map[string]time.Duration // of queues whose lists are behind

	mu    sync.Mutex
	times map[string]*times // since the last sample, by queue
}

// times are sums over jobs.
type times struct {
	taken, concluded int
	queued, worked   time.Duration
}

func (t *times) add(u *times) {
	t.taken, t.concluded = t.taken+u.taken, t.concluded+u.concluded
	t.queued, t.worked = t.queued+u.queued, t.worked+u.worked
}

// NewSampler returns a sampler of svc.
func NewSampler(svc *queuefs.Service, pub *publisher.Publisher, hist *History) *Sampler {
	return &Sampler{svc: svc, pub: pub, hist: hist, flows: map[*queuefs.Queue]queuefs.Flow{}, times: map[string]*times{}}
}

// Taken notes a job handed out.
func (s *Sampler) Taken(j *queuefs.Job) {
	s.note(j.Queue, times{taken: 1, queued: j.Consumed.Sub(j.PendingSince())})
}

// Concluded notes a job with an outcome.
func (s *Sampler) Concluded(j *queuefs.Job) {
	s.note(j.Queue, times{concluded: 1, worked: j.Finished.Sub(j.Consumed)})
}

func (s *Sampler) note(queue string, t times) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times[queue] == nil {
		s.times[queue] = &times{}
	}
	s.times[queue].add(&t)
}

// figures are gathered over queues.
type figures struct {
	pending, leased        int64
	flow                   queuefs.Flow
	oldest                 time.Time
	unpublished, mirrorLag float64
	times                  times
}

// Sample adds the figures of now. Once a minute it saves the history.
func (s *Sampler) Sample(context.Context) error {
	now := time.Now()
	s.mu.Lock()
	noted := s.times
	s.times = map[string]*times{}
	s.mu.Unlock()
	s.look()
	elapsed := now.Sub(s.last)
	first := s.last.IsZero()
	s.last = now
	var all figures
	queues := s.svc.Queues()
	for _, q := range queues {
		state := q.State()
		flow := q.Flow()
		before := s.flows[q]
		s.flows[q] = flow
		f := figures{pending: state.Pending, leased: state.Leased, oldest: state.Oldest, unpublished: s.lag[state.Info.ID].Seconds(),
			flow: queuefs.Flow{In: flow.In - before.In, Out: flow.Out - before.Out, Failed: flow.Failed - before.Failed}}
		if t := noted[state.Info.ID]; t != nil {
			f.times = *t
		}
		if state.Mirror.Live() {
			f.mirrorLag = max(float64(state.Progress.Known)-float64(state.Seq), 0)
		}
		if first { // the flow before is that of the start
			f.flow = queuefs.Flow{}
		}
		active := f.flow != (queuefs.Flow{}) || f.times.taken > 0 || f.times.concluded > 0
		s.hist.Add(state.Info.ID, active, now, f.point(now, elapsed, first))
		all.join(&f)
	}
	if len(s.flows) > len(queues) {
		s.forget(queues)
	}
	p := all.point(now, elapsed, first)
	p[FreeDisk], p[Memory] = freeDisk(s.svc.Dir()), memory()
	s.hist.Add("", true, now, p)
	if s.turn%minute != 0 {
		return nil
	}
	return s.hist.Save()
}

// forget drops the flows of removed queues.
func (s *Sampler) forget(queues []*queuefs.Queue) {
	flows := make(map[*queuefs.Queue]queuefs.Flow, len(queues))
	there := make(map[string]bool, len(queues))
	for _, q := range queues {
		flows[q], there[q.ID()] = s.flows[q], true
	}
	s.flows = flows
	s.hist.Keep(func(queue string) bool { return there[queue] })
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

func (f *figures) join(g *figures) {
	f.pending, f.leased = f.pending+g.pending, f.leased+g.leased
	f.flow.In, f.flow.Out, f.flow.Failed = f.flow.In+g.flow.In, f.flow.Out+g.flow.Out, f.flow.Failed+g.flow.Failed
	if f.oldest.IsZero() || !g.oldest.IsZero() && g.oldest.Before(f.oldest) {
		f.oldest = g.oldest
	}
	f.unpublished, f.mirrorLag = max(f.unpublished, g.unpublished), f.mirrorLag+g.mirrorLag
	f.times.add(&g.times)
}

// point returns the figures as a point. At the first sample there are no rates.
func (f *figures) point(now time.Time, elapsed time.Duration, first bool) Point {
	p := Unknown()
	p[Pending], p[InWork] = float32(f.pending), float32(f.leased)
	if !first && elapsed > 0 {
		rate := func(n uint64) float32 { return float32(float64(n) / elapsed.Seconds()) }
		p[In], p[Out], p[Failed] = rate(f.flow.In), rate(f.flow.Out), rate(f.flow.Failed)
	}
	p[Oldest] = 0
	if !f.oldest.IsZero() {
		p[Oldest] = float32(max(now.Sub(f.oldest), 0).Seconds())
	}
	if n := f.times.taken; n > 0 {
		p[Queued] = float32(f.times.queued.Seconds() / float64(n))
	}
	if n := f.times.concluded; n > 0 {
		p[Worked] = float32(f.times.worked.Seconds() / float64(n))
	}
	p[Unpublished], p[MirrorLag] = float32(f.unpublished), float32(f.mirrorLag)
	return p
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

// TrendTime is over how long a [Trend] is taken.
const TrendTime = 10 * time.Minute

// A Trend says whether the pending jobs of a queue grow in number. The zero Trend is unknown.
type Trend struct {
	By   float64
	In   time.Duration
	Left float64 // jobs pending at its end
}

// TrendOf returns the trend of a queue, of the service for "".
func TrendOf(h *History, queue string, now time.Time) Trend {
	by, in, _ := h.Change(queue, Pending, TrendTime, now)
	return Trend{By: float64(by), In: in}
}

// Sign is the change for a column.
func (t Trend) Sign() string {
	switch n := math.Round(t.By); {
	case t.In == 0:
		return "–"
	case n > 0:
		return "+" + grouped(fmt.Sprint(int64(n)))
	case n < 0:
		return "−" + grouped(fmt.Sprint(int64(-n)))
	}
	return "0"
}

// String is the change as a sentence, "" for an unknown one.
func (t Trend) String() string {
	n := int64(math.Round(t.By))
	ago := lasting(t.In.Seconds())
	switch {
	case t.In == 0:
		return ""
	case n > 0:
		return fmt.Sprintf("It grows: %s more pending than %s ago.", grouped(fmt.Sprint(n)), ago)
	case n < 0:
		s := fmt.Sprintf("It shrinks: %s fewer pending than %s ago.", grouped(fmt.Sprint(-n)), ago)
		if t.Left > 0 {
			s += " At this pace none is left in " + lasting(t.Left/-t.By*t.In.Seconds()) + "."
		}
		return s
	}
	return fmt.Sprintf("As many pending as %s ago.", ago)
}
