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
		return now // to be looked at first
	}
	return now.Add(lookAgain)
}

// dues are jobs by the instant at which to look at them. A job may be there
// several times: what is to be done is said by its record.
type dues struct{ heap dueHeap }

type due struct {
	at int64 // Unix ms
	id string
}

func (d *dues) add(at time.Time, id string) { heap.Push(&d.heap, due{at.UnixMilli(), id}) }

// pop takes the first job out that is due by now.
func (d *dues) pop(now time.Time) (id string, ok bool) {
	if len(d.heap) == 0 || d.heap[0].at > now.UnixMilli() {
		return "", false
	}
	return heap.Pop(&d.heap).(due).id, true
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }

func (h *dueHeap) Pop() any {
	n := len(*h) - 1
	e := (*h)[n]
	*h = (*h)[:n]
	return e
}
