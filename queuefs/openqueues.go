package queuefs

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A namedQueue is a queue in [openQueues]; tests have simple ones.
type namedQueue interface {
	comparable
	ID() string       // cleaned identifier
	Names() [2]string // the identifier as it was given, and the name; either may be ""
}

// openQueues has the queues of a home by identifier and by name, and in their order. A
// queue that is being made has its names already, and is not found yet. The zero value is
// ready, and safe for concurrent use.
type openQueues[Q namedQueue] struct {
	mu     sync.RWMutex
	all    []Q // grows at its end; otherwise it is replaced, for others read it
	byID   map[string]Q
	byName map[string]Q // by names other than the cleaned identifier; nil: to be made
	coming map[string]Q // being made, by cleaned identifier
	first  []Q          // see First
	turn   int          // in all, see Turn
}

// First lets the next Turn begin with a queue.
func (r *openQueues[Q]) First(q Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = append(r.first, q)
}

// Turn returns the queues of First and the next n ones in turn, or all if there are no
// more than n.
func (r *openQueues[Q]) Turn(n int) (some []Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.first {
		if r.byID[q.ID()] == q { // still open
			some = append(some, q)
		}
	}
	r.first = nil
	if len(r.all) <= n {
		return slices.Clip(r.all)
	}
	for range n {
		r.turn = (r.turn + 1) % len(r.all)
		some = append(some, r.all[r.turn])
	}
	return some
}

// All returns the open queues in their order. The result is not to be changed.
func (r *openQueues[Q]) All() []Q {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clip(r.all)
}

// ByID returns the open queue with a cleaned identifier, or the zero Q.
func (r *openQueues[Q]) ByID(id string) Q {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byID[id]
}

// ByName returns the first open queue with one of its [namedQueue.Names], or the zero Q.
func (r *openQueues[Q]) ByName(name string) (q Q) {
	named := r.called(name)
	if named != q && r.ByID(named.ID()) == named {
		return named
	}
	return q // named is being made, or nobody is
}

// Taken reports whether a queue other than q has the name, or is being made with it.
func (r *openQueues[Q]) Taken(name string, q Q) bool {
	if name == "" {
		return false
	}
	var none Q
	has := func(o Q) bool { return o != none && o != q && o.Names()[1] == name }
	if has(r.ByID(name)) || has(r.Coming(name)) || has(r.called(name)) {
		return true
	}
	if q == none || r.called(name) != q {
		return false // nobody is called so
	}
	return slices.ContainsFunc(r.All(), has) // another one after q
}

// called returns the first queue with a name, open or being made.
func (r *openQueues[Q]) called(name string) Q {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]Q{}
		for _, q := range r.all {
			r.enter(q)
		}
		for _, q := range r.coming {
			r.enter(q)
		}
	}
	return r.byName[name]
}

// enter makes a queue known by its names; the first one of a name stays. mu is held.
func (r *openQueues[Q]) enter(q Q) {
	if r.byName == nil {
		return
	}
	for _, name := range q.Names() {
		if _, taken := r.byName[name]; name != "" && name != q.ID() && !taken {
			r.byName[name] = q
		}
	}
}

// Renamed says that the names of a queue have changed.
func (r *openQueues[Q]) Renamed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName = nil
}

// Expect keeps the names of a queue for it while it is being made, until Add or GiveUp.
func (r *openQueues[Q]) Expect(q Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.coming == nil {
		r.coming = map[string]Q{}
	}
	r.coming[q.ID()] = q
	r.enter(q)
}

// GiveUp takes Expect back.
func (r *openQueues[Q]) GiveUp(q Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.coming, q.ID())
	r.byName = nil
}

// Coming returns the queue being made with a cleaned identifier, or the zero Q.
func (r *openQueues[Q]) Coming(id string) Q {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.coming[id]
}

// Add opens a queue, the last in the order.
func (r *openQueues[Q]) Add(q Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]Q{}
	}
	r.byID[q.ID()] = q
	r.all = append(r.all, q)
	delete(r.coming, q.ID())
	r.enter(q)
}

// Drop takes an open queue out.
func (r *openQueues[Q]) Drop(q Q) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, q.ID())
	r.byName = nil
	r.all = slices.DeleteFunc(slices.Clone(r.all), func(o Q) bool { return o == q })
}

// Order puts the queues in the order of identifiers; others come last.
func (r *openQueues[Q]) Order(ids []string) {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	number := func(q Q) int {
		if i, ok := at[q.ID()]; ok {
			return i
		}
		return len(ids)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.Clone(r.all)
	r.byName = nil
	slices.SortStableFunc(r.all, func(a, b Q) int { return number(a) - number(b) })
}

// eachWorker is how many queues make a further processor worth it.
const eachWorker = 200

// sideBySide calls do for those of 0 to n-1 that stand apart, on all processors, if there
// are many. It returns the others in their order.
func sideBySide(n int, apart func(i int) bool, do func(i int)) (rest []int) {
	done := make([]bool, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/eachWorker) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if apart(i) {
					do(i)
					done[i] = true
				}
			}
		})
	}
	workers.Wait()
	for i := range n {
		if !done[i] {
			rest = append(rest, i)
		}
	}
	return rest
}
