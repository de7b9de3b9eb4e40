package queuefs

import (
	"sync/atomic"

	"cutie/queuefs/journal/segment"
)

// readAhead is how many octets of the journal or of a pack are read for one who
// takes the jobs of a queue one after the other.
const readAhead = 64 << 10

// A source is what jobs are read from: the journal, or a pack, of which a
// position is an offset. Committed returns how many octets from a position on
// are there and do not change any more.
type source interface {
	ReadAt(b []byte, at segment.Position) error
	Committed(at segment.Position) int
}

// An ahead keeps what was read behind the job that was taken last: the jobs
// behind it will be wanted next. Queues share what is kept, so that it is half a
// mebibyte at the most. The zero value is ready to use, and safe for concurrent
// use.
type ahead struct {
	slots [8]aheadSlot
}

type aheadSlot struct {
	reading atomic.Bool // by somebody who reads ahead
	last    atomic.Pointer[stretch]
}

// A stretch is a part of a source. It does not change.
type stretch struct {
	src  source
	from segment.Position
	data []byte
}

// next returns where the stretch ends.
func (s *stretch) next() segment.Position { return s.from.Add(len(s.data)) }

// of returns n octets at a place, if the stretch has them.
func (s *stretch) of(src source, at segment.Position, n int) []byte {
	if s == nil || s.src != src || at < s.from || at.Segment() != s.from.Segment() || at.Add(n) > s.next() {
		return nil
	}
	off := int(at - s.from)
	return s.data[off : off+n : off+n]
}

// read returns n octets of a source, for one who reads a queue from front to
// back. They are not to be written to; kept tells that they are part of more,
// which stays in memory for their sake.
func (a *ahead) read(src source, life uint64, at segment.Position, n int) (data []byte, kept bool, err error) {
	slot := &a.slots[life%uint64(len(a.slots))]
	last := slot.last.Load()
	if data := last.of(src, at, n); data != nil {
		return data, true, nil
	}
	more := n
	first := n < readAhead/4 && slot.reading.CompareAndSwap(false, true)
	if first {
		defer slot.reading.Store(false)
		if last != nil && last.src == src && last.from <= at && at < last.next().Add(readAhead) {
			more = max(n, min(readAhead, src.Committed(at)))
		}
	}
	data = make([]byte, more)
	if err := src.ReadAt(data, at); err != nil {
		return nil, false, err
	}
	if first {
		slot.last.Store(&stretch{src, at, data})
	}
	return data[:n:n], first, nil
}
