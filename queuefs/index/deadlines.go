package index

import (
	"container/heap"

	"cutie/queuefs/job"
)

// Deadlines are instants of jobs in µs, at most one of a job.
type Deadlines struct {
	heap *deadlines // nil: there are none, as in most queues
}

// all returns the instants there are.
func (d *Deadlines) all() []deadline {
	if d.heap == nil {
		return nil
	}
	return d.heap.heap
}

// Set gives a job its instant; 0 takes it away.
func (d *Deadlines) Set(id job.ID, ends int64) {
	if ends == 0 && d.heap == nil {
		return
	}
	if d.heap == nil {
		d.heap = &deadlines{at: map[job.ID]int{}}
	}
	l := d.heap
	i, ok := l.at[id]
	switch {
	case ends == 0 && ok:
		heap.Remove(l, i)
	case ends == 0:
	case ok:
		l.heap[i].ends = ends
		heap.Fix(l, i)
	default:
		heap.Push(l, deadline{ends, id})
	}
}

// At returns the instant of a job, false if it has none.
func (d *Deadlines) At(id job.ID) (ends int64, ok bool) {
	if d.heap == nil {
		return 0, false
	}
	i, ok := d.heap.at[id]
	if ok {
		ends = d.heap.heap[i].ends
	}
	return ends, ok
}

// Jobs returns all jobs with an instant, in no order.
func (d *Deadlines) Jobs() []job.ID {
	ids := make([]job.ID, 0, len(d.all()))
	for _, e := range d.all() {
		ids = append(ids, e.id)
	}
	return ids
}

// Passed reports whether an instant has come by now.
func (d *Deadlines) Passed(now int64) bool {
	return len(d.all()) > 0 && d.heap.heap[0].ends <= now
}

// Due calls visit with the jobs of instants up to now, until it returns false. It
// looks at no more than twice as many jobs.
func (d *Deadlines) Due(now int64, visit func(job.ID) bool) {
	all, more := d.all(), true
	var look func(i int)
	look = func(i int) {
		if !more || i >= len(all) || all[i].ends > now {
			return
		}
		more = visit(all[i].id)
		look(2*i + 1)
		look(2*i + 2)
	}
	look(0)
}

// deadlines is a heap, the earliest on top.
type deadlines struct {
	heap []deadline
	at   map[job.ID]int // index in heap
}

type deadline struct {
	ends int64
	id   job.ID
}

func (l *deadlines) Len() int           { return len(l.heap) }
func (l *deadlines) Less(i, j int) bool { return l.heap[i].ends < l.heap[j].ends }

func (l *deadlines) Swap(i, j int) {
	h := l.heap
	h[i], h[j] = h[j], h[i]
	l.at[h[i].id], l.at[h[j].id] = i, j
}

// Push and Pop are for container/heap.
func (l *deadlines) Push(x any) {
	e := x.(deadline)
	l.at[e.id] = len(l.heap)
	l.heap = append(l.heap, e)
}

func (l *deadlines) Pop() any {
	n := len(l.heap) - 1
	e := l.heap[n]
	l.heap = l.heap[:n]
	delete(l.at, e.id)
	return e
}
