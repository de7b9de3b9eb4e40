package durable

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestBuffersDoNotOverlapAndGoBackToTheSystem(t *testing.T) {
	var b buffers
	var got [][]byte
	for i := range 3 * regionBuffers {
		buf := b.get()
		if len(buf) != spoolBuffer || cap(buf) != spoolBuffer {
			t.Fatalf("buffer %d has %d octets and room for %d", i, len(buf), cap(buf))
		}
		if address(buf)%block != 0 {
			t.Errorf("buffer %d begins at %#x", i, address(buf))
		}
		for k := range buf {
			buf[k] = byte(i + 1)
		}
		got = append(got, buf)
	}
	for i, buf := range got {
		if n := bytes.Count(buf, []byte{byte(i + 1)}); n != len(buf) {
			t.Errorf("buffer %d: %d octets of %d are its own", i, n, len(buf))
		}
	}
	if len(b.regions) != 3 {
		t.Fatalf("%d huge pages for %d buffers", len(b.regions), len(got))
	}
	for _, buf := range got[:2*regionBuffers] {
		b.put(buf)
	}
	if n := warm(&b); n != 2 {
		t.Errorf("%d huge pages after two of three are free, want the one in use and one to spare", n)
	}
	if n := bytes.Count(got[0], []byte{0}) + bytes.Count(got[regionBuffers], []byte{0}); n != spoolBuffer {
		t.Errorf("%d octets of two pages are free, of which one is to be", n)
	}
	last := got[len(got)-1]
	if n := bytes.Count(last, []byte{3 * regionBuffers}); n != len(last) {
		t.Errorf("a buffer in use changed when others were put back")
	}
	for _, buf := range got[2*regionBuffers:] {
		b.put(buf[:0]) // whatever its length
	}
	if n := warm(&b); n != 1 {
		t.Errorf("%d huge pages take memory when nothing is in use, want one", n)
	}
	for i, r := range b.regions {
		if r.free != 1<<regionBuffers-1 {
			t.Errorf("of page %d not all is free: %b", i, r.free)
		}
	}
	one := b.get()
	b.put(make([]byte, spoolBuffer)) // of the heap, when nothing could be mapped
	for range 3 * regionBuffers {
		if buf := b.get(); address(buf) == address(one) {
			t.Fatal("a buffer of the heap was taken for one of a huge page")
		}
	}
}

// warm returns how many pages take memory.
func warm(b *buffers) (n int) {
	for _, r := range b.regions {
		if !r.cold {
			n++
		}
	}
	return n
}

// A burst that ends and begins again maps nothing anew.
func TestBuffersAtTheEdgeOfAPage(t *testing.T) {
	var b buffers
	for range regionBuffers {
		b.get()
	}
	more := b.get()
	second := b.regions[1]
	for range 10 {
		if b.put(more); second.cold {
			t.Fatal("a page went back to the system while no other buffer was free")
		}
		more = b.get()
	}
	if len(b.regions) != 2 {
		t.Errorf("%d pages", len(b.regions))
	}
}

// Of one who gave up in the middle of an answer something may still read the
// buffer: HTTP/2 writes from another goroutine.
func TestBufferOfAFailedWriteIsNotUsedAgainAtOnce(t *testing.T) {
	dir, err := OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s, err := dir.Spool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := bytes.Repeat([]byte("payload "), spoolBuffer/8)
	if _, err := s.Write(want); err != nil {
		t.Fatal(err)
	}
	f, err := s.File()
	if err != nil {
		t.Fatal(err)
	}
	w := &failing{}
	if _, err := CopyOnce(w, f); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	other := spoolBuffers.get()
	defer spoolBuffers.put(other)
	clear(other)
	if len(w.late) == 0 || !bytes.Equal(w.late, want[:len(w.late)]) {
		t.Error("the buffer of a write that failed was given to another")
	}
}

type failing struct{ late []byte }

func (w *failing) Write(p []byte) (int, error) {
	w.late = p
	return 0, io.ErrClosedPipe
}
