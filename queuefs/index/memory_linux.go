package index

import "golang.org/x/sys/unix"

// newSlots returns zeroed memory for n slots. Those of a whole page are not on the heap
// of the garbage collector: with the 96 MB of a million jobs the heap would grow to
// twice its size before each collection.
func newSlots(n int) []byte {
	if n < PageJobs {
		return make([]byte, n*slotSize)
	}
	b, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, pageSize, pageSize+1) // the odd capacity marks it
	}
	return b
}

func freeSlots(b []byte) {
	if cap(b) == pageSize {
		unix.Munmap(b)
	}
}
