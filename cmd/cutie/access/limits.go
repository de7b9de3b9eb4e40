package access

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// group is one client for the limits: an IPv4 address, or the /64 network of an IPv6
// address, since a client can have all addresses in it.
func group(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		p, _ := client.Prefix(64) // 64 is in range
		return p.Addr()
	}
	return client
}

// A throttle limits the tries of each of many: so many at once, and then one each
// interval.
type throttle[K comparable] struct {
	burst int
	every time.Duration
	most  int // remembered

	mu  sync.Mutex
	due map[K]time.Time // when there will be all tries again
}

// try takes a try, or returns the time until the next one.
func (t *throttle[K]) try(of K, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.due[of]
	if due.Before(now) {
		due = now
	}
	if wait = due.Add(t.every).Sub(now) - time.Duration(t.burst)*t.every; wait > 0 {
		return wait
	}
	if t.due == nil {
		t.due = map[K]time.Time{}
	}
	t.due[of] = due.Add(t.every)
	if len(t.due) > t.most {
		t.shrink(of, now)
	}
	return 0
}

// shrink forgets entries with all their tries. If that is not enough, it forgets some
// others: a growing table would be worse.
func (t *throttle[K]) shrink(keep K, now time.Time) {
	for k, due := range t.due {
		if !due.After(now) {
			delete(t.due, k)
		}
	}
	for k := range t.due {
		if len(t.due) <= t.most*3/4 {
			return
		}
		if k != keep {
			delete(t.due, k)
		}
	}
}

// giveBack returns a try after a success.
func (t *throttle[K]) giveBack(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if due, ok := t.due[of]; ok {
		t.due[of] = due.Add(-t.every)
	}
}

// A login is the name of a user, tried by a client.
type login struct {
	client netip.Addr // see group
	name   string     // "" for an impossible name
}

// Logins limit tries of passwords. Each name has tries of its own at a client, so
// that a guesser does not lock out others at this address. All names together have
// more, against guesses about many names.
type logins struct {
	of  throttle[login]
	all throttle[netip.Addr]
}

func newLogins() *logins {
	return &logins{of: throttle[login]{burst: loginBurst, every: loginEvery, most: maxRemember},
		all: throttle[netip.Addr]{burst: clientBurst, every: clientEvery, most: maxRemember}}
}

func loginOf(client netip.Addr, name string) login {
	if CheckName(name) != nil {
		name = ""
	}
	return login{group(client), name}
}

// try takes a try, or returns the time until the next one.
func (l *logins) try(by login, now time.Time) (wait time.Duration) {
	if wait = l.of.try(by, now); wait > 0 {
		return wait
	}
	if wait = l.all.try(by.client, now); wait > 0 {
		l.of.giveBack(by)
	}
	return wait
}

// giveBack returns a try after a success.
func (l *logins) giveBack(by login) {
	l.of.giveBack(by)
	l.all.giveBack(by.client)
}

// A Crowd limits the waiting requests of each client. Its table holds only clients
// with waiting requests.
type Crowd struct {
	mu  sync.Mutex
	max int // a client
	in  map[netip.Addr]int
}

// NewCrowd returns a Crowd of at most so many requests a client.
func NewCrowd(most int) *Crowd { return &Crowd{max: most} }

// Limit changes how many requests a client may have; those that wait go on.
func (c *Crowd) Limit(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = most
}

// Max returns how many requests a client may have.
func (c *Crowd) Max() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max
}

// Enter lets a request of a client wait, if there are not too many; call Leave with
// the same address then.
func (c *Crowd) Enter(client netip.Addr) bool {
	client = group(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[client] >= c.max {
		return false
	}
	if c.in == nil {
		c.in = map[netip.Addr]int{}
	}
	c.in[client]++
	return true
}

// Waiting returns how many requests wait.
func (c *Crowd) Waiting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.in {
		n += k
	}
	return n
}

