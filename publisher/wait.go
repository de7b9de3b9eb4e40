package publisher

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Packages may take as much disk as the jobs do. On a nearly full disk none is
// begun: the free space is left to the queue.

// pieces is about how many times the bytes of a list its compressed form, the
// lines of its manifests and its job files take at most.
const pieces = 3

// A spaceError is a disk without free space for a package.
type spaceError struct{ octets int64 }

func (e *spaceError) Error() string {
	return fmt.Sprintf("the disk cannot spare %d octets in a file for a package", e.octets)
}
func (e *spaceError) Unwrap() error { return syscall.ENOSPC }

func (p *Publisher) hasSpace(octets int64) bool { return p.HasSpace == nil || p.HasSpace(octets) }

// needSpace returns a spaceError if the disk cannot spare so many bytes, beside the
// bytes of the task so far.
func (t *task) needSpace(octets, taken int64) error {
	if t.p.hasSpace(octets) {
		return nil
	}
	return &spaceError{octets + taken}
}

// A wait says why something was not made, and when it is tried again.
type wait struct {
	octets int64     // free space to wait for; above 0 culling and retention go on without it
	err    error     // why, until it is made
	passed error     // why the last one was passed over for good, until one is made
	failed int       // attempts in a row
	again  time.Time // of the next one
}

// Pauses after failures other than for free space, doubled from the first to
// the last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// hopeless is after how many failures culling and retention go on.
const hopeless = 3

// fails records a failed attempt.
func (w *wait) fails(err error, now time.Time) {
	w.octets, w.err = 0, err
	if none := (*spaceError)(nil); errors.As(err, &none) {
		w.octets, w.failed, w.again = none.octets, 0, time.Time{}
		return
	}
	w.again = now.Add(min(firstPause<<min(w.failed, 10), lastPause))
	if w.failed++; w.failed >= hopeless || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		w.octets = 1
	}
}

// pauses reports whether it is too early for the next attempt.
func (w *wait) pauses(now time.Time) bool {
	return now.Before(w.again) && w.again.Sub(now) <= lastPause // else the clock was set back
}

// made records success, or the reason to pass it over.
func (w *wait) made(passed error) { *w = wait{passed: passed} }

// maxWaiting is how many errors of waits are returned.
const maxWaiting = 4

// waiting returns why packages and dumps are not made.
func (p *Publisher) waiting() error {
	var errs []error
	for _, s := range p.sets() {
		s.mu.Lock()
		for _, w := range []*wait{&s.made.lists, &s.made.dump} {
			if w.err != nil {
				errs = append(errs, w.err)
			}
		}
		s.mu.Unlock()
	}
	if n := len(errs) - maxWaiting; n > 0 {
		errs = append(errs[:maxWaiting], fmt.Errorf("%d more are not made", n))
	}
	return errors.Join(errs...)
}
