package uws

import (
	"container/heap"
	"time"
)

// lookAgain is after how long it is seen whether the queue still has a job
// whose record nothing else is to be done with.
const lookAgain = 24 * time.Hour

// next returns when something is to be done with the record of a job of the
// queue, that was looked at now.
func (r *record) next(now time.Time) time.Time {
	if r.destroyed.IsZero() && r.archived.IsZero() && !r.destruction.IsZero() {
		return r.destruction
	}
	if now.IsZero() {
		return time.UnixMilli(0) // to be looked at first
	}
	return now.Add(lookAgain)
}

// dues are jobs by the instant at which to look at them. What is to be done is
// said by their records.
type dues struct {
	heap []due
	at   map[string]int // place in heap
}

type due struct {
	ms int64 // Unix
	id string
}

// set makes a job due then; the zero time is never.
func (d *dues) set(id string, then time.Time) {
	i, there := d.at[id]
	switch {
	case then.IsZero() && there:
		heap.Remove(d, i)
	case then.IsZero():
	case there:
		d.heap[i].ms = then.UnixMilli()
		heap.Fix(d, i)
	default:
		if d.at == nil {
			d.at = map[string]int{}
		}
		heap.Push(d, due{then.UnixMilli(), id})
	}
}

// pop takes the first job out that is due by now.
func (d *dues) pop(now time.Time) (id string, ok bool) {
	if len(d.heap) == 0 || d.heap[0].ms > now.UnixMilli() {
		return "", false
	}
	return heap.Pop(d).(due).id, true
}

func (d *dues) Len() int           { return len(d.heap) }
func (d *dues) Less(i, j int) bool { return d.heap[i].ms < d.heap[j].ms }

func (d *dues) Swap(i, j int) {
	h := d.heap
	h[i], h[j] = h[j], h[i]
	d.at[h[i].id], d.at[h[j].id] = i, j
}

// Push and Pop are for container/heap.
func (d *dues) Push(x any) {
	e := x.(due)
	d.at[e.id] = len(d.heap)
	d.heap = append(d.heap, e)
}

func (d *dues) Pop() any {
	n := len(d.heap) - 1
	e := d.heap[n]
	d.heap = d.heap[:n]
	delete(d.at, e.id)
	return e
}
