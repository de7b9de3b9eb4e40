// Package listen is where a daemon meets its clients, below HTTP: the port, the socket of
// the home, the certificate, how many connections each client may have, and what a request
// costs of its connection.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
)

// SocketName is the daemon's Unix socket in its home. The prefix is reserved
// (Cutie 0.3, 6), so no other file of a home can have the name.
const SocketName = "cutie-socket"

// ErrPortInUse is the error if another process listens on the address.
var ErrPortInUse = errors.New("port in use")

// TakePort listens on an address. The error is [ErrPortInUse] if another process
// does.
func TakePort(a *net.TCPAddr) (net.Listener, error) {
	ln, err := net.ListenTCP("tcp", a)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %s", ErrPortInUse, a)
	}
	if err != nil {
		return nil, err
	}
	return patient{ln}, nil
}

// A Socket reaches the socket of a home. A socket's address holds 107
// octets at most, and homes may have longer paths, so it is addressed through
// a descriptor of the directory.
type Socket struct {
	dir  *os.File
	addr string
}

// OpenSocket opens the directory of a home, whether it has a socket or not.
func OpenSocket(home string) (*Socket, error) {
	dir, err := os.Open(home)
	if err != nil {
		return nil, err
	}
	return &Socket{dir, fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), SocketName)}, nil
}

// Close lets go of the directory; connections made stay.
func (s *Socket) Close() error { return s.dir.Close() }

// Dial connects to the daemon of the home.
func (s *Socket) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.addr)
}

// Peer returns the process at the other end of a connection by a socket, and its user; nil if
// the kernel does not say.
func Peer(conn net.Conn) *syscall.Ucred {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	var of *syscall.Ucred
	if raw.Control(func(fd uintptr) { of, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) }) != nil || err != nil {
		return nil
	}
	return of
}

// Listen makes the socket, for its owner only. The caller holds the lock of
// the home, so a socket that is there already is one that a daemon left when
// it was killed.
func (s *Socket) Listen(ctx context.Context) (net.Listener, error) {
	name := filepath.Join(s.dir.Name(), SocketName)
	switch info, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is in the way: it is no socket; move it away", name)
	default:
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	// The mode of an unbound socket becomes that of its file, so at no moment
	// can others connect.
	private := func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}
	lc := net.ListenConfig{Control: private}
	ln, err := lc.Listen(ctx, "unix", s.addr)
	if err != nil {
		return nil, err
	}
	return patient{ln}, nil
}

// A Certificate is a pair of files in PEM, read again when they change.
type Certificate struct {
	cert, key string
	stamps    [2]access.Stamp
	current   atomic.Pointer[tls.Certificate]
}

// maxPEM is the size of a file of certificates or of a key, in octets.
const maxPEM = 1 << 20

// LoadCertificate reads the files for the first time.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	return c, c.Reload()
}

// Reload reads the files if one of them has changed. A pair that does not fit
// leaves the last one in use. It is for one goroutine.
func (c *Certificate) Reload() error {
	var stamps [2]access.Stamp
	for i, name := range []string{c.cert, c.key} {
		var err error
		if stamps[i], err = access.StampOf(name); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	if stamps == c.stamps {
		return nil
	}
	var text [2][]byte
	for i, name := range []string{c.cert, c.key} {
		var err error
		if text[i], err = access.ReadFile(name, maxPEM); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	c.stamps = stamps
	return nil
}

// Config is for TLS 1.2 and up, with HTTP/2.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// brief is how long a request may take before a look at its error is a question about its
// client.
const brief = 50 * time.Millisecond

// A Request is the context of a request on a [Conn]. As the context of an HTTP server does,
// a Request ends with its handler, or before when the client goes away. But the connection
// is watched only when somebody waits for the end: most requests are answered before. The
// zero Request does nothing. The lock of a Request comes before that of its connection.
type Request struct {
	context.Context // of the server
	conn            *Conn
	begun           time.Time

	mu     sync.Mutex
	asked  context.Context // nil: nobody asked
	cancel context.CancelFunc
	stop   func() // of the watch, nil: the server watches
	ended  bool
}

// Begin makes q the context of a request with the context ctx of the server.
func (q *Request) Begin(ctx context.Context, conn *Conn, at time.Time) {
	q.Context, q.conn, q.begun = ctx, conn, at
}

// Whole says that the request was read to its end. From here on nothing is read from the
// connection until End.
func (q *Request) Whole() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil && q.asked == nil && !q.ended {
		q.conn.setWhole(true)
	}
}

// End says that the request was answered, except for what is to be flushed.
func (q *Request) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn == nil || q.ended {
		return
	}
	q.ended = true
	if q.stop != nil {
		q.stop()
	}
	q.conn.setWhole(false)
	if q.cancel != nil {
		q.cancel()
	}
}

// Done asks for the end of the client too.
func (q *Request) Done() <-chan struct{} { return q.ask().Done() }

// Err asks for the end of the client if the request takes long.
func (q *Request) Err() error {
	q.mu.Lock()
	asked := q.asked
	q.mu.Unlock()
	if asked == nil {
		if time.Since(q.begun) < brief {
			return q.Context.Err()
		}
		asked = q.ask()
	}
	return asked.Err()
}

// Value leads [context.WithCancel] to the context of [Request.Done], also through contexts
// with values. Its children need no goroutine then.
func (q *Request) Value(key any) any {
	q.mu.Lock()
	asked := q.asked
	q.mu.Unlock()
	if asked == nil {
		return q.Context.Value(key)
	}
	return asked.Value(key)
}

// ask returns a context that ends with the request or its client.
func (q *Request) ask() context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.asked != nil:
	case q.ended: // the server is about to end its own
		return q.Context
	default:
		q.asked, q.cancel = context.WithCancel(q.Context)
		q.stop = q.conn.watch(q.cancel)
	}
	return q.asked
}

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

// A patient listener makes errors of accept(2) temporary if they are of one
// connection, of the network or of a shortage: the server waits and goes on. The
// net package does so only for too many open files and connections cut off.
type patient struct{ net.Listener }

func (l patient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && slices.ContainsFunc(passing, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		err = passingError{err}
	}
	return c, err
}

// SetDeadline is [net.TCPListener.SetDeadline].
func (l patient) SetDeadline(t time.Time) error {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// passing are the errors of accept(2) from elsewhere than the socket: from the
// network, of a shortage, and from a firewall.
var passing = []syscall.Errno{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM,
	syscall.ENETDOWN, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EHOSTDOWN,
	syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// A passingError is a temporary [net.Error].
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }
func (passingError) Timeout() bool   { return false }
func (passingError) Temporary() bool { return true }
