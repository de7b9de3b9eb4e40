package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
)

// Position is a place in a [Log]: the number of a segment and the offset in
// it, 38 and 26 bits. The zero Position is nowhere.
type Position uint64

func position(number uint64, off int64) Position { return Position(number<<26 + uint64(off)) }

// Segment returns the number of the segment.
func (p Position) Segment() uint64 { return uint64(p) >> 26 }

func (p Position) offset() int64 { return int64(p & (1<<26 - 1)) }

// Add returns the position n octets further on in the same segment.
func (p Position) Add(n int) Position { return p + Position(n) }

// MaxSegment is the largest size of a segment, in octets.
const MaxSegment = 1 << 26

// ErrFailed is what every call answers once a write or sync has failed: what
// is on storage is then unknown until the log is opened again.
var ErrFailed = errors.New("journal failed")

// ErrReleased says that a position is in a segment that was let go.
var ErrReleased = errors.New("journal segment released")

// ErrTooLarge says that a record is larger than [Log.MaxAppend].
var ErrTooLarge = errors.New("record larger than half a journal segment")

// A Mark is a place between two batches.
type Mark struct {
	At    Position
	Batch uint64 // number of the batch that follows
}

// A Log is an append-only journal in a directory. Records appended by
// concurrent callers share one write and one fdatasync. A Log is safe for
// concurrent use.
type Log struct {
	dir     *durable.Dir
	segSize int64

	mu      sync.Mutex
	live    map[uint64]*segment
	cur     *segment
	next    *segment // prepared; nil if not
	end     int64    // where the next batch begins in cur
	number  uint64   // of the next batch
	queue   []*Batch // not yet written, in order; the last one still gathers
	running bool     // somebody commits
	crowd   bool     // the last batch was of several callers: this one may be, too
	err     error    // final
	spares  []string
	bufs    buffers
	done    Mark
	first   Mark // where the first batch that was replayed begins

	unready atomic.Bool  // the last attempt to prepare a segment failed: the next is Room's
	written atomic.Int64 // octets of batches since opening
	syncs   atomic.Int64 // of batches since opening
	syncing atomic.Int64 // nanoseconds they took

	prepare sync.Mutex // held while a segment is being prepared
	spare   func(octets int64, use Use) bool

	releasing sync.Mutex
	gone      []*segment // let go, but still under their names
	wg        sync.WaitGroup
}

// An Op is told what became of a record. Both methods are called once at the
// most, in the order of the log, by whoever commits; they must not call the
// log.
type Op interface {
	Committed() // the record is on stable storage
	Lost(error) // the log has failed; the outcome is unknown
}

// largeBatch is from where on a batch waits for nobody: the disk has enough to
// do with it.
const largeBatch = 256 << 10

// MaxAppend returns how many octets one Append may take.
func (l *Log) MaxAppend() int { return int(l.segSize/2) - blockSize }

// Append adds a record of size octets to the batch that gathers. fill is
// called at once with the place to write to and the position it will have.
// Nothing is durable until [Log.Commit] of the batch returns nil. If the next
// segment is not ready, or too small, the error tells the caller to call
// [Log.Room] without its locks, then again: early for a use that leaves the end of
// the last segment to others.
func (l *Log) Append(size int, use Use, op Op, fill func(dst []byte, at Position)) (*Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if size > l.MaxAppend() {
		return nil, fmt.Errorf("%w: %d octets", ErrTooLarge, size)
	}
	b, err := l.gathering(size+recHeader, use)
	if err != nil {
		return nil, err
	}
	at := len(b.buf)
	b.buf = l.bufs.grow(b.buf, recHeader+size)
	binary.LittleEndian.PutUint32(b.buf[at:], uint32(size))
	fill(b.buf[at+recHeader:], position(b.seg.number, b.start+int64(at+recHeader)))
	b.count++
	b.ops = append(b.ops, op)
	return b, nil
}

// gathering returns the batch that takes n more octets.
func (l *Log) gathering(n int, use Use) (*Batch, error) {
	seg, start := l.cur, l.end
	size := seg.size
	if l.next == nil {
		size -= use.leaves(size)
	}
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		if len(b.buf)+n <= maxBatch && b.start+padded(len(b.buf)+n) <= size {
			return b, nil
		}
		start = b.start + padded(len(b.buf))
	}
	if start+padded(batchHeader+n) > size {
		if l.next == nil || !holds(l.next.size, n) {
			return nil, errNoRoom
		}
		seg, start = l.next, blockSize
		l.cur, l.next = seg, nil
		l.live[seg.number] = seg
	} else if l.next == nil && !l.unready.Load() && start > seg.size/prepareAfter {
		l.prepareSoon()
	}
	b := &Batch{seg: seg, start: start, buf: l.bufs.grow(nil, batchHeader), done: make(chan struct{})}
	l.end = start // of the newest batch; its length is added when it is taken
	l.queue = append(l.queue, b)
	return b, nil
}

