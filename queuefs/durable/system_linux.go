package durable

import (
	"errors"
	"math/bits"
	"os"
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

// Allocate makes the file name, which takes size bytes of the disk and has no
// contents of use. It is not synced. The error is [fs.ErrExist] if the name is taken.
func (d *Dir) Allocate(name string, size int64) error {
	if err := d.enter(name); err != nil {
		return err
	}
	defer d.release()
	fd, err := openat(d.at(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, d.fileMode())
	if err != nil {
		return d.pathError("create", name, err)
	}
	defer unix.Close(fd)
	if err := d.fault.run("allocate", func() error { return unix.Fallocate(fd, 0, 0, size) }); err != nil {
		return errors.Join(d.pathError("allocate", name, err), d.Remove(name))
	}
	return nil
}

// uncounted is the number of free files on a file system without a count of them.
const uncounted = 1 << 50

// Free returns how many bytes, and how many files, the file system of d has room
// for.
func (d *Dir) Free() (bytes, files int64, err error) {
	if err := d.hold(); err != nil {
		return 0, 0, err
	}
	defer d.release()
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(d.at(), &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return 0, 0, d.pathError("statfs", ".", err)
		}
	}
	files = uncounted
	if st.Files > 0 {
		files = int64(min(st.Ffree, uncounted))
	}
	return freeIn(&st), files, nil
}

// freeIn leaves out the space kept for the administrator, also for one: some file
// systems count space there they give to nobody.
func freeIn(st *unix.Statfs_t) int64 { return int64(st.Bavail) * int64(st.Bsize) }

// Uncache has the system forget the bytes from an offset up to another one, whole pages
// only, if they are on the disk: the next reading is one of the disk, unless somebody else
// reads the file as well. It promises nothing.
func Uncache(f *os.File, from, to int64) {
	const page = 4096
	from, to = from/page*page, (to+page-1)/page*page
	_ = unix.Fadvise(int(f.Fd()), from, to-from, unix.FADV_DONTNEED)
}
