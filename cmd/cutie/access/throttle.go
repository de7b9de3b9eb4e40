package access

import (
	"net/netip"
	"sync"
	"time"
)

// group is what limits count as one client: an IPv4 address, or the /64 that an
// IPv6 client can take addresses from.
func group(client netip.Addr) netip.Addr {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		p, _ := client.Prefix(64) // 64 is in range
		return p.Addr()
	}
	return client
}

// A throttle limits how often each client may try something: so many times at
// once, and then one time every so often.
type throttle struct {
	burst int
	every time.Duration
	most  int // clients that are remembered

	mu  sync.Mutex
	due map[netip.Addr]time.Time // when the client will have all tries again
}

// try takes a try of a client, or tells after what time there is one.
func (t *throttle) try(client netip.Addr, now time.Time) (wait time.Duration) {
	client = group(client)
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.due[client]
	if due.Before(now) {
		due = now
	}
	if wait = due.Add(t.every).Sub(now) - time.Duration(t.burst)*t.every; wait > 0 {
		return wait
	}
	if t.due == nil {
		t.due = map[netip.Addr]time.Time{}
	}
	t.due[client] = due.Add(t.every)
	if len(t.due) > t.most {
		t.shrink(client, now)
	}
	return 0
}

// shrink forgets the clients that have all their tries. If that is not enough,
// it forgets some others: a table that grows would be worse.
func (t *throttle) shrink(keep netip.Addr, now time.Time) {
	for c, due := range t.due {
		if !due.After(now) {
			delete(t.due, c)
		}
	}
	for c := range t.due {
		if len(t.due) <= t.most*3/4 {
			return
		}
		if c != keep {
			delete(t.due, c)
		}
	}
}

// giveBack returns a try that was no failure.
func (t *throttle) giveBack(client netip.Addr) {
	client = group(client)
	t.mu.Lock()
	defer t.mu.Unlock()
	if due, ok := t.due[client]; ok {
		t.due[client] = due.Add(-t.every)
	}
}

// A Crowd limits how many requests of one client may wait at once. Its table
// holds those who wait and no others.
type Crowd struct {
	Max int // a client

	mu sync.Mutex
	in map[netip.Addr]int
}

// Enter lets a client wait, if there are not too many of its requests. Call
// Leave with the same address then.
func (c *Crowd) Enter(client netip.Addr) bool {
	client = group(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[client] >= c.Max {
		return false
	}
	if c.in == nil {
		c.in = map[netip.Addr]int{}
	}
	c.in[client]++
	return true
}

// Leave ends what Enter began.
func (c *Crowd) Leave(client netip.Addr) {
	client = group(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in[client]--; c.in[client] <= 0 {
		delete(c.in, client)
	}
}
