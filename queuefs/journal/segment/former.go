package segment

import (
	"encoding/binary"
	"math"

	"cutie/queuefs/journal"
)

// A segment of version 1 is read, never written: the journal goes on in a new one.
// Its batches have numbers of their own, and a record there is a group of records:
//
//	batch   "CQB1" | crc u32 | length u32 | groups u32 | number of the batch u64 | groups…
//	group   length u32 | records…
//	record  length u32, of this, too | bytes
//
// The LSN of a record is its position in these journals: the number of the segment
// and, in the last 26 bits, the offset of the record. So positions of former
// checkpoints are LSNs as they stand. The first segment of version 2 begins with
// its number and the offset 0: later than all before, and dense from there on.
const (
	formerVersion = 1
	formerMagic   = 0x31425143 // "CQB1"
	formerOffset  = 26         // bits
	formerHeader  = 4          // of a record
)

// position returns the LSN of an offset in a segment of version 1.
func position(number uint64, off int64) journal.LSN {
	return journal.LSN(number<<formerOffset + uint64(off))
}

func formerLSN(number uint64, x extent) journal.LSN {
	return position(number, int64(x.off)-formerHeader)
}

// formerTable is table for a batch of version 1.
func (s *segment) formerTable(b stored, off int64) error {
	s.first = position(s.number, 0)
	found := s.records
	le := binary.LittleEndian
	p := batchHeader
	for range b.count() {
		if p+recHeader > len(b.data) {
			return errDamaged
		}
		end := int(le.Uint32(b.data[p:])) + p + recHeader
		if p += recHeader; end > len(b.data) {
			return errDamaged
		}
		for p < end {
			if end-p < formerHeader {
				return errDamaged
			}
			size := int(le.Uint32(b.data[p:]))
			if size < formerHeader || size > end-p {
				return errDamaged
			}
			found = append(found, extent{uint32(off) + uint32(p) + formerHeader, uint32(size - formerHeader)})
			p += size
		}
	}
	s.records = found
	return nil
}

// firstOf returns the LSN a segment begins with, as far as it says so itself.
func (s *segment) firstOf() journal.LSN {
	if s.former {
		return position(s.number, 0)
	}
	b, err := s.batchAt(s.f, blockSize, nil)
	if err != nil {
		return math.MaxUint64
	}
	return journal.LSN(b.number)
}
