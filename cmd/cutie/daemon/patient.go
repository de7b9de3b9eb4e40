package daemon

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// A patient listener goes on after an error of accept(2) that tells of one
// connection, of the network or of a shortage: to the server it is a temporary
// one, after which it waits for a while. The net package knows of too many open
// files and of connections cut off.
type patient struct{ net.Listener }

func (l patient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && slices.ContainsFunc(passing, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		err = passingError{err}
	}
	return c, err
}

// passing are the errors of accept(2) that are not of the socket itself: those
// that Linux passes on from the network, shortages, and a firewall's.
var passing = []syscall.Errno{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM,
	syscall.ENETDOWN, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EHOSTDOWN,
	syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// A passingError is a [net.Error] that is temporary.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }
func (passingError) Timeout() bool   { return false }
func (passingError) Temporary() bool { return true }
