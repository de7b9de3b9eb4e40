package set

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Packages may take as much disk as the jobs do. On a nearly full disk none grows, and
// none is begun: the free space is left to the queue.

// pieces is about how many times the bytes of a list the lines of its manifests and its job
// files take at most.
const pieces = 3

// A spaceError is a disk without free space for a package.
type spaceError struct{ octets int64 }

func (e *spaceError) Error() string {
	return fmt.Sprintf("the disk cannot spare %d octets in a file for a package", e.octets)
}

func (e *spaceError) Unwrap() error { return syscall.ENOSPC }

// needSpace returns a spaceError if the disk cannot spare so many bytes, beside the
// bytes of the task so far.
func (t *Task) needSpace(octets, taken int64) error {
	if t.hasSpace(octets) {
		return nil
	}
	return &spaceError{octets + taken}
}

// A Wait says why something was not made, and when it is tried again.
type Wait struct {
	octets int64     // free space to wait for; above 0 retention goes on without it
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

// hopeless is after how many failures retention goes on.
const hopeless = 3

// Fails records a failed attempt.
func (w *Wait) Fails(err error, now time.Time) {
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

// Pauses reports whether it is too early for the next attempt.
func (w *Wait) Pauses(now time.Time) bool {
	return now.Before(w.again) && w.again.Sub(now) <= lastPause // else the clock was set back
}
