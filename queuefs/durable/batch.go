package durable

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A Batch is a group of records that reach stable storage together.
type Batch struct {
	seg   *segment
	start int64
	buf   []byte
	size  int // of buf without the padding, once taken
	count uint32
	ops   []Op
	done  chan struct{}
	err   error
}

// over tells whether the batch has been committed or lost.
func (b *Batch) over() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// maxBatch is where a batch stops gathering; one single Append may be larger.
const maxBatch = 4 << 20

// directBatch is the size from which a batch goes around the page cache: what
// is as large is mostly payload, which its file will hold, and the pages would
// cost more than the disk does.
const directBatch = 512 << 10

// largeBuffer is the size of the buffers for such batches.
const largeBuffer = 2 * maxBatch

// batchBuffers are what batches are gathered in: of Go's heap those that stay
// small, in huge pages those that go around the page cache. Those that are not
// in use are kept as far as the next batches want them.
type batchBuffers struct {
	small, large [][]byte           // of small ones the largest is last
	mapped       map[uintptr][]byte // what large buffers, also those in use, lie in
	outgrew      bool               // the last batch was large: so will be the next
	closed       bool
}

// grow returns buf with n more octets, whatever they are.
func (b *batchBuffers) grow(buf []byte, n int) []byte {
	if cap(buf)-len(buf) >= n {
		return buf[:len(buf)+n]
	}
	to := append(b.get(cap(buf), len(buf)+n), buf...)
	b.keep(buf)
	return to[:len(to)+n]
}

// get returns an empty buffer for n octets, which outgrow one of size octets.
func (b *batchBuffers) get(size, n int) []byte {
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

func (b *batchBuffers) getLarge() []byte {
	if k := len(b.large); k > 0 {
		buf := b.large[k-1]
		b.large = b.large[:k-1]
		return buf
	}
	mem, mapped, err := mapHuge(largeBuffer)
	if err != nil {
		return make([]byte, 0, largeBuffer)
	}
	if b.mapped == nil {
		b.mapped = map[uintptr][]byte{}
	}
	b.mapped[address(mem)] = mapped
	return mem[:0]
}

// put takes back the buffer of a batch that is over.
func (b *batchBuffers) put(buf []byte) {
	b.outgrew = len(buf) > directBatch
	b.keep(buf)
}

func (b *batchBuffers) keep(buf []byte) {
	if cap(buf) == 0 {
		return
	}
	at := address(buf)
	switch mapped := b.mapped[at]; {
	case mapped == nil && cap(buf) <= directBatch:
		b.small = append(b.small, buf[:0])
		slices.SortFunc(b.small, func(x, y []byte) int { return cap(x) - cap(y) })
		b.small = b.small[max(0, len(b.small)-3):]
	case mapped != nil && len(b.large) < 2 && !b.closed:
		b.large = append(b.large, buf[:0])
	case mapped != nil:
		delete(b.mapped, at)
		unix.Munmap(mapped)
	}
}

// close gives back what is not in use; the rest follows when it is put.
func (b *batchBuffers) close() {
	b.closed = true
	for _, buf := range b.large {
		b.keep(buf)
	}
	b.large = nil
}

func padded(n int) int64 { return int64(n+blockSize-1) &^ (blockSize - 1) }

// pad fills buf with zeros up to a block.
func (b *batchBuffers) pad(buf []byte) []byte {
	n := len(buf)
	buf = b.grow(buf, int(padded(n))-n)
	clear(buf[n:])
	return buf
}
