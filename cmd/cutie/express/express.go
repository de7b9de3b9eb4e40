// Package express serves the few kinds of request that a busy client repeats
// thousands of times a second, in front of an [http.Server] that serves all
// others.
//
// A connection begins here. As long as its requests are plain, and of those
// that the daemon names, they are read, handed to the handler of the server,
// and answered on the spot. The first that is anything else goes to the server
// with its connection, unread and for good. So this package need not know HTTP,
// it must only be sure of what it takes: POST in HTTP/1.1 (RFC 9112), the whole
// head in one read of at most 4 KiB, no field that is repeated or unknown or
// bears on the framing other than Content-Length. What it takes it reads as
// the server would.
//
// A request costs half as much here (BenchmarkRequest), and so a small durable
// job over HTTP three quarters: the server has a goroutine for each that watches
// for the client's end, deadlines to set for it, and all of HTTP to look out for.
package express

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// A Front is the listener to give to an [http.Server]: its Accept returns the
// connections that are for the server.
//
// Of the server's settings Handler, ReadHeaderTimeout (for the first octet of a
// connection), IdleTimeout, ConnContext, ConnState (StateClosed only) and
// ErrorLog hold for plain requests as well. Their context ends with the
// connection, but that its client has gone is seen by a write or by the next
// request only: handlers that wait for something other than storage are for the
// server.
type Front struct {
	net.Listener
	server *http.Server
	takes  func(path string, header http.Header, length int64) bool

	toServer chan accepted
	done     chan struct{} // closed by Close

	mu      sync.Mutex
	leaving bool
	conns   map[*conn]struct{}
	ended   chan struct{} // closed when leaving and no connection is left
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// Listen puts a Front between ln, whose connections are TCP, and server. The
// plain requests that takes names by their path, their header and the length of
// their body are served here.
func Listen(ln net.Listener, server *http.Server, takes func(path string, header http.Header, length int64) bool) *Front {
	f := &Front{
		Listener: ln,
		server:   server,
		takes:    takes,
		toServer: make(chan accepted),
		done:     make(chan struct{}),
		conns:    make(map[*conn]struct{}),
		ended:    make(chan struct{}),
	}
	go f.accept()
	return f
}

// accept waits with the next connection while an error is on its way to the
// server, who knows how long to wait after which.
func (f *Front) accept() {
	for {
		nc, err := f.Listener.Accept()
		if err != nil {
			if !f.give(accepted{err: err}) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if c := f.begin(nc); c != nil {
			go c.serve()
		}
	}
}

// give passes something to the server, unless that takes no more.
func (f *Front) give(a accepted) bool {
	select {
	case f.toServer <- a:
		return true
	case <-f.done:
		return false
	}
}

// Accept returns the next connection that is for the server.
func (f *Front) Accept() (net.Conn, error) {
	select {
	case a := <-f.toServer:
		return a.conn, a.err
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and every connection once it has no request in
// progress.
func (f *Front) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaving {
		return net.ErrClosed
	}
	f.leaving = true
	close(f.done)
	for c := range f.conns {
		if c.state.Load() == idle {
			c.nc.Close()
		}
	}
	if len(f.conns) == 0 {
		close(f.ended)
	}
	return f.Listener.Close()
}

// Shutdown closes the Front, if that was not done, and waits for the requests
// in progress. It returns the error of ctx, and cuts off those that are left,
// if that ends first.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Close()
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	for c := range f.conns {
		c.nc.Close()
	}
	f.mu.Unlock()
	return ctx.Err()
}

// begin counts a connection in, unless the front is leaving.
func (f *Front) begin(nc net.Conn) *conn {
	f.mu.Lock()
	leaving := f.leaving
	var c *conn
	if !leaving {
		c = newConn(f, nc)
		f.conns[c] = struct{}{}
	}
	f.mu.Unlock()
	if leaving {
		f.closed(nc)
	}
	return c
}

// end counts a connection out.
func (f *Front) end(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
	if f.leaving && len(f.conns) == 0 {
		close(f.ended)
	}
}

// closed closes a connection that the server never saw.
func (f *Front) closed(nc net.Conn) {
	nc.Close()
	if f.server.ConnState != nil {
		f.server.ConnState(nc, http.StateClosed)
	}
}