// Leave ends the waiting begun by Enter.
func (c *Crowd) Leave(client netip.Addr) {
	client = group(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[client]--; c.in[client] <= 0 {
		delete(c.in, client)
	}
}

// errCrowded is the error of a wait in a full [fairQueue].
var errCrowded = errors.New("too many wait")

// A fairQueue lets so many at a time go on, and the others wait. Addresses take turns, so
// that many tries of a few keep nobody out, and an address with many waiting makes room for
// others. An address is one client for the limits, see group.
type fairQueue struct {
	most int // that wait

	mu      sync.Mutex
	free    int // places to go on
	round   int // of the last one that went on
	waiting []*waiter
}

// A waiter is the first of its client in its round, and the only one.
type waiter struct {
	client netip.Addr
	round  int
	turn   chan bool // true: go on, false: there is no room
}

func newFairQueue(atOnce, most int) *fairQueue { return &fairQueue{free: atOnce, most: most} }

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
	if q.try() {
		return nil
	}
	w := &waiter{client: client, turn: make(chan bool, 1)}
	if !q.join(w) {
		return errCrowded
	}
	select {
	case on := <-w.turn:
		if !on {
			return errCrowded
		}
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at < 0 && <-w.turn { // it was its turn just then
		q.leave()
	}
	return ctx.Err()
}

// join adds w behind the others of its client, or reports that there is no room.
func (q *fairQueue) join(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		w.turn <- true
		return true
	}
	if len(q.waiting) >= q.most && !q.makeRoom(w.client) {
		return false
	}
	w.round = q.round + 1
	for _, o := range q.waiting {
		if o.client == w.client {
			w.round = max(w.round, o.round+1)
		}
	}
	q.waiting = append(q.waiting, w)
	return true
}

// leave gives a place to the next: the one that has waited longest of the earliest round.
func (q *fairQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	next := 0
	for i, w := range q.waiting {
		if w.round < q.waiting[next].round {
			next = i
		}
	}
	w := q.waiting[next]
	q.round = w.round
	q.waiting = slices.Delete(q.waiting, next, next+1)
	w.turn <- true
}

// makeRoom refuses the last of the address with the most, if it has more than the client
// would have.
func (q *fairQueue) makeRoom(client netip.Addr) bool {
	count, last := map[netip.Addr]int{}, map[netip.Addr]int{}
	most := client
	for i, w := range q.waiting {
		count[w.client]++
		last[w.client] = i
		if count[w.client] > count[most] {
			most = w.client
		}
	}
	if count[most] <= count[client]+1 {
		return false
	}
	w := q.waiting[last[most]]
	q.waiting = slices.Delete(q.waiting, last[most], last[most]+1)
	w.turn <- false
	return true
}

// Places are divided among clients: each may have as many as are left over for the
// others. One client alone gets half of them; n clients taking all they can at one
// time leave one part in n+1 free. Of clients coming one after the other, each gets
// half of the rest; about as many as Max has binary digits take them all. A client
// is an IPv4 address or an IPv6 network of 64 bits.
type Places struct {
	Max     int
	Trusted Proxies // get all that are free: each stands for many clients

	mu    sync.Mutex
	taken int
	by    map[netip.Addr]int
}

// Take takes a place for a client, if its share allows that; call Leave with the
// same address then.
func (p *Places) Take(client netip.Addr) bool { return p.TakeMany(client, 1) }

// Taken returns how many places are taken.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Leave gives the place back.
func (p *Places) Leave(client netip.Addr) { p.LeaveMany(client, 1) }

// TakeMany takes n places, as if one after the other, all or none.
func (p *Places) TakeMany(client netip.Addr, n int) bool {
	share := group(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.Max - p.taken
	if n > free || p.by[share]+2*(n-1) >= free && !p.Trusted.trust(client.Unmap().WithZone("")) {
		return false
	}
	if p.by == nil {
		p.by = map[netip.Addr]int{}
	}
	p.taken += n
	p.by[share] += n
	return true
}

// LeaveMany gives n places back.
func (p *Places) LeaveMany(client netip.Addr, n int) {
	share := group(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if p.by[share] -= n; p.by[share] <= 0 {
		delete(p.by, share)
	}
}
