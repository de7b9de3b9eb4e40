package dump

import (
	"crypto/sha256"
	"io"
	"runtime"
	"sync"
)

// A batch prepares small files in memory, by as many goroutines as there are
// processors, and writes them in their order. Nothing runs between two
// batches.
type batch struct {
	*Package
	items []item
}

// An item is a file ready to be written.
type item struct {
	raw     []byte
	tool    Compressor
	content Content
	err     error
}

// Limits of a batch.
const (
	batchFiles  = 64
	batchOctets = 4 << 20
)

// keptMemory bounds the files whose memory is used again.
const keptMemory = 64 << 10

// fit returns how many of the first files make a batch; 0 if the first one is too large.
func fit(files []member) (n int) {
	octets := int64(0)
	for i := range files[:min(len(files), batchFiles)] {
		m := &files[i]
		if octets += m.length; m.length > storeLimit && m.text < 0 || n > 0 && octets > batchOctets {
			break
		}
		n++
	}
	return n
}

// write prepares and writes files.
func (b *batch) write(a *archive, files []member) error {
	if b.items == nil {
		b.items = make([]item, batchFiles)
	}
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), 4)
	for k := range workers {
		wg.Go(func() {
			for j := k; j < len(files); j += workers {
				b.items[j].err = b.prepare(&b.items[j], &files[j])
			}
		})
	}
	wg.Wait()
	for j := range files {
		it := &b.items[j]
		if it.err != nil {
			return it.err
		}
		if err := a.add(&it.content, files[j].number); err != nil {
			return err
		}
		if cap(it.raw) > keptMemory {
			*it = item{}
		}
	}
	return nil
}

// prepare reads a file, checks it, and makes its content.
func (b *batch) prepare(it *item, m *member) error {
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
		return b.fileError(m, ErrDamaged)
	}
	it.content, err = it.tool.Content(it.raw, m.mediaType)
	return err
}
