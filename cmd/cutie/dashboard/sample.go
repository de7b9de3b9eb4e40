package dashboard

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher"
	"cutie/queuefs"
)

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
	since := j.Submitted
	if j.Requeued.After(since) {
		since = j.Requeued
	}
	s.note(j.Queue, times{taken: 1, queued: j.Consumed.Sub(since)})
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
