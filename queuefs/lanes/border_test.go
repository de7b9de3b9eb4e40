package lanes_test

import (
	"runtime/debug"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cutie/queuefs/lanes"
)

// between returns n octets that begin and, but for a page not full, end at a
// page that must not be touched.
func between(t *testing.T, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	size := (n + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	for _, border := range [][]byte{m[:page], m[page+size:]} {
		if err := unix.Mprotect(border, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return m[page+size-n : page+size]
}

// Nothing is read that was not written: octets that end where the memory does
// are hashed beside others, in pieces that begin anywhere.
func TestReadsWhatWasWritten(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var wg sync.WaitGroup
	for i := range 40 {
		n := []int{8191, 8192, 8193, 8255, 8256, 65536, 65599, 262144, 300_001, 333_333}[i%10]
		p := between(t, n)
		copy(p, octets(uint64(i), n))
		wg.Go(func() {
			h := lanes.New()
			h.Write(p[:i])
			h.Write(p[i:])
			compare(t, h, p)
		})
	}
	wg.Wait()
}
