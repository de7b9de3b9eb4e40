package access

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// errCrowded is the error of a wait in a full [fairQueue].
var errCrowded = errors.New("too many wait")

// A fairQueue lets so many at a time go on, and the others wait. Addresses take turns, so
// that many tries of a few keep nobody out, and an address with many waiting makes room for
// others. An address is one client for the limits, see group.
type fairQueue struct {
	most int // that wait

	mu      sync.Mutex
	free    int // places to go on
	waits   int
	waiting map[netip.Addr][]chan bool // true: go on, false: there is no room
	turns   []netip.Addr               // with waiting ones, the next first
}

func newFairQueue(atOnce, most int) *fairQueue {
	return &fairQueue{free: atOnce, most: most, waiting: map[netip.Addr][]chan bool{}}
}

// try takes a place if one is free; leave must follow then.
func (q *fairQueue) try() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free == 0 {
		return false
	}
	q.free--
	return true
}

// wait waits for a place; leave must follow if there is no error.
func (q *fairQueue) wait(ctx context.Context, client netip.Addr) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if q.waits >= q.most && !q.makeRoom(client) {
		q.mu.Unlock()
		return errCrowded
	}
	turn := make(chan bool, 1)
	if len(q.waiting[client]) == 0 {
		q.turns = append(q.turns, client)
	}
	q.waiting[client] = append(q.waiting[client], turn)
	q.waits++
	q.mu.Unlock()
	select {
	case on := <-turn:
		if !on {
			return errCrowded
		}
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	at := slices.Index(q.waiting[client], turn)
	if at >= 0 {
		q.drop(client, at)
	}
	q.mu.Unlock()
	if at < 0 && <-turn { // it was its turn just then
		q.leave()
	}
	return ctx.Err()
}

// leave gives a place to the next.
func (q *fairQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		q.free++
		return
	}
	client := q.turns[0]
	q.turns = append(q.turns[1:], client)
	q.drop(client, 0) <- true
}

// makeRoom refuses the last of the address with the most, if it has more than the client
// would have.
func (q *fairQueue) makeRoom(client netip.Addr) bool {
	var most netip.Addr
	for of, turns := range q.waiting {
		if len(turns) > len(q.waiting[most]) {
			most = of
		}
	}
	last := len(q.waiting[most]) - 1
	if last <= len(q.waiting[client]) {
		return false
	}
	q.drop(most, last) <- false
	return true
}

// drop takes one out.
func (q *fairQueue) drop(client netip.Addr, at int) chan bool {
	turn := q.waiting[client][at]
	q.waiting[client] = slices.Delete(q.waiting[client], at, at+1)
	q.waits--
	if len(q.waiting[client]) == 0 {
		delete(q.waiting, client)
		q.turns = slices.DeleteFunc(q.turns, func(of netip.Addr) bool { return of == client })
	}
	return turn
}
