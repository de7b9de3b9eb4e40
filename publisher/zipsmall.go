package publisher

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
)

// What costs time in a package of small bitstreams is not their octets but
// that there are so many: each is opened, checked and compressed by itself. A
// few dozen at a time are made ready in memory by as many goroutines as there
// are processors, and then written in their order. Between two such batches
// nothing runs.

// A bench is where bitstreams are made ready.
type bench struct {
	*task
	*parcel
	items []item
	tools []*flate.Writer // one for each goroutine
}

// An item is a bitstream ready to be written.
type item struct {
	raw    []byte
	packed bytes.Buffer
	crc    uint32
	err    error
}

// A batch has at most so many bitstreams, and octets.
const (
	batchStreams = 64
	batchOctets  = 4 << 20
)

// keptMemory is how large a bitstream may be whose memory is used again.
const keptMemory = 64 << 10

// fit returns how many bitstreams, from i on, make a batch; 0 if that is too
// large for one.
func (b *bench) fit(i int) (n int) {
	octets := int64(0)
	for _, s := range b.streams[i:min(i+batchStreams, len(b.streams))] {
		if octets += s.length; s.length > storeLimit || n > 0 && octets > batchOctets {
			break
		}
		n++
	}
	return n
}

// zip makes n bitstreams ready, from i on, and writes them.
func (b *bench) zip(zw *zip.Writer, i, n int) error {
	if b.tools == nil {
		b.items = make([]item, batchStreams)
		b.tools = make([]*flate.Writer, min(runtime.GOMAXPROCS(0), 4))
	}
	for _, s := range b.streams[i : i+n] {
		if s.payload {
			b.ahead(s.job)
			break
		}
	}
	var wg sync.WaitGroup
	for k := range b.tools {
		wg.Go(func() {
			for j := k; j < n; j += len(b.tools) {
				b.items[j].err = b.ready(&b.items[j], &b.streams[i+j], k)
			}
		})
	}
	wg.Wait()
	for j := range n {
		if err := b.items[j].err; err != nil {
			return err
		}
		if err := b.items[j].write(zw, streamName(i+j+1)); err != nil {
			return err
		}
		if cap(b.items[j].raw) > keptMemory {
			b.items[j] = item{}
		}
	}
	return nil
}

// ready reads a bitstream, checks it and compresses it, unless it would not
// shrink. Its memory is used again.
func (b *bench) ready(it *item, s *bitstream, tool int) error {
	it.packed.Reset()
	if int64(cap(it.raw)) < s.length {
		it.raw = make([]byte, s.length)
	}
	it.raw = it.raw[:s.length]
	r, err := b.openStream(b.parcel, s)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(r, it.raw)
	r.Close()
	if err != nil {
		return err
	}
	if sha256.Sum256(it.raw) != s.sha256 {
		return b.damaged(s)
	}
	it.crc = crc32.ChecksumIEEE(it.raw)
	if s.store {
		return nil
	}
	w := b.tools[tool]
	if w == nil {
		if w, err = flate.NewWriter(&it.packed, flate.BestSpeed); err != nil {
			return err
		}
		b.tools[tool] = w
	}
	w.Reset(&it.packed)
	w.Write(it.raw) // a Buffer takes everything
	w.Close()
	if it.packed.Len() >= len(it.raw) {
		it.packed.Reset()
	}
	return nil
}

func (it *item) write(zw *zip.Writer, name string) error {
	h, data := zipHeader(name, zip.Store), it.raw
	if it.packed.Len() > 0 {
		h.Method, data = zip.Deflate, it.packed.Bytes()
	}
	h.CRC32 = it.crc
	h.CompressedSize64, h.UncompressedSize64 = uint64(len(data)), uint64(len(it.raw))
	w, err := zw.CreateRaw(h)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}
