package durable

import (
	"math/bits"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffers for writes around the page cache lie in huge pages if the system has them:
// a buffer is one piece for the disk, one of Go's heap a list of 64 pages, and
// reading takes half the time. The memory is outside of Go's heap: a buffer has one
// owner, puts it back once and uses it no more.

// spoolBuffer is the size of a buffer, in bytes.
const spoolBuffer = hugePage / regionBuffers

const (
	hugePage      = 2 << 20
	regionBuffers = 8
)

var spoolBuffers buffers

type buffers struct {
	mu      sync.Mutex
	regions []*region
}

// A region is the buffers of one huge page. It stays mapped: a late
// reader must not crash.
type region struct {
	page []byte
	free uint8 // a bit for each buffer
	cold bool  // it takes no memory
}

// get returns a buffer of spoolBuffer bytes at the beginning of a page.
func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var cold *region
	for _, r := range b.regions {
		switch {
		case r.cold:
			cold = r
		case r.free != 0:
			return r.take()
		}
	}
	if cold == nil {
		var err error
		if cold, err = newRegion(); err != nil {
			return make([]byte, spoolBuffer) // begins at a page, too
		}
		b.regions = append(b.regions, cold)
	}
	cold.cold = false
	return cold.take()
}

// put takes a buffer back. The memory of a page without a buffer in use goes back to
// the system, unless no other page has free buffers.
func (b *buffers) put(buf []byte) {
	at := address(buf)
	b.mu.Lock()
	defer b.mu.Unlock()
	spare := 0 // buffers of other pages
	var of *region
	for _, r := range b.regions {
		if off := at - address(r.page); off < hugePage {
			r.free |= 1 << (off / spoolBuffer)
			of = r
		} else if !r.cold {
			spare += bits.OnesCount8(r.free)
		}
	}
	if of != nil && of.free == 1<<regionBuffers-1 && spare >= regionBuffers {
		of.cold = unix.Madvise(of.page, unix.MADV_DONTNEED) == nil
	}
}

// putLate is put for a buffer with a reader that may need a moment to stop.
func (b *buffers) putLate(buf []byte) {
	time.AfterFunc(late, func() { b.put(buf) })
}

const late = time.Second / 4

func newRegion() (*region, error) {
	page, _, err := MapHuge(hugePage)
	if err != nil {
		return nil, err
	}
	return &region{page: page, free: 1<<regionBuffers - 1}, nil
}

// take returns the first free buffer.
func (r *region) take() []byte {
	i := bits.TrailingZeros8(r.free)
	r.free &^= 1 << i
	return r.page[i*spoolBuffer : (i+1)*spoolBuffer : (i+1)*spoolBuffer]
}

// MapHuge returns size bytes of huge pages, or of small ones on a system without
// them, and the mapping they lie in, for munmap. They take no memory before they
// are written to.
func MapHuge(size int) (mem, mapped []byte, err error) {
	mapped, err = unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	to := int(-address(mapped) % hugePage)
	mem = mapped[to : to+size : to+size]
	unix.Madvise(mem, unix.MADV_HUGEPAGE) // fails on a system without huge pages
	return mem, mapped, nil
}

func address(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }
