package set

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"syscall"
	"time"

	"cutie/queuefs/job"
)

// A Task makes the compressed form and the packages of a closed list, or a
// Resource Dump. It goes on from Tick to Tick.
type Task struct {
	*Set
	list Span  // zero for a Resource Dump
	life int   // of the set when the task began
	wait *Wait // after a failure; mu is held

	next func() (struct{}, bool)
	stop func()
	err  error // why it ended early
}

// progress is the work done on a set, and still to be done.
type progress struct {
	packed  job.Seq   // packages were made, or cannot be, up to this event
	skipped job.Seq   // lists up to this event went without packages
	lists   Wait      // of the packages of a list
	dump    Wait      // of a Resource Dump
	passed  []error   // why lists were passed over since Publish began, mostPassed at most
	tried   time.Time // when the making of a Resource Dump ended last; zero since the start
	wanted  job.Seq   // a Resource Dump of this event or a later one is wanted now; 0: none
	dumping bool      // a Resource Dump is being made
	unswept bool      // there may be files to remove
	life    int       // how often the set began anew
	began   beginning
}

// failure returns why the last package or dump was not made.
func (m *progress) failure() error {
	return cmp.Or(m.lists.err, m.dump.err, m.lists.passed, m.dump.passed)
}

// mostPassed is how many errors of passed lists are kept.
const mostPassed = 4

// NextTask begins the next task of the set; nil if there is none now. With now it begins
// in pauses after failures, too. Nothing in waits is tried.
func (s *Set) NextTask(now bool, waits []*Wait) *Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	may := func(w *Wait) bool {
		return !slices.Contains(waits, w) && (now || !w.Pauses(s.Now()) && (w.octets == 0 || s.hasSpace(w.octets)))
	}
	t := &Task{Set: s, life: s.made.life}
	var run func(pause func() bool) error
	if lists := s.unpacked(); len(lists) > 0 && may(&s.made.lists) {
		t.list, t.wait, run = lists[0], &s.made.lists, t.packList
	} else if s.due() && may(&s.made.dump) {
		t.wait, run = &s.made.dump, t.makeDump
	} else if list, ok := s.uncompressed(); ok && may(&s.made.lists) {
		t.list, t.wait, run = list, &s.made.lists, t.compress
	} else {
		return nil
	}
	s.made.dumping = t.list.First == 0
	if t.wait.failed < hopeless {
		t.wait.octets = 0
	}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.err = run(func() bool { return !t.stale() && yield(struct{}{}) })
	})
	return t
}

// Waits returns why packages and dumps of the set are not made.
func (s *Set) Waits() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range []*Wait{&s.made.lists, &s.made.dump} {
		if w.err != nil {
			errs = append(errs, w.err)
		}
	}
	return errs
}

// WantDump asks for a Resource Dump of now or later, and forgets what was passed over
// before.
func (s *Set) WantDump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made.wanted, s.made.passed = s.Queue.Seq(), nil
}

// Passed returns why lists and dumps were passed over for good since WantDump.
func (s *Set) Passed() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := append([]error{s.made.dump.passed}, s.made.passed...)
	if len(s.made.passed) == 0 {
		passed = append(passed, s.made.lists.passed)
	}
	for _, err := range passed {
		if err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %s: %w", s.Queue.ID(), s.Kind, err))
		}
	}
	return errs
}

// unpacked returns the closed lists without packages. mu is held.
func (s *Set) unpacked() []Span {
	return s.files.Lists[Before(s.files.Lists, s.made.packed+1):]
}

// uncompressed returns the oldest closed list that is not compressed; false if there is none.
// mu is held.
func (s *Set) uncompressed() (Span, bool) {
	i := slices.IndexFunc(s.files.Lists, func(sp Span) bool { return sp.Packed == 0 })
	if i < 0 {
		return Span{}, false
	}
	return s.files.Lists[i], true
}

// Kept is [queuefs.Queue.Kept] for the lists without packages, 0 without any.
func (s *Set) Kept() float64 {
	s.mu.Lock()
	lists := s.unpacked()
	s.mu.Unlock()
	if len(lists) == 0 {
		return 0
	}
	return s.Queue.Kept(lists[0].First)
}

// Step goes on with the task, and reports whether there is more.
func (t *Task) Step() (more bool) {
	_, more = t.next()
	return more
}

// Stop ends the task where it is.
func (t *Task) Stop() { t.stop() }

// stale reports whether the set began anew after the task did, or its list is gone.
func (t *Task) stale() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outlived()
}

// outlived is stale. mu is held.
func (t *Task) outlived() bool {
	return t.made.life != t.life || t.list.First != 0 && t.list.Last <= t.made.skipped
}

// packList makes everything of a closed list. It calls pause often, and ends
// when that returns false.
func (t *Task) packList(pause func() bool) error {
	if err := t.compress(pause); err != nil {
		return err
	}
	if err := t.needSpace(pieces*t.list.Length, 0); err != nil {
		return err
	}
	return t.pack(pause)
}

// Done records the end of a task. It returns nil if the next one of its kind may begin at
// once, else what that waits for. If no package of a list can be made, the list is passed
// over until the next start; if the list itself is unusable, the set begins anew.
func (t *Task) Done() *Wait {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outlived() {
		return nil
	}
	passed, err := t.outcome()
	switch {
	case errors.Is(err, ErrStopped):
		return nil // on the way; the next attempt leaves a job out
	case t.Failure() != nil:
		return t.wait // it is reported by itself
	case err == nil:
		if passed != nil && t.wait == &t.made.lists && len(t.made.passed) < mostPassed {
			t.made.passed = append(t.made.passed, passed)
		}
		*t.wait = Wait{passed: passed}
		return nil
	}
	t.wait.Fails(err, t.Now())
	return t.wait
}

// outcome returns why the task is passed over for good, or failed for now. mu is
// held.
func (t *Task) outcome() (passed, err error) {
	isDump := t.list.First == 0
	if isDump {
		t.made.dumping, t.made.unswept = false, t.made.unswept || t.err != nil
	}
	var e *FileError
	var broken *brokenFile
	switch {
	case t.err == nil:
	case errors.As(t.err, &broken):
		return nil, ErrStopped // it is gone
	case errors.As(t.err, &e) && culled(t.Queue, t.Refs, e.Loc), isDump && errors.Is(t.err, ErrStopped):
		return nil, ErrStopped
	case errors.As(t.err, &e) && !scarce(t.err):
		passed = fmt.Errorf("no package for events %d to %d: %w", t.list.First, t.list.Last, t.err)
		if isDump {
			passed = fmt.Errorf("no Resource Dump after event %d: %w", t.Queue.Seq(), t.err)
		}
		t.Reportf(t.Path, "%v", passed)
	default:
		err := t.mend(t.err)
		switch {
		case err != nil && isDump:
			return nil, fmt.Errorf("queue %s: %s: Resource Dump: %w", t.Queue.ID(), t.Kind, err)
		case err != nil:
			return nil, fmt.Errorf("queue %s: %s: closed list %d: %w", t.Queue.ID(), t.Kind, t.list.First, err)
		case !isDump:
			return nil, nil
		}
	}
	if !isDump {
		t.made.packed = max(t.made.packed, t.list.Last)
		return passed, nil
	}
	if t.made.tried = t.Now(); t.err != nil {
		t.made.wanted = 0
	}
	return passed, nil
}

// scarce reports whether the error says nothing of the file: the system had no
// more descriptors or memory.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

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
