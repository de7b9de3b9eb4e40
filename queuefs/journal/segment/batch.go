package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// A batch is a group of records with one write and one sync.
type batch struct {
	log          *Log
	seg          *segment
	start        int64
	first, after journal.LSN // numbers of the first record and of the next batch
	buf          []byte
	size         int // of buf without the padding, once taken
	callers      int
	verify       bool // read it back after the sync
	done         chan struct{}
	err          error
}

// add adds a record to the batch and to the table of the segment.
func (b *batch) add(bufs *buffers, r journal.Contents) {
	at := len(b.buf)
	b.buf = bufs.grow(b.buf, recHeader+r.Size())
	binary.LittleEndian.PutUint32(b.buf[at:], uint32(r.Size()))
	at += recHeader
	b.verify = b.verify || r.Verify
	copy(b.buf[at:], r.Head)
	copy(b.buf[at+len(r.Head):], r.Body)
	b.seg.records = append(b.seg.records, extent{uint32(b.start) + uint32(at), uint32(r.Size())})
}

var errReadBack = errors.New("other bytes came back than were written")

var readBlocks = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// linked returns an error if a file has no name any more: what was written to it is gone
// once it is closed, whatever the sync said.
func linked(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Nlink == 0 {
		return fmt.Errorf("%s was removed by other programs, and perhaps all of the home", f.Name())
	}
	return nil
}

// readTries is how often a batch is read back if that fails: a failed reading says nothing
// of what was written.
const readTries = 3

// readBack compares the batch on storage, which is synced, with the one in memory.
func (b *batch) readBack(step func(string, func() error) error) (err error) {
	for range readTries {
		err = step("journal read back", b.compare)
		if err == nil || errors.Is(err, errReadBack) {
			break
		}
	}
	return err
}

func (b *batch) compare() error {
	durable.Uncache(b.seg.f, b.start, b.start+int64(b.size))
	block := readBlocks.Get().(*[64 << 10]byte)
	defer readBlocks.Put(block)
	for at := 0; at < b.size; at += len(block) {
		want := b.buf[at:min(at+len(block), b.size)]
		if _, err := b.seg.f.ReadAt(block[:len(want)], b.start+int64(at)); err != nil {
			return err
		}
		if !bytes.Equal(block[:len(want)], want) {
			return fmt.Errorf("%s: %w", b.seg.f.Name(), errReadBack)
		}
	}
	return nil
}

// over reports whether the batch is committed or lost.
func (b *batch) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// maxBatch is where a batch stops gathering; one single Append may be larger.
const maxBatch = 4 << 20

// directBatch is the least size in bytes of a batch written around the page cache:
// it is mostly payload, the files of the jobs will hold the same bytes, and the
// pages would cost more than the disk does.
const directBatch = 512 << 10

// largeBuffer is the size in bytes of their buffers.
const largeBuffer = 2 * maxBatch

// keptSmall and keptLarge are how many buffers wait for the next batches.
const (
	keptSmall = 3
	keptLarge = 2
)

// buffers are the memory of batches: Go's for small ones, huge pages for batches
// written around the page cache.
type buffers struct {
	small, large [][]byte         // free; the largest small one is last
	mapped       map[*byte][]byte // the mapping of each large buffer
	outgrew      bool             // the last batch was large, so the next begins in a large buffer
	closed       bool
}

// grow returns buf with n more bytes of any value.
func (b *buffers) grow(buf []byte, n int) []byte {
	if cap(buf)-len(buf) >= n {
		return buf[:len(buf)+n]
	}
	to := append(b.get(cap(buf), len(buf)+n), buf...)
	b.keep(buf)
	return to[:len(to)+n]
}

// get returns an empty buffer for n bytes, in place of one of size bytes.
func (b *buffers) get(size, n int) []byte {
	switch k := len(b.small); {
	case n > largeBuffer:
		return make([]byte, 0, padded(n))
	case n > directBatch, size == 0 && b.outgrew:
		b.outgrew = true
		return b.getLarge()
	case k > 0 && n <= cap(b.small[k-1]):
		buf := b.small[k-1]
		b.small = b.small[:k-1]
		return buf
	}
	return make([]byte, 0, max(min(2*size, directBatch), int(padded(n)), 1<<16))
}

func (b *buffers) getLarge() []byte {
	if k := len(b.large); k > 0 {
		buf := b.large[k-1]
		b.large = b.large[:k-1]
		return buf
	}
	mem, mapped, err := durable.MapHuge(largeBuffer)
	if err != nil {
		return make([]byte, 0, largeBuffer)
	}
	if b.mapped == nil {
		b.mapped = map[*byte][]byte{}
	}
	b.mapped[unsafe.SliceData(mem)] = mapped
	return mem[:0]
}

// put takes back the buffer of a batch.
func (b *buffers) put(buf []byte) {
	b.outgrew = len(buf) > directBatch
	b.keep(buf)
}

func (b *buffers) keep(buf []byte) {
	if cap(buf) == 0 {
		return
	}
	at := unsafe.SliceData(buf)
	switch mapped := b.mapped[at]; {
	case mapped == nil && cap(buf) <= directBatch:
		b.small = append(b.small, buf[:0])
		slices.SortFunc(b.small, func(x, y []byte) int { return cap(x) - cap(y) })
		b.small = b.small[max(0, len(b.small)-keptSmall):]
	case mapped != nil && len(b.large) < keptLarge && !b.closed:
		b.large = append(b.large, buf[:0])
	case mapped != nil:
		delete(b.mapped, at)
		unix.Munmap(mapped)
	}
}

// close gives back the free buffers; the others follow when they are put.
func (b *buffers) close() {
	b.closed = true
	for _, buf := range b.large {
		b.keep(buf)
	}
	b.large = nil
}

func padded(n int) int64 { return int64(n+blockSize-1) &^ (blockSize - 1) }

// pad fills buf with zeros up to a block.
func (b *buffers) pad(buf []byte) []byte {
	n := len(buf)
	buf = b.grow(buf, int(padded(n))-n)
	clear(buf[n:])
	return buf
}
