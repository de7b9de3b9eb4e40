package segment

import (
	"io"
	"iter"
	"os"
	"slices"
	"sync"

	"cutie/queuefs/journal"
)

// find returns the segment and the place of a durable record; l.mu is held.
func (l *Log) find(at journal.LSN) (*segment, extent, error) {
	i := l.segmentOf(at)
	switch {
	case i < 0:
		return nil, extent{}, journal.ErrReleased
	case at >= l.durable:
		return nil, extent{}, journal.ErrNoRecord
	}
	s := l.live[i]
	if k := s.search(at); k < len(s.records) && s.records[k].off != 0 && s.lsn(k) == at {
		return s, s.records[k], nil
	}
	return nil, extent{}, journal.ErrNoRecord
}

// segmentOf returns the last segment whose first record is at or an earlier one, -1
// if there is none; l.mu is held.
func (l *Log) segmentOf(at journal.LSN) int {
	i := len(l.live) - 1
	for i >= 0 && l.live[i].first > at {
		i--
	}
	return i
}

// ReadAt is [journal.Journal.ReadAt].
func (l *Log) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	l.mu.Lock()
	s, x, err := l.find(at)
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := min(len(p), max(int(x.size)-off, 0))
	if err := l.read(s, p[:n], int64(x.off)+int64(off)); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read fills p from a segment, unless it was released before or meanwhile.
func (l *Log) read(s *segment, p []byte, off int64) error {
	_, err := s.f.ReadAt(p, off)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.live, s) {
		return journal.ErrReleased
	}
	return err
}

// readBlock is how many bytes Read reads at a time.
const readBlock = 256 << 10

// Read is [journal.Journal.Read].
func (l *Log) Read(from journal.LSN) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		l.mu.Lock()
		if len(l.live) == 0 { // to look at, and nobody has made one
			l.mu.Unlock()
			return
		}
		if from == 0 {
			from = l.live[0].first
		}
		first, until := l.segmentOf(from), l.durable
		live := slices.Clone(l.live[max(first, 0):])
		tables := make([][]extent, len(live))
		for i, s := range live {
			tables[i] = s.records
		}
		l.mu.Unlock()
		if first < 0 {
			yield(journal.Record{}, journal.ErrReleased)
			return
		}
		buf := readMemory.Get().(*[]byte)
		defer readMemory.Put(buf)
		for i, s := range live {
			if !l.readSegment(s.view(tables[i]), s, from, until, buf, yield) {
				return
			}
		}
	}
}

// view returns the segment with the table it had at some instant.
func (s *segment) view(table []extent) *segment {
	return &segment{number: s.number, first: s.first, records: table}
}

// readMemory is of calls of Read: each needs a large one for a moment.
var readMemory = sync.Pool{New: func() any { return new([]byte) }}

// readSegment yields the records of one segment as its table v lists them. It
// returns false when there is nothing more to yield.
func (l *Log) readSegment(v, s *segment, from, until journal.LSN, mem *[]byte, yield func(journal.Record, error) bool) bool {
	for i := v.search(from); i < len(v.records) && v.lsn(i) < until; {
		if v.records[i].off == 0 {
			i++ // lost
			continue
		}
		begin, k := int64(v.records[i].off), i+1
		for k < len(v.records) && v.lsn(k) < until && v.records[k].off != 0 && v.records[k].end()-begin <= readBlock {
			k++
		}
		n := int(v.records[k-1].end() - begin)
		buf := slices.Grow((*mem)[:0], n)[:n]
		if cap(buf) <= 2*readBlock {
			*mem = buf
		}
		if err := l.read(s, buf, begin); err != nil {
			yield(journal.Record{}, err)
			return false
		}
		for ; i < k; i++ {
			x := v.records[i]
			if !yield(journal.Record{LSN: v.lsn(i), Data: buf[int64(x.off)-begin : x.end()-begin : x.end()-begin]}, nil) {
				return false
			}
		}
	}
	return true
}

// An ahead reads a file from front to back, readBlock bytes at a time: most of a
// segment may be empty blocks.
type ahead struct {
	f   *os.File
	off int64  // of buf
	buf []byte // part of the file
}

// ReadAt is [io.ReaderAt], for one caller at a time.
func (r *ahead) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > readBlock {
		return r.f.ReadAt(p, off)
	}
	if off < r.off || off+int64(len(p)) > r.off+int64(len(r.buf)) {
		r.buf = slices.Grow(r.buf[:0], readBlock)[:readBlock]
		n, err := r.f.ReadAt(r.buf, off)
		if r.off, r.buf = off, r.buf[:n]; err != nil && err != io.EOF {
			r.buf = r.buf[:0]
			return 0, err
		}
	}
	n := copy(p, r.buf[off-r.off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