// Commit returns when the batch is on stable storage and its operations have
// been told. The first caller that finds nobody committing does it itself, so
// that a lone caller waits for no other goroutine.
func (l *Log) Commit(b *Batch) error {
	l.mu.Lock()
	if l.running || b.over() {
		l.mu.Unlock()
	} else {
		l.running = true
		if l.err == nil { // else nothing is written, and Close may be over
			l.wg.Add(1)
			defer l.wg.Done()
		}
		l.mu.Unlock()
		l.run(b)
	}
	<-b.done
	return b.err
}

// run commits batch after batch. Once mine is done and more has gathered,
// another goroutine goes on, so that the caller gets its answer.
func (l *Log) run(mine *Batch) {
	for {
		l.mu.Lock()
		if l.crowd && len(l.queue) == 1 && len(l.queue[0].buf) < largeBatch {
			// Whoever is about to append does so now, and is spared a sync of its own.
			l.mu.Unlock()
			runtime.Gosched()
			l.mu.Lock()
		}
		if len(l.queue) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		b := l.queue[0]
		l.queue = append(l.queue[:0], l.queue[1:]...)
		failed := l.err
		b.size = len(b.buf)
		b.buf = l.bufs.pad(b.buf)
		l.crowd = len(b.ops) > 1
		number := l.number
		l.number++
		if len(l.queue) == 0 {
			l.end = b.start + int64(len(b.buf))
		}
		l.mu.Unlock()

		if failed == nil {
			failed = l.write(b, number)
		}
		for _, op := range b.ops {
			if failed == nil {
				op.Committed()
			} else {
				op.Lost(failed)
			}
		}
		l.mu.Lock()
		b.err = failed
		if failed != nil && l.err == nil {
			l.err = failed
		}
		if failed == nil {
			l.done = Mark{At: position(b.seg.number, b.start+int64(len(b.buf))), Batch: number + 1}
			l.written.Add(int64(len(b.buf)))
		}
		l.bufs.put(b.buf)
		b.buf = nil
		more := len(l.queue) > 0
		if !more {
			l.running = false
		}
		l.mu.Unlock()
		close(b.done)
		if !more {
			return
		}
		if mine != nil && mine.over() {
			l.wg.Add(1)
			go func() { defer l.wg.Done(); l.run(nil) }()
			return
		}
	}
}

// write puts a batch on stable storage. This is the commit point of every
// operation.
func (l *Log) write(b *Batch, number uint64) error {
	le := binary.LittleEndian
	le.PutUint32(b.buf[0:], batchMagic)
	le.PutUint32(b.buf[8:], uint32(b.size))
	le.PutUint32(b.buf[12:], b.count)
	le.PutUint64(b.buf[16:], number)
	le.PutUint32(b.buf[4:], seeded(b.seg.number, b.seg.salt, b.buf[8:b.size]))
	err := l.dir.Step("journal write", func() error {
		return b.seg.writeAt(b.buf, b.start)
	})
	if err == nil {
		began := time.Now()
		err = l.dir.Step("journal sync", func() error { return fdatasync(b.seg.f) })
		l.syncing.Add(int64(time.Since(began)))
		l.syncs.Add(1)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

// Syncs returns how often the log was synced for the batches it was given since
// it was opened, and how long that took in all.
func (l *Log) Syncs() (n int64, took time.Duration) {
	return l.syncs.Load(), time.Duration(l.syncing.Load())
}

// ReadAt fills p from position at. The error is [ErrReleased] if the segment
// was let go before or meanwhile.
func (l *Log) ReadAt(p []byte, at Position) error {
	l.mu.Lock()
	s := l.live[at.Segment()]
	l.mu.Unlock()
	if s == nil {
		return ErrReleased
	}
	_, err := s.f.ReadAt(p, at.offset())
	l.mu.Lock()
	still := l.live[at.Segment()] == s
	l.mu.Unlock()
	if !still {
		return ErrReleased
	}
	return err
}

// Available returns how many octets from at are in the same segment, 0 if
// that was let go.
func (l *Log) Available(at Position) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.live[at.Segment()]; s != nil {
		return s.size - at.offset()
	}
	return 0
}

// Committed returns how many octets from at on are in the same segment and do not
// change any more, 0 if it was let go.
func (l *Log) Committed(at Position) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, end := l.live[at.Segment()], l.done.At
	switch {
	case s == nil || end <= at:
		return 0
	case end.Segment() > at.Segment():
		return int(s.size - at.offset())
	}
	return int(end - at)
}

// First returns the place of the first batch that was replayed when the log was
// opened, the zero Mark if there was none.
func (l *Log) First() Mark { return l.first }

// Done returns the place behind the last batch that was committed and told.
func (l *Log) Done() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// Written returns the octets committed since the log was opened.
func (l *Log) Written() int64 { return l.written.Load() }

// Err returns why the log takes no more records, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close waits for what is being written and closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.err == nil {
		l.err = errors.New("journal closed")
	}
	l.mu.Unlock()
	l.wg.Wait()
	l.prepare.Lock()
	defer l.prepare.Unlock()
	var errs []error
	for _, s := range l.live {
		errs = append(errs, s.close())
	}
	if l.next != nil {
		errs = append(errs, l.next.close())
	}
	l.mu.Lock()
	l.bufs.close()
	l.mu.Unlock()
	return errors.Join(errs...)
}
