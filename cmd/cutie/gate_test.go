package main_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A gate is a network between two processes: clients of its address reach another one,
// as long as it is open.
type gate struct {
	listener net.Listener
	to       string // address

	mu    sync.Mutex
	turn  sync.Cond // the way has changed
	way   traffic
	conns map[net.Conn]bool
	ended bool
}

// A traffic is how a gate treats connections.
type traffic int

const (
	open traffic = iota
	slow         // each piece of data waits
	hole         // data waits, and nobody is told
	shut         // connections end, and new ones are refused
)

// slowness is the wait of a piece of data.
const slowness = 20 * time.Millisecond

// newGate opens a gate to an address, for the length of a test.
func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, conns: map[net.Conn]bool{}}
	g.turn.L = &g.mu
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { g.carry(in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.mu.Lock()
		g.ended = true
		g.drop()
		g.mu.Unlock()
		wg.Wait()
	})
	return g
}

// address is where clients reach the gate.
func (g *gate) address() string { return g.listener.Addr().String() }

// set changes the way. With drop connections end; else they go on, as after a cut that
// nobody saw.
func (g *gate) set(to traffic, drop bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.way = to
	if drop || to == shut {
		g.drop()
	}
	g.turn.Broadcast()
}

// drop ends all connections; mu is held.
func (g *gate) drop() {
	for c := range g.conns {
		c.Close()
	}
	clear(g.conns)
	g.turn.Broadcast()
}

// keep notes a connection, unless the gate is shut.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.way == shut {
		c.Close()
		return false
	}
	g.conns[c] = true
	return true
}

// carry serves one connection.
func (g *gate) carry(in net.Conn) {
	if !g.keep(in) || !g.passes(in) {
		return
	}
	out, err := net.Dial("tcp", g.to)
	if err != nil || !g.keep(out) {
		in.Close()
		return
	}
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			defer pair[0].Close()
			defer pair[1].Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := pair[0].Read(buf)
				if n > 0 && g.passes(pair[0]) {
					_, err = pair[1].Write(buf[:n])
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

// passes waits until data of a connection may pass; false if it has ended.
func (g *gate) passes(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.way == slow {
		g.mu.Unlock()
		time.Sleep(slowness)
		g.mu.Lock()
	}
	for g.way == hole && g.conns[c] {
		g.turn.Wait()
	}
	return g.conns[c]
}
