package access

import (
	"net/netip"
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
