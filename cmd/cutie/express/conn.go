package express

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// What becomes of a connection when the front is closed depends on these.
const (
	idle int32 = iota // waits for a request: is closed
	busy              // ends with its answer
)

const (
	maxHead = 4 << 10   // octets; of a request that comes in more than one read, too
	maxBody = 256 << 10 // octets; larger ones gain nothing here
	linger  = 500 * time.Millisecond

	emptyLines = 4 // octets of such between two requests, as many as the server takes
)

// A conn is a connection with plain requests so far.
type conn struct {
	front *Front
	nc    net.Conn
	in    *bufio.Reader
	state atomic.Int32
	ctx   context.Context
	stop  context.CancelFunc
	from  string

	// The read deadlines are asked for often and matter seldom: most bodies are
	// there with their heads. So they are set when something is read.
	inBody   bool
	bodyBy   time.Time // by when the next part of a body must come
	idleBy   time.Time // by when the next request must come
	deadline time.Time // the one that is set

	head   *head // of the last request
	taken  bool  // whether that is served here
	answer answer
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}

func newConn(f *Front, nc net.Conn) *conn {
	c := &conn{front: f, nc: nc, from: nc.RemoteAddr().String(), head: &head{}}
	c.in = readers.Get().(*bufio.Reader)
	c.in.Reset(c)
	c.answer.conn = c
	c.answer.header = make(http.Header)
	return c
}

// begin makes the context of the requests. Most connections go to the server at
// once, and it has one of its own.
func (c *conn) begin() {
	if c.ctx != nil {
		return
	}
	ctx := context.WithValue(context.Background(), http.ServerContextKey, c.front.server)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.nc.LocalAddr())
	if hook := c.front.server.ConnContext; hook != nil {
		ctx = hook(ctx, c.nc)
	}
	c.ctx, c.stop = context.WithCancel(ctx)
}

// Read reads under the deadline that holds for what is read.
func (c *conn) Read(p []byte) (int, error) {
	by := c.idleBy
	if c.inBody {
		by = c.bodyBy
	}
	if by != c.deadline {
		if err := c.nc.SetReadDeadline(by); err != nil {
			return 0, err
		}
		c.deadline = by
	}
	return c.nc.Read(p)
}

// serve answers requests until one is for the server, or none comes.
func (c *conn) serve() {
	handedOver := false
	defer func() {
		if !handedOver {
			c.front.closed(c.nc)
		}
		if c.stop != nil {
			c.stop()
		}
		c.in.Reset(nil)
		readers.Put(c.in)
		c.front.end(c)
	}()
	c.idleBy = after(c.front.server.ReadHeaderTimeout)
	for {
		if !c.await() {
			return
		}
		ahead, _ := c.in.Peek(c.in.Buffered())
		if !c.takes(ahead) {
			handedOver = c.handOver(ahead)
			return
		}
		c.begin()
		c.in.Discard(len(c.head.text))
		if !c.exchange() {
			c.finish()
			return
		}
		if c.state.Store(idle); c.isLeaving() {
			c.finish()
			return
		}
		c.waitOn()
	}
}

// await waits for the first octets of a request, and reports whether they came.
func (c *conn) await() bool {
	// A client may send an empty line behind a body (RFC 9112, 2.2).
	for lines := 0; ; lines++ {
		first, err := c.in.Peek(1)
		if err != nil {
			return false
		}
		if len(c.head.text) == 0 || lines == emptyLines || first[0] != '\r' && first[0] != '\n' {
			break
		}
		c.in.Discard(1)
	}
	c.state.Store(busy)
	return !c.isLeaving()
}

// takes tells whether the request that ahead begins with is served here.
func (c *conn) takes(ahead []byte) bool {
	known, ok := c.head.read(ahead)
	if !known {
		c.taken = ok && c.head.length <= maxBody && c.front.takes(c.head.url.Path, c.head.header, c.head.length)
	}
	return c.taken
}

// isLeaving tells whether the front is closed. It is asked after each change
// of the state, so that either this sees that, or Close sees the state.
func (c *conn) isLeaving() bool {
	select {
	case <-c.front.done:
		return true
	default:
		return false
	}
}

// after is a deadline; those of no time are none.
func after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// waitOn moves the deadline of the next request. It is moved seldom, for that
// costs more than most of what is done for a request: so a connection may be
// idle for seven eighths of IdleTimeout at least.
func (c *conn) waitOn() {
	if d := c.front.server.IdleTimeout; d > 0 && (c.idleBy.IsZero() || time.Until(c.idleBy) < d-d/8) {
		c.idleBy = after(d)
	}
}

// handOver gives the connection to the server, with what was read of it.
func (c *conn) handOver(ahead []byte) bool {
	if !c.deadline.IsZero() {
		c.nc.SetReadDeadline(time.Time{})
	}
	rest := &served{Conn: c.nc, ahead: append([]byte(nil), ahead...)}
	return c.front.give(accepted{conn: rest})
}

// exchange has one request answered, and reports whether another may come.
func (c *conn) exchange() (more bool) {
	r := c.head.request(c.ctx, c.from)
	b := &body{c: c, left: c.head.length}
	if r.Body = http.NoBody; b.left > 0 {
		r.Body = b
	}
	c.bodyBy = time.Time{}
	c.answer.begin()
	defer func() {
		b.ended = true
		c.answer.release()
		if p := recover(); p != nil {
			more = false
			if p != http.ErrAbortHandler {
				c.logf("http: panic serving %s: %v\n%s", c.from, p, debug.Stack())
			}
		}
	}()
	c.front.server.Handler.ServeHTTP(&c.answer, r)
	return c.answer.end() && b.drain()
}

func (c *conn) logf(format string, args ...any) {
	if l := c.front.server.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// finish ends a connection behind an answer. To close it with octets unread, be
// it those of a next request, would take the answer away from a client that has
// not read it yet.
func (c *conn) finish() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.nc.SetReadDeadline(time.Now().Add(linger))
		io.Copy(io.Discard, io.LimitReader(c.nc, maxBody))
	}
}

// A served connection is the server's. It begins with what was read before.
type served struct {
	net.Conn
	ahead []byte
}

func (s *served) Read(p []byte) (int, error) {
	if len(s.ahead) == 0 {
		return s.Conn.Read(p)
	}
	n := copy(p, s.ahead)
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead = nil
	}
	return n, nil
}

// ReadFrom keeps the way to sendfile open.
func (s *served) ReadFrom(r io.Reader) (int64, error) { return io.Copy(s.Conn, r) }

// CloseWrite is how the server ends a connection gently.
func (s *served) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return s.Conn.Close()
}
