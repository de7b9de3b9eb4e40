package uws

import (
	"sync"
	"time"

	"cutie/queuefs"
)

// A history has the duration of the last jobs of a queue. Its first samples
// come from jobs of the queue at the start.
type history struct {
	mu      sync.Mutex
	begun   bool
	seen    queuefs.Seq
	samples int
	mean    time.Duration // the last ones count more
	busy    [2]int        // most jobs in work at once, in this span and in the last
	span    time.Time     // when this span began
}

const (
	fewSamples  = 5 // say nothing
	manySamples = 64
	lookedAt    = 1024 // jobs, for samples after a start
	learnAtOnce = 16   // ended jobs since the last call
	busySpan    = time.Minute
)

// learn takes samples of the jobs since the last call, a few of many.
func (p *history) learn(q *queuefs.Queue, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch idle := now.Sub(p.span); {
	case idle >= 2*busySpan:
		p.busy, p.span = [2]int{}, now
	case idle >= busySpan:
		p.busy, p.span = [2]int{0, p.busy[0]}, now
	}
	p.busy[0] = max(p.busy[0], len(q.Leased()))
	last := q.Seq()
	if !p.begun {
		p.begun, p.seen = true, last
		p.recall(q)
		return
	}
	if last == p.seen {
		return
	}
	events, _ := q.Events(p.seen, 0) // released events are not missed
	p.seen = last
	for n := 0; len(events) > 0 && n < learnAtOnce; events = events[:len(events)-1] {
		if e := events[len(events)-1]; e.Kind == queuefs.Conclude && p.add(q, e.Job) {
			n++
		}
	}
}

// recall takes samples of jobs from before the start.
func (p *history) recall(q *queuefs.Queue) {
	after := queuefs.JobID(max(1, (q.Pages()-1)*queuefs.PageJobs)) - 1 // the last page
	ids := q.IDs(queuefs.ListOptions{Status: queuefs.Consumed, After: after, Limit: lookedAt})
	for _, id := range ids[max(0, len(ids)-manySamples):] {
		p.add(q, id)
	}
}

// add takes a job with a reported end as a sample.
func (p *history) add(q *queuefs.Queue, id queuefs.JobID) bool {
	j, err := q.Job(id)
	if err != nil || j.Outcome != queuefs.Completed && j.Outcome != queuefs.Failed || j.Consumed.IsZero() || j.Finished.Before(j.Consumed) {
		return false
	}
	took := j.Finished.Sub(j.Consumed)
	p.samples++
	p.mean += (took - p.mean) / time.Duration(min(p.samples, 8))
	return true
}

// quote returns the expected end of a job (UWS 1.1, 2.1.6), zero if unknown. It
// expects as many jobs at a time as lately, and the duration of the last ones.
func (h *Handler) quote(j *job) time.Time {
	p, now := &j.list.past, h.now()
	p.learn(j.q, now)
	p.mu.Lock()
	takes, known, busy := p.mean, p.samples >= fewSamples, max(1, p.busy[0], p.busy[1])
	p.mu.Unlock()
	if !known {
		if takes = j.set.takes; takes == 0 {
			return time.Time{}
		}
	}
	switch j.phase() {
	case executing:
		start, _ := j.ran()
		t := start.Add(takes)
		if t.Before(now) {
			t = now
		}
		return stamp(t)
	case pending, queued:
		if !j.q.Info().Paused.IsZero() {
			return time.Time{}
		}
		ahead := before(j.q, j.cut.ID)
		rounds := (ahead + int64(busy) - 1) / int64(busy)
		if rounds > int64(100*365*24*time.Hour/max(takes, 1)) {
			return time.Time{} // not in this century
		}
		return stamp(now.Add(time.Duration(rounds+1) * takes))
	}
	return time.Time{}
}

// before returns how many jobs consumers take before one, from memory.
func before(q *queuefs.Queue, id queuefs.JobID) (n int64) {
	page := int(id / queuefs.PageJobs)
	for i := range page {
		_, _, pending, _ := q.PageVersion(i)
		n += int64(pending)
	}
	count := func(o queuefs.ListOptions, by int64) {
		o.Status = queuefs.Pending
		for _, other := range q.IDs(o) {
			if other < id {
				n += by
			}
		}
	}
	count(queuefs.ListOptions{After: queuefs.JobID(max(1, page*queuefs.PageJobs)) - 1, Limit: queuefs.PageJobs}, 1)
	if q.State().Held > 0 {
		count(queuefs.ListOptions{Held: true, Limit: 1 << 40}, -1)
	}
	return n
}
