package queuefs

import (
	"sync/atomic"

	"cutie/queuefs/durable"
)

// readAhead is how many octets of the journal are read for one who takes the
// jobs of a queue one after the other.
const readAhead = 64 << 10

// An ahead keeps what was read of the journal behind the job that was taken
// last: the jobs behind it will be wanted next. Queues share what is kept, so
// that it is half a mebibyte at the most. The zero value is ready to use, and
// safe for concurrent use.
type ahead struct {
	slots [8]aheadSlot
}

type aheadSlot struct {
	reading atomic.Bool // by somebody who reads ahead
	last    atomic.Pointer[stretch]
}

// A stretch is a part of the journal. It does not change.
type stretch struct {
	from durable.Position
	data []byte
}

// next returns where the stretch ends.
func (s *stretch) next() durable.Position { return s.from.Add(len(s.data)) }

// of returns n octets at a place, if the stretch has them.
func (s *stretch) of(at durable.Position, n int) []byte {
	if s == nil || at < s.from || at.Segment() != s.from.Segment() || at.Add(n) > s.next() {
		return nil
	}
	off := int(at - s.from)
	return s.data[off : off+n : off+n]
}

// read returns n octets of the journal, for one who reads a queue from front to
// back. They are not to be written to; kept tells that they are part of more,
// which stays in memory for their sake.
func (a *ahead) read(log *durable.Log, life uint64, at durable.Position, n int) (data []byte, kept bool, err error) {
	slot := &a.slots[life%uint64(len(a.slots))]
	last := slot.last.Load()
	if data := last.of(at, n); data != nil {
		return data, true, nil
	}
	more := n
	first := n < readAhead/4 && slot.reading.CompareAndSwap(false, true)
	if first {
		defer slot.reading.Store(false)
		if last != nil && last.from <= at && at < last.next().Add(readAhead) {
			more = max(n, min(readAhead, log.Committed(at)))
		}
	}
	data = make([]byte, more)
	if err := log.ReadAt(data, at); err != nil {
		return nil, false, err
	}
	if first {
		slot.last.Store(&stretch{at, data})
	}
	return data[:n:n], first, nil
}
