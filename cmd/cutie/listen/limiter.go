package listen

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"cutie/cmd/cutie/access"
)

// A Limiter is a TCP listener with at most max open connections: the next one
// waits. It closes further connections of a client with its share of them.
// The server reports the end of connections to Ended.
type Limiter struct {
	net.Listener
	shares access.Places
	places chan struct{}
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex
	refused netip.Addr // the last one since Told; zero: nobody
}

// Limit returns ln with at most max open connections; [access.Places] says how many a client has.
func Limit(ln net.Listener, max int) *Limiter {
	return &Limiter{Listener: ln, shares: access.Places{Max: max}, places: make(chan struct{}, max), done: make(chan struct{})}
}

// Trusting makes an exception for proxies: each stands for many clients.
func (l *Limiter) Trusting(p access.Proxies) *Limiter {
	l.shares.Trusted = p
	return l
}

// Accept waits for a place, and closes connections of clients beyond their share.
func (l *Limiter) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		client := addressOf(c)
		if l.shares.Take(client) {
			if tcp, ok := c.(*net.TCPConn); ok {
				c = &Conn{TCPConn: tcp}
			}
			return c, nil
		}
		l.mu.Lock()
		l.refused = client
		l.mu.Unlock()
		// An answer would take the resources to be spared.
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

func (l *Limiter) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Ended is the [http.Server] ConnState hook. It gives places back.
func (l *Limiter) Ended(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if _, home := c.(*net.UnixConn); !home { // of TCP, in TLS or not
		l.shares.Leave(addressOf(c))
		<-l.places
	}
}

// Told returns an error if connections were refused since the last call. It
// names the last client.
func (l *Limiter) Told() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	client := l.refused
	if l.refused = (netip.Addr{}); !client.IsValid() {
		return nil
	}
	return fmt.Errorf("%s has its share of all connections, further ones are closed", client)
}

// addressOf returns the address at the other end of a connection.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// Connections returns how many of asked connections a process can serve with so
// many open files: half of the files are for requests and for the home.
func Connections(asked int, files uint64) int {
	return int(min(uint64(asked), max(files/2, 1)))
}
