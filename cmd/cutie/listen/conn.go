package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is a TCP connection under an HTTP server, at less cost for each request. Large
// answers still go out by sendfile.
//
// The socket gets a deadline when a read or write begins, and not again while the one set
// before comes at nearly the same time. A server moves deadlines several times a request,
// and hardly any of them ever comes.
//
// A server also reads one octet behind each request, to learn whether the client goes
// away: a goroutine, a system call and two changes of deadlines. While a request is whole
// this read returns at once, and a [Request] watches the connection when somebody asks.
type Conn struct {
	*net.TCPConn

	mu          sync.Mutex
	read, write deadline
	reading     bool
	writing     int
	whole       bool // between [Request.Whole] and [Request.End]: there is nothing to read
}

// A deadline is the wanted one and the one of the socket. Deadlines may come early by 1/32
// of their time.
type deadline struct{ want, set time.Time }

// due returns the deadline to set, if any.
func (d *deadline) due() (time.Time, bool) {
	if d.want.Equal(d.set) {
		return d.set, false
	}
	if early := d.want.Sub(d.set); !d.set.IsZero() && early > 0 && early < time.Until(d.want)/32 {
		return d.set, false
	}
	d.set = d.want
	return d.set, true
}

// LimitUnsent limits the bytes that the system takes for the client before they can go out.
// A write then goes on when the client has taken half of them, not a third of all that the
// system would keep, so that a slow client shows progress.
func (c *Conn) LimitUnsent(n int) {
	if raw, err := c.TCPConn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n) }) // it works without, too
	}
}

// Read reads; see [Conn] for a read of one octet.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if c.whole && len(p) == 1 {
		c.mu.Unlock()
		return 0, nil
	}
	if t, ok := c.read.due(); ok {
		c.TCPConn.SetReadDeadline(t)
	}
	c.reading = true
	c.mu.Unlock()
	n, err := c.TCPConn.Read(p)
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	c.beginWrite()
	defer c.endWrite()
	return c.TCPConn.Write(p)
}

// ReadFrom writes all of r, a file by sendfile.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	c.beginWrite()
	defer c.endWrite()
	return c.TCPConn.ReadFrom(r)
}

// beginWrite sets the write deadline.
func (c *Conn) beginWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.write.due(); ok {
		c.TCPConn.SetWriteDeadline(t)
	}
	c.writing++
}

func (c *Conn) endWrite() {
	c.mu.Lock()
	c.writing--
	c.mu.Unlock()
}

func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is [net.Conn.SetReadDeadline]. A read under way has it at once.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.want = t; !c.reading {
		return nil
	}
	if t, ok := c.read.due(); ok {
		return c.TCPConn.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline is [net.Conn.SetWriteDeadline]. A write under way has it at once.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.write.want = t; c.writing == 0 {
		return nil
	}
	if t, ok := c.write.due(); ok {
		return c.TCPConn.SetWriteDeadline(t)
	}
	return nil
}

func (c *Conn) setWhole(whole bool) {
	c.mu.Lock()
	c.whole = whole
	c.mu.Unlock()
}

// watch calls gone when the client closes the connection, until stop. The next request
// stays unread, and ends the watch. stop is nil if there is nothing to watch for, or if the
// server itself reads the connection, or will.
func (c *Conn) watch(gone func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.whole || c.reading {
		return nil
	}
	raw, err := c.TCPConn.SyscallConn()
	if err != nil { // it is closed
		gone()
		return nil
	}
	var more int
	var failed error
	look := func(fd uintptr) bool {
		for failed = unix.EINTR; failed == unix.EINTR; {
			more, _, failed = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		}
		return failed != unix.EAGAIN
	}
	// A client may have gone before this first question.
	if err := raw.Control(func(fd uintptr) { look(fd) }); err != nil || failed != unix.EAGAIN {
		if err != nil || failed != nil || more == 0 {
			gone()
		}
		return nil // it has gone, or has sent the next request
	}
	c.read.set = time.Time{}
	c.TCPConn.SetReadDeadline(c.read.set)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := raw.Read(look)
		if !errors.Is(err, os.ErrDeadlineExceeded) && (err != nil || failed != nil || more == 0) {
			gone()
		}
	}()
	return func() {
		c.mu.Lock()
		c.read.set = time.Unix(1, 0)
		c.TCPConn.SetReadDeadline(c.read.set)
		c.mu.Unlock()
		<-ended
	}
}
