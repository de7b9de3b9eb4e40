package publisher

import (
	"errors"
	"fmt"
	"syscall"
	"time"
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
	octets int64     // room that it waits for; 0: it does not, or is tried again
	err    error     // why, until it is made
	passed error     // why the last one was passed over for good, until one is made
	failed int       // attempts in a row
	again  time.Time // of the next one
}

// Room is asked for before it is used. What fails for another reason may fail for
// ever, and late: the next attempt comes after firstPause, and each further one
// after twice as long, up to lastPause.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// hopeless is how many attempts may fail before culling and retention go on as
// they do without room.
const hopeless = 3

// fails notes an attempt that failed at an instant.
func (w *wait) fails(err error, now time.Time) {
	w.octets, w.err = 0, err
	if none := (*roomError)(nil); errors.As(err, &none) {
		w.octets, w.failed, w.again = none.octets, 0, time.Time{}
		return
	}
	w.again = now.Add(min(firstPause<<min(w.failed, 10), lastPause))
	if w.failed++; w.failed >= hopeless || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		w.octets = 1
	}
}

// pauses tells whether it is too early for the next attempt.
func (w *wait) pauses(now time.Time) bool {
	return now.Before(w.again) && w.again.Sub(now) <= lastPause // else the clock was set back
}

// made notes that it was, or was passed over because of an error.
func (w *wait) made(passed error) { *w = wait{passed: passed} }

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
