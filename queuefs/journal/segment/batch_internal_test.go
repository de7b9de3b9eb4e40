package segment

import (
	"testing"
)

func TestBuffersGrow(t *testing.T) {
	var b buffers
	fill := func(size, step int) []byte {
		var buf []byte
		for len(buf) < size {
			from := len(buf)
			buf = b.grow(buf, min(step, size-from))
			for i := range buf[from:] {
				buf[from+i] = byte((from + i) * 31 >> 5)
			}
		}
		for i := range buf {
			if buf[i] != byte(i*31>>5) {
				t.Fatalf("byte %d of %d was lost when the buffer grew by %d", i, size, step)
			}
		}
		return buf
	}
	b.put(fill(100, 10))
	b.put(fill(directBatch, 1<<10))
	if len(b.mapped) != 0 {
		t.Error("a batch that goes through the page cache got a huge page")
	}
	b.put(fill(directBatch+1, 1<<10))
	b.put(fill(maxBatch, 100_000))
	if len(b.mapped) != 1 || len(b.large) != 1 {
		t.Errorf("two large batches, one after the other, took %d large buffers of which %d are left", len(b.mapped), len(b.large))
	}
	if one := b.grow(nil, batchHeader); len(b.large) != 0 {
		t.Error("the batch after a large one begins in a small buffer")
	} else {
		b.put(one)
	}
	if b.outgrew {
		t.Error("the batch after a small one is to begin in a large buffer")
	}
	b.put(fill(largeBuffer+1, 1<<20))
	if len(b.mapped) != 1 {
		t.Errorf("a record beyond all buffers is kept: %d large ones", len(b.mapped))
	}
	many := [][]byte{fill(maxBatch, 1<<20), fill(maxBatch, 1<<20), fill(maxBatch, 1<<20)}
	for _, buf := range many[:2] {
		b.put(buf)
	}
	b.close()
	if b.put(many[2]); len(b.mapped) != 0 || len(b.large) != 0 {
		t.Errorf("%d large buffers stay mapped after close", len(b.mapped))
	}
}

// Current returns the number of the segment that is written.
func (l *Log) Current() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur().number
}

// Begins returns the segment and the offset of a record.
func (l *Log) Place(i int) (number uint64, off int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.live {
		if i < len(s.records) {
			return s.number, int(s.records[i].off)
		}
		i -= len(s.records)
	}
	panic("no such record")
}
