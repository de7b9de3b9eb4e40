package publisher

import (
	"fmt"
	"syscall"
)

// What is made of closed lists may take as much of the disk as the jobs do. On
// one that is nearly full it is not begun, for it would take what the queue needs
// to go on and let go of jobs.

// pieces is how many times the octets of a list its compressed form, the lines of
// its manifests and its job files take at the most, about.
const pieces = 3

// zipEntry is what a package has of a bitstream beside it, in octets, about: its
// header, and its line in the directory at the end.
const zipEntry = 256

// A roomError says that the disk cannot spare what a package would take.
type roomError struct{ octets int64 }

func (e *roomError) Error() string {
	return fmt.Sprintf("the disk cannot spare %d octets in a file for a package", e.octets)
}
func (e *roomError) Unwrap() error { return syscall.ENOSPC }

func (p *Publisher) spares(octets int64) bool { return p.Room == nil || p.Room(octets) }

// room returns a roomError if the disk cannot spare so many octets, beside those
// that the task has taken.
func (t *task) room(octets, taken int64) error {
	if t.p.spares(octets) {
		return nil
	}
	return &roomError{octets + taken}
}
