package access

import (
	"net/netip"
	"sync"
)

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
