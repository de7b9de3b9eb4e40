package store

import (
	"errors"
	"fmt"
	"time"

	"cutie/queuefs"
)

// An OpenList is the open Change List of a set: how far the set has read the
// events of its queue, and how far the list had grown by then.
type OpenList struct {
	First   queuefs.Seq // first event of the list, after the last list or gap; Read+1 at most
	Read    queuefs.Seq // last event read
	From    time.Time   // of the event before First, or of the creation of the queue
	Until   time.Time   // of the last event that is no phase, or of the creation
	Since   time.Time   // of the first event with an entry; zero without one
	Changed time.Time   // of the last event with an entry; zero without one
	Entries int
	Length  int64 // bytes of the entries
	Files   int64 // bytes of the files its package is to have
}

// NewOpenList returns the list that begins after the event seq.
func NewOpenList(seq queuefs.Seq, at time.Time) OpenList {
	return OpenList{First: seq + 1, Read: seq, From: at, Until: at}
}

// Span returns the list as it would be closed.
func (l *OpenList) Span() Span {
	return Span{First: l.First, Last: l.Read, From: l.From, Until: l.Until, Entries: l.Entries, Length: l.Length}
}

// Unknown stands in the place of a digest of a list without entries.
const Unknown = "-"

// Add adds an event with n entries of size bytes. Until does not move with a
// phase: documents show no phases.
func (l *OpenList) Add(ev *queuefs.Event, n, size int) {
	if l.Read = ev.Seq; ev.Kind == queuefs.Phase {
		return
	}
	l.Until = ev.Time
	if n == 0 {
		return
	}
	if l.Entries == 0 {
		l.Since = ev.Time
	}
	l.Changed = ev.Time
	l.Entries += n
	l.Length += int64(size)
}

// append prints the list as it stands in the cursor, parseOpenList reads it.
func (l *OpenList) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%d ", l.Read)
	dst = appendOptionalTime(dst, l.Until)
	dst = fmt.Appendf(dst, "%d ", l.First)
	dst = appendOptionalTime(dst, l.From)
	dst = appendOptionalTime(dst, l.Since)
	dst = appendOptionalTime(dst, l.Changed)
	return fmt.Appendf(dst, "%d %d %d", l.Entries, l.Length, l.Files)
}

func parseOpenList(w *words) (OpenList, error) {
	l := OpenList{Read: w.seq(), Until: w.time(), First: w.seq(), From: w.time(),
		Since: w.optionalTime(), Changed: w.optionalTime(), Entries: int(w.int()), Length: w.int(), Files: w.int()}
	if w.err != nil {
		return l, w.err
	}
	empty := l.Entries == 0
	if l.First == 0 || l.First > l.Read+1 || l.Entries < 0 || l.Length < 0 || l.Files < 0 ||
		empty != (l.Length == 0) || empty != l.Since.IsZero() || empty != l.Changed.IsZero() {
		return l, errors.New("out of range")
	}
	return l, nil
}
