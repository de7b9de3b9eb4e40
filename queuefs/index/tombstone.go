package index

import (
	"encoding/binary"
	"hash/crc32"

	"cutie/queuefs/job"
)

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    job.ID
	Culled int64 // µs
	Seq    job.Seq
}

// TombstoneSize is the size of a tombstone on disk:
//
//	job u64 | culled µs i64 | seq u64 | crc u32 | 0 u32
const TombstoneSize = 32

// Append appends the tombstone in its form for the disk.
func (t *Tombstone) Append(dst []byte) []byte {
	le := binary.LittleEndian
	n := len(dst)
	dst = le.AppendUint64(dst, uint64(t.Job))
	dst = le.AppendUint64(dst, uint64(t.Culled))
	dst = le.AppendUint64(dst, uint64(t.Seq))
	dst = le.AppendUint32(dst, crc32.Checksum(dst[n:], castagnoli))
	return le.AppendUint32(dst, 0)
}

// ParseTombstone reads the output of Append; false if it is damaged.
func ParseTombstone(b []byte) (Tombstone, bool) {
	if len(b) < TombstoneSize {
		return Tombstone{}, false
	}
	le := binary.LittleEndian
	t := Tombstone{Job: job.ID(le.Uint64(b)), Culled: int64(le.Uint64(b[8:])), Seq: job.Seq(le.Uint64(b[16:]))}
	return t, t.Job != 0 && le.Uint32(b[24:]) == crc32.Checksum(b[:24], castagnoli)
}

// Tombstones are those not yet in a file.
type Tombstones struct {
	fresh []Tombstone
	last  job.Seq // of all, also in the file
	filed job.Seq // of the last one in the file
}

// add takes a tombstone, except for one replayed again.
func (s *Tombstones) add(t Tombstone) {
	if t.Seq > s.last {
		s.fresh, s.last = append(s.fresh, t), t.Seq
	}
}

// Fresh returns the tombstones not yet in a file, in the order of their changes.
func (s *Tombstones) Fresh() []Tombstone { return s.fresh }

// Filed drops the first n of them: a file has them.
func (s *Tombstones) Filed(n int) {
	if n > 0 {
		s.filed = s.fresh[n-1].Seq
	}
	if s.fresh = s.fresh[n:]; len(s.fresh) == 0 {
		s.fresh = nil
	}
}

// SetLast notes the last one of the file, before the first Apply.
func (s *Tombstones) SetLast(seq job.Seq) { s.last, s.filed = seq, seq }

// InFile returns the change of the last tombstone in the file.
func (s *Tombstones) InFile() job.Seq { return s.filed }
