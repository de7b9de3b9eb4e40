// Package listen is where a daemon meets its clients, below HTTP: the port, the socket of
// the home, the certificate, how many connections each client may have, and what a request
// costs of its connection.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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
