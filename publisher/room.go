package publisher

import (
	"errors"
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

// A wait is that of something that is to be made and could not be.
type wait struct {
	octets int64 // room that it waits for; 0: it does not, or is tried again
	err    error // why, until it is made
}

// waits tells whether something of the set waits for room.
func (c *changes) waits() bool { return c.forLists.octets > 0 || c.forDump.octets > 0 }

// toldWaits is how many errors of waits are told.
const toldWaits = 4

// waiting returns why what is to be made of some sets is not.
func (p *Publisher) waiting() error {
	var errs []error
	for _, f := range p.opened() {
		f.mu.Lock()
		for s := range f.sets {
			for _, w := range []*wait{&f.sets[s].forLists, &f.sets[s].forDump} {
				if w.err != nil {
					errs = append(errs, w.err)
				}
			}
		}
		f.mu.Unlock()
	}
	if n := len(errs) - toldWaits; n > 0 {
		errs = append(errs[:toldWaits], fmt.Errorf("%d more are not made", n))
	}
	return errors.Join(errs...)
}

func (p *Publisher) spares(octets int64) bool { return p.Room == nil || p.Room(octets) }

// room returns a roomError if the disk cannot spare so many octets, beside those
// that the task has taken.
func (t *task) room(octets, taken int64) error {
	if t.p.spares(octets) {
		return nil
	}
	return &roomError{octets + taken}
}
