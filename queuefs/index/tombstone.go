package index

import (
	"encoding/binary"
	"hash/crc32"

	"cutie/queuefs/job"
)

// A Tombstone tells that there was a job.
type Tombstone struct {
	Job    job.ID
	Culled int64 // µs
	Seq    job.Seq
}

// TombstoneSize is how many octets a tombstone has on disk:
//
//	job u64 | culled µs i64 | seq u64 | crc u32 | 0 u32
const TombstoneSize = 32

// Append appends the tombstone as it stands on disk.
func (t *Tombstone) Append(dst []byte) []byte {
	le := binary.LittleEndian
	n := len(dst)
	dst = le.AppendUint64(dst, uint64(t.Job))
	dst = le.AppendUint64(dst, uint64(t.Culled))
	dst = le.AppendUint64(dst, uint64(t.Seq))
	dst = le.AppendUint32(dst, crc32.Checksum(dst[n:], castagnoli))
	return le.AppendUint32(dst, 0)
}

// ParseTombstone reads what Append wrote; false if it does not verify.
func ParseTombstone(b []byte) (Tombstone, bool) {
	if len(b) < TombstoneSize {
		return Tombstone{}, false
	}
	le := binary.LittleEndian
	t := Tombstone{Job: job.ID(le.Uint64(b)), Culled: int64(le.Uint64(b[8:])), Seq: job.Seq(le.Uint64(b[16:]))}
	return t, t.Job != 0 && le.Uint32(b[24:]) == crc32.Checksum(b[:24], castagnoli)
}

// Stones are the tombstones that no file has yet.
type Stones struct {
	fresh []Tombstone
	last  job.Seq // of all, also those in the file
}

// add takes a tombstone, unless a replay has it again.
func (s *Stones) add(t Tombstone) {
	if t.Seq > s.last {
		s.fresh, s.last = append(s.fresh, t), t.Seq
	}
}

// Fresh returns the tombstones that no file has yet, in the order of their changes.
func (s *Stones) Fresh() []Tombstone { return s.fresh }

// Filed notes that a file has the first n of them.
func (s *Stones) Filed(n int) {
	if s.fresh = s.fresh[n:]; len(s.fresh) == 0 {
		s.fresh = nil
	}
}

// SetLast notes the last one that a file has, before any is added.
func (s *Stones) SetLast(seq job.Seq) { s.last = seq }

// Last returns the change of the last tombstone, also of those in the file.
func (s *Stones) Last() job.Seq { return s.last }
