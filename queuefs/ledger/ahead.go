package ledger

import (
	"slices"
	"sync"

	"cutie/queuefs/journal"
)

// An ahead reads records ahead. Consumers, and the files of jobs, go through the journal
// in order, each at its own place, so a block of small records takes the place of a read
// of each. Readers may keep parts of a record, and must not change them.
type ahead struct {
	mu      sync.Mutex
	streams [4]stream // places of readers
	clock   uint64
}

// A stream is the place of a reader in the journal.
type stream struct {
	next  journal.LSN      // after the last record read
	block []journal.Record // without gaps in the numbers
	later journal.LSN      // no block is read before: records are large
	busy  bool             // a block is being read
	used  uint64           // by the clock
}

const (
	blockBytes   = 192 << 10 // of a block, at most, unless it is one record
	blockRecords = 16        // with fewer there is no gain
	nearRecords  = 64        // records that readers of one stream may be apart
)

// record returns a record read ahead, to be read only, or nil if the caller is to read
// it for itself.
func (a *ahead) record(j journal.Journal, at journal.LSN) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stream(at)
	if data := s.find(at); data != nil {
		return data
	}
	if at < s.next || s.busy {
		return nil
	}
	follows := s.next != 0
	s.next = at + 1
	if !follows || at < s.later {
		return nil
	}
	s.busy = true
	a.mu.Unlock()
	block := readBlock(j, at)
	a.mu.Lock()
	s.busy = false
	if n := len(block); n < blockRecords {
		if n > 0 {
			s.later = at + nearRecords
		}
		return nil
	}
	s.block, s.next = block, block[len(block)-1].LSN+1
	return s.find(at)
}

// stream returns the stream of a record, or begins one in the place of another.
func (a *ahead) stream(at journal.LSN) *stream {
	a.clock++
	oldest := -1
	for i := range a.streams {
		s := &a.streams[i]
		if s.next != 0 && (s.find(at) != nil || at+nearRecords >= s.next && at < s.next+nearRecords) {
			s.used = a.clock
			return s
		}
		if !s.busy && (oldest < 0 || s.used < a.streams[oldest].used) {
			oldest = i
		}
	}
	if oldest < 0 {
		return &stream{busy: true}
	}
	a.streams[oldest] = stream{used: a.clock}
	return &a.streams[oldest]
}

// find returns a record of the block, or nil.
func (s *stream) find(at journal.LSN) []byte {
	if len(s.block) == 0 || at < s.block[0].LSN || at-s.block[0].LSN >= journal.LSN(len(s.block)) {
		return nil
	}
	return s.block[at-s.block[0].LSN].Data
}

// readBlock reads a block of records from one on. It returns none near the end of the
// journal, where more will come, and few if records are large. The records have one
// allocation, of no more bytes than they are.
func readBlock(j journal.Journal, at journal.LSN) (block []journal.Record) {
	if j.Stats().Next < at+blockRecords {
		return nil
	}
	mem := scratches.Get().(*scratch)
	defer scratches.Put(mem)
	bytes, lengths := mem.bytes[:0], mem.lengths[:0]
	for r, err := range j.Read(at) {
		n := len(lengths)
		if err != nil || r.LSN != at+journal.LSN(n) || n > 0 && len(bytes)+len(r.Data) > blockBytes {
			break
		}
		bytes, lengths = append(bytes, r.Data...), append(lengths, len(r.Data))
	}
	mem.lengths = lengths
	if cap(bytes) <= 2*blockBytes {
		mem.bytes = bytes
	}
	data := slices.Clone(bytes)
	block = make([]journal.Record, len(lengths))
	for i, n := range lengths {
		block[i] = journal.Record{LSN: at + journal.LSN(i), Data: data[:n:n]}
		data = data[n:]
	}
	return block
}

// A scratch is memory to read a block.
type scratch struct {
	bytes   []byte
	lengths []int
}

var scratches = sync.Pool{New: func() any { return &scratch{bytes: make([]byte, 0, blockBytes)} }}
