package dump

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

// A batch prepares small files in memory, by as many goroutines as there are
// processors, and writes them in their order. Nothing runs between two
// batches.
type batch struct {
	*Package
	items []item
	tools []*flate.Writer // one for each goroutine
}

// An item is a file ready to be written.
type item struct {
	raw    []byte
	packed bytes.Buffer
	crc    uint32
	err    error
}

// Limits of a batch.
const (
	batchFiles  = 64
	batchOctets = 4 << 20
)

// keptMemory bounds the files whose memory is used again.
const keptMemory = 64 << 10

// fit returns how many files from i on make a batch; 0 if that file is too
// large for one.
func (b *batch) fit(i int) (n int) {
	octets := int64(0)
	for _, m := range b.files[i:min(i+batchFiles, len(b.files))] {
		if octets += m.length; m.length > storeLimit || n > 0 && octets > batchOctets {
			break
		}
		n++
	}
	return n
}

// write prepares and writes n files from i on.
func (b *batch) write(zw *zip.Writer, i, n int) error {
	if b.tools == nil {
		b.items = make([]item, batchFiles)
		b.tools = make([]*flate.Writer, min(runtime.GOMAXPROCS(0), 4))
	}
	var wg sync.WaitGroup
	for k := range b.tools {
		wg.Go(func() {
			for j := k; j < n; j += len(b.tools) {
				b.items[j].err = b.prepare(&b.items[j], &b.files[i+j], k)
			}
		})
	}
	wg.Wait()
	for j := range n {
		if err := b.items[j].err; err != nil {
			return err
		}
		if err := b.items[j].write(zw, memberName(i+j+1)); err != nil {
			return err
		}
		if cap(b.items[j].raw) > keptMemory {
			b.items[j] = item{}
		}
	}
	return nil
}

// prepare reads a file, checks it, and compresses it unless it would not
// shrink.
func (b *batch) prepare(it *item, m *member, tool int) error {
	it.packed.Reset()
	if int64(cap(it.raw)) < m.length {
		it.raw = make([]byte, m.length)
	}
	it.raw = it.raw[:m.length]
	r, err := b.open(m)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(r, it.raw)
	r.Close()
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if err != nil || sha256.Sum256(it.raw) != m.sha256 {
		return b.fileError(m, errDamaged)
	}
	it.crc = crc32.ChecksumIEEE(it.raw)
	if m.store {
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
	h, data := Header(name, zip.Store), it.raw
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
