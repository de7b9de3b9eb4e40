package queuefs

import "container/heap"

// deadlines are instants of jobs, at most one of a job, the earliest on top.
type deadlines struct {
	heap []deadline
	at   map[JobID]int // index in heap
}

type deadline struct {
	ends int64 // µs
	id   JobID
}

// set gives a job its instant in microseconds; 0 takes it away.
func (l *deadlines) set(id JobID, ends int64) {
	i, ok := l.at[id]
	switch {
	case ends == 0 && ok:
		heap.Remove(l, i)
	case ends == 0:
	case ok:
		l.heap[i].ends = ends
		heap.Fix(l, i)
	default:
		if l.at == nil {
			l.at = map[JobID]int{}
		}
		heap.Push(l, deadline{ends, id})
	}
}

// due calls visit with the jobs whose instant has come by now, until it returns
// false. It looks at no more than twice as many as there are.
func (l *deadlines) due(now int64, visit func(JobID) bool) {
	more := true
	var look func(i int)
	look = func(i int) {
		if !more || i >= len(l.heap) || l.heap[i].ends > now {
			return
		}
		more = visit(l.heap[i].id)
		look(2*i + 1)
		look(2*i + 2)
	}
	look(0)
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
