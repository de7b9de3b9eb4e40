package index

import (
	"encoding/binary"

	"cutie/queuefs/job"
)

// A slot is the memory of one job. A known MD5 of the payload stands beside the
// slots of the page; the rest is in the job file.
type slot []byte

const slotSize = 96

// Byte 0 has the status in its low bits, then two marks, the outcome, and one more
// mark.
const (
	statusMask   = 3
	slotResults  = 4
	slotRetained = 8
	outcomeShift = 4
	outcomeMask  = 3 << outcomeShift
	slotKeyed    = 64
	slotStands   = statusMask | slotResults | slotRetained | outcomeMask | slotKeyed // all bits in use
)

// Byte 1 has these marks; leases and holds are on disk too. The place of the job
// file is a Status, 0 for none, or FiledUnknown.
const (
	markClaimed = 1 << iota // an operation on the job is on its way to the journal
	markBehind              // the files are behind the journal
	markPayload             // the payload file stands
	filedShift  = iota      // three bits: where the job file stands
	filedMask   = 7 << filedShift
	markHeld    = 1 << 6 // pending, and passed over
	markLeased  = 1 << 7 // consumed, and its consumer has a lease
)

func (s slot) status() job.Status   { return job.Status(s[0] & statusMask) }
func (s slot) outcome() job.Outcome { return job.Outcome(s[0] & outcomeMask >> outcomeShift) }
func (s slot) has(m byte) bool      { return s[1]&m != 0 }
func (s slot) set(m byte)           { s[1] |= m }
func (s slot) clear(m byte)         { s[1] &^= m }
func (s slot) filed() job.Status    { return job.Status(s[1] & filedMask >> filedShift) }
func (s slot) changed() int64       { return int64(binary.LittleEndian.Uint64(s[24:])) }
func (s slot) submitted() int64     { return int64(binary.LittleEndian.Uint64(s[16:])) }
func (s slot) mediaType() int       { return int(binary.LittleEndian.Uint16(s[2:])) }

func (s slot) available() bool {
	return s.status() == job.Pending && !s.has(markClaimed|markHeld)
}

func (s slot) processed() bool {
	return s.status() == job.Consumed || s.status() == job.Deleted
}

func (s slot) setFiled(st job.Status) { s[1] = s[1]&^filedMask | byte(st)<<filedShift }

// fill writes the data of a change, without its standing.
func (s slot) fill(c *Change, mediaType uint16) {
	le := binary.LittleEndian
	le.PutUint16(s[2:], mediaType)
	le.PutUint32(s[4:], uint32(c.FileLength))
	le.PutUint64(s[8:], uint64(c.Size))
	le.PutUint64(s[16:], uint64(c.Submitted))
	le.PutUint64(s[24:], uint64(c.Time))
	copy(s[32:64], c.SHA256[:])
	copy(s[64:96], c.FileSHA256[:])
}

// stand writes the standing, and ends the claim on the job.
func (s slot) stand(st *Standing) {
	s[0] = byte(st.Status) | byte(st.Outcome)<<outcomeShift
	s.clear(markClaimed | markHeld | markLeased)
	if st.Results {
		s[0] |= slotResults
	}
	if st.Retained {
		s[0] |= slotRetained
	}
	if st.Keyed {
		s[0] |= slotKeyed
	}
	if st.Held {
		s.set(markHeld)
	}
	if st.Leased {
		s.set(markLeased)
	}
}

// job reads the slot.
func (s slot) job() Job {
	le := binary.LittleEndian
	return Job{
		Standing: Standing{Status: s.status(), Outcome: s.outcome(), Held: s.has(markHeld), Leased: s.has(markLeased),
			Results: s[0]&slotResults != 0, Retained: s[0]&slotRetained != 0, Keyed: s[0]&slotKeyed != 0},
		Claimed: s.has(markClaimed), Behind: s.has(markBehind), Filed: s.filed(), PayloadFiled: s.has(markPayload),
		FileLength: int(le.Uint32(s[4:])), Size: int64(le.Uint64(s[8:])), Submitted: s.submitted(), Changed: s.changed(),
		SHA256: [32]byte(s[32:64]), FileSHA256: [32]byte(s[64:96]),
	}
}
