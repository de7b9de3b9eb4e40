package segment

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// errNoRoom says that the next segment is not prepared yet.
var errNoRoom = errors.New("no prepared journal segment")

// A Use says what a record is for. Where no segment follows the current one, and
// none can be made, the end of this one is for what makes room.
type Use int

const (
	Adds    Use = iota // adds to what is kept; leaves the last eighth of a segment
	Changes            // changes what is kept; leaves the last sixteenth
	Frees              // makes room; leaves nothing
)

// leaves returns how many octets at the end of a segment of size octets are not
// for u unless another follows.
func (u Use) leaves(size int64) int64 {
	switch u {
	case Adds:
		return size / 8
	case Changes:
		return size / 16
	}
	return 0
}

// prepareAfter is the divisor of a segment's size from which on the next one is
// made: early, for to make one may take as long as to fill half of one.
const prepareAfter = 8

func (l *Log) prepareSoon() {
	if !l.prepare.TryLock() {
		return
	}
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		defer l.prepare.Unlock()
		l.prepareNext(Adds, 0)
	}()
}

// holds tells whether a segment of so many octets has room for a batch with n
// octets of records.
func holds(segment int64, n int) bool { return blockSize+padded(batchHeader+n) <= segment }

// prepareNext makes the segment after the current one, for n octets of records at
// the least; l.prepare is held. One that is too small for that gives way.
func (l *Log) prepareNext(use Use, n int) error {
	l.mu.Lock()
	if l.err != nil || l.next != nil && holds(l.next.size, n) {
		err := l.err
		l.mu.Unlock()
		return err
	}
	small := l.next
	l.next = nil
	number := l.cur.number + 1
	spare := l.takeSpare()
	l.mu.Unlock()
	if small != nil {
		if err := errors.Join(small.close(), l.dir.Remove(small.name)); err != nil {
			return err
		}
	}
	var seg *segment
	var err error
	if spare != "" {
		seg, err = createSegment(l.dir, number, l.segSize, spare)
	} else {
		seg, err = l.newSegment(number, use, n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unready.Store(err != nil)
	if err != nil {
		return err
	}
	l.next = seg
	return nil
}

// takeSpare returns the name of a file that waits to be used again, "" if there
// is none; l.mu is held.
func (l *Log) takeSpare() string {
	k := len(l.spares)
	if k == 0 {
		return ""
	}
	spare := l.spares[k-1]
	l.spares = l.spares[:k-1]
	return spare
}

// smallSegment is the smallest size of a segment that is made for what adds to
// what is kept where there is no room for a larger one, in octets: whatever is said
// of one job fits. What makes room may have a smaller one.
const (
	smallSegment  = 4 << 20
	scantySegment = 1 << 20
)

// sizes returns what a segment may have for such a use, in octets, the largest
// first: smaller ones are for a disk that has no room for those.
func (l *Log) sizes(use Use) []int64 {
	least := int64(scantySegment)
	if use == Adds {
		least = smallSegment
	}
	all := []int64{l.segSize}
	for size := l.segSize / 4; size >= least && size%blockSize == 0; size /= 4 {
		all = append(all, size)
	}
	return all
}

// diskParts is how many segments of its size must have room where one is made that
// could be smaller.
const diskParts = 8

// leastSegment is the smallest size of a segment, in octets.
const leastSegment = 16 * blockSize

// newSegment makes a segment of the largest size that can be spared, holds n
// octets of records, and leaves most of the disk to others.
func (l *Log) newSegment(number uint64, use Use, n int) (*segment, error) {
	err := fmt.Errorf("prepare journal segment: %w", unix.ENOSPC)
	free, _, e := l.dir.Free()
	if e != nil {
		free = math.MaxInt64 // to make one will show
	}
	sizes := slices.DeleteFunc(l.sizes(use), func(size int64) bool { return !holds(size, n) })
	for i, size := range sizes {
		if i < len(sizes)-1 && free/size < diskParts || l.spare != nil && !l.spare(size, use) {
			continue
		}
		seg, e := createSegment(l.dir, number, size, "")
		if !errors.Is(e, unix.ENOSPC) && !errors.Is(e, unix.EDQUOT) {
			return seg, e
		}
		err = e
	}
	return nil, err
}

// NeedsRoom tells whether err is Append's request to call Room.
func NeedsRoom(err error) bool { return err == errNoRoom }

// Room prepares the next segment, for a record of size octets at the least. It
// blocks until that is on stable storage. Of many callers one prepares it, and once
// another has gone on to it the rest find room there.
func (l *Log) Room(size int, use Use) error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	n := size + recHeader
	if l.roomy(use, n) {
		return nil
	}
	return l.prepareNext(use, n)
}

// roomy tells whether the current segment takes n octets of records for such a
// use.
func (l *Log) roomy(use Use, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := l.end
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		start = b.start + padded(len(b.buf))
	}
	return l.err == nil && start+padded(batchHeader+n)+use.leaves(l.cur.size) <= l.cur.size
}

// Short tells whether the next segment could not be made.
func (l *Log) Short() bool {
	if !l.unready.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next == nil
}

// Left returns how many octets the current segment can take.
func (l *Log) Left() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur.size - l.end
}

// Wants returns how many octets of the disk the log needs to go on beyond the
// current segment, at the least.
func (l *Log) Wants() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil || len(l.spares) > 0 {
		return 0
	}
	sizes := l.sizes(Adds)
	return sizes[len(sizes)-1]
}

// Trim removes the released segments that wait to be used again, but for one if
// the next segment is not there yet.
func (l *Log) Trim() error {
	l.mu.Lock()
	keep := 0
	if l.next == nil {
		keep = 1
	}
	var gone []string
	if len(l.spares) > keep {
		gone = append(gone, l.spares[keep:]...)
		l.spares = l.spares[:keep]
	}
	l.mu.Unlock()
	var errs []error
	for _, name := range gone {
		errs = append(errs, l.dir.Remove(name))
	}
	return errors.Join(errs...)
}
