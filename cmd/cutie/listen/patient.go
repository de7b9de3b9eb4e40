package listen

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

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
