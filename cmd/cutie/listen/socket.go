package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
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

// Peer returns the process that listens at the other end of a connection by Dial; 0 if
// the kernel does not say.
func Peer(conn net.Conn) int {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	var of *syscall.Ucred
	if raw.Control(func(fd uintptr) { of, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) }) != nil || err != nil {
		return 0
	}
	return int(of.Pid)
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
