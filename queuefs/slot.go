package queuefs

import (
	"encoding/binary"
	"time"
)

// A slot is what the index keeps in memory of one job: 96 octets without a
// pointer. The MD5 of the payload, where it is known, stands beside the slots
// of the page. The rest is in the job file. A page of the index on disk is an
// image of its slots.
//
//	0 status, outcome and marks | 1 flags | 2 media type u16 | 4 length of job file u32
//	8 size of payload i64 | 16 submitted µs i64 | 24 last event µs i64
//	32 SHA-256 of payload | 64 SHA-256 of job file
type slot []byte

const slotSize = 96

// Octet 0 has the status in its low bits, the outcome in its high ones, and
// between them whether the job has results, and whether it is retained.
const (
	statusMask   = 3
	slotResults  = 4
	slotRetained = 8 // see retention
	outcomeShift = 4
	slotStands   = statusMask | slotResults | slotRetained | 3<<outcomeShift // all bits in use
)

// Flags of a slot. The place of the job file on disk is a Status, 0 for none,
// or filedUnknown.
const (
	flagBusy     = 1 << iota // an operation on the job is on its way to the journal
	flagDirty                // the files are behind the journal
	flagPayload              // the payload file stands
	filedShift   = iota      // three bits: where the job file stands
	filedMask    = 7 << filedShift
	flagHeld     = 1 << 6 // pending, and passed over
	flagLeased   = 1 << 7 // consumed, and its consumer has a lease
	filedUnknown = 7      // replayed from the journal: look everywhere
)

func (s slot) status() Status      { return Status(s[0] & statusMask) }
func (s slot) outcome() Outcome    { return Outcome(s[0] >> outcomeShift) }
func (s slot) hasResults() bool    { return s[0]&slotResults != 0 }
func (s slot) retained() bool      { return s[0]&slotRetained != 0 }
func (s slot) has(f byte) bool     { return s[1]&f != 0 }
func (s slot) set(f byte)          { s[1] |= f }
func (s slot) clear(f byte)        { s[1] &^= f }
func (s slot) filed() Status       { return Status(s[1] & filedMask >> filedShift) }
func (s slot) setFiled(st Status)  { s[1] = s[1]&^filedMask | byte(st)<<filedShift }
func (s slot) mediaType() uint16   { return binary.LittleEndian.Uint16(s[2:]) }
func (s slot) textLen() int        { return int(binary.LittleEndian.Uint32(s[4:])) }
func (s slot) size() int64         { return int64(binary.LittleEndian.Uint64(s[8:])) }
func (s slot) submitted() int64    { return int64(binary.LittleEndian.Uint64(s[16:])) }
func (s slot) changed() int64      { return int64(binary.LittleEndian.Uint64(s[24:])) }
func (s slot) sha() []byte         { return s[32:64] }
func (s slot) fileSHA() []byte     { return s[64:96] }
func (s slot) available() bool     { return s.status() == Pending && s[1]&(flagBusy|flagHeld) == 0 }
func micro(us int64) time.Time     { return time.UnixMicro(us).UTC() }
func (s slot) payloadDone() bool   { return s.has(flagPayload) }
func (s slot) putTextLen(n int)    { binary.LittleEndian.PutUint32(s[4:], uint32(n)) }
func (s slot) putMedia(n uint16)   { binary.LittleEndian.PutUint16(s[2:], n) }
func (s slot) putSize(n int64)     { binary.LittleEndian.PutUint64(s[8:], uint64(n)) }
func (s slot) putSubmit(us int64)  { binary.LittleEndian.PutUint64(s[16:], uint64(us)) }
func (s slot) putChanged(us int64) { binary.LittleEndian.PutUint64(s[24:], uint64(us)) }

// PageJobs is how many job numbers a page of the index covers: page p holds
// the jobs p*PageJobs to (p+1)*PageJobs-1.
const PageJobs = 1024

const (
	pageSize = PageJobs * slotSize
	md5sSize = PageJobs * 16
)

// A page is the part of the index for a fixed range of job numbers.
type page struct {
	slots   []byte
	md5s    []byte // of the payloads, 16 octets each; nil if none is known
	version Seq    // last event that touched it
	at      int64  // time of that event, µs
	count   [4]int // jobs by status; [0] is unused
	avail   int    // pending and not busy
	changed bool   // since it was last written
	oldest  int64  // no processed job of it changed before, µs
}

func (p *page) slot(i int) slot { return slot(p.slots[i*slotSize : (i+1)*slotSize : (i+1)*slotSize]) }

// md5 returns the MD5 of a payload, zero if it is not known.
func (p *page) md5(i int) (sum [16]byte) {
	if p.md5s != nil {
		copy(sum[:], p.md5s[i*len(sum):])
	}
	return sum
}

func (p *page) setMD5(i int, sum [16]byte) {
	if p.md5s == nil {
		if sum == ([16]byte{}) {
			return
		}
		p.md5s = make([]byte, md5sSize)
	}
	copy(p.md5s[i*len(sum):], sum[:])
}

// An index is all pages of a queue. Missing pages have no jobs.
type index struct {
	pages []*page
	full  int // pages that are not vacant
	count [4]int64
	avail int64
	head  JobID // no available job is below

	held, leased, failed int64
}

// marks are what a slot says of where a job stands.
type marks struct {
	status                Status
	outcome               Outcome
	held, leased, results bool
	retained              bool
}

// slot returns the slot of a job, nil if its page is not there.
func (x *index) slot(id JobID) slot {
	if p := x.page(id); p != nil {
		return p.slot(int(id % PageJobs))
	}
	return nil
}

func (x *index) page(id JobID) *page {
	if n := int(id / PageJobs); n < len(x.pages) {
		return x.pages[n]
	}
	return nil
}

// sums gives a record the digests of the payload of a job, which is there.
func (x *index) sums(id JobID, r *record) {
	p, i := x.page(id), int(id%PageJobs)
	copy(r.sha[:], p.slot(i).sha())
	r.md5 = p.md5(i)
}

// grow returns the page of a job, making it if need be.
func (x *index) grow(id JobID) *page {
	n := int(id / PageJobs)
	for n >= len(x.pages) {
		x.pages = append(x.pages, nil)
	}
	if x.pages[n] == nil {
		x.pages[n] = &page{slots: newSlots()}
		x.full++
	} else if p := x.pages[n]; p.vacant() {
		p.slots = newSlots()
		x.full++
	}
	return x.pages[n]
}

// take makes a page that was read the one of its number, which has none.
func (x *index) take(n int, p *page) {
	for n >= len(x.pages) {
		x.pages = append(x.pages, nil)
	}
	x.pages[n] = p
	if !p.vacant() {
		x.full++
	}
	x.recount(p)
}

// vacate gives back the memory of a page without jobs.
func (x *index) vacate(p *page) {
	freeSlots(p.slots)
	p.slots, p.md5s = noSlots, nil
	x.full--
}

// stand puts a job where m says, ends the operation that held it, and keeps
// the counts.
func (x *index) stand(p *page, s slot, id JobID, m marks) {
	if s.available() {
		p.avail--
		x.avail--
	}
	x.tally(p, s, -1)
	s[0] = byte(m.status) | byte(m.outcome)<<outcomeShift
	if m.results {
		s[0] |= slotResults
	}
	if m.retained {
		s[0] |= slotRetained
	}
	s.clear(flagBusy | flagHeld | flagLeased)
	if m.held {
		s.set(flagHeld)
	}
	if m.leased {
		s.set(flagLeased)
	}
	x.tally(p, s, 1)
	x.regain(p, s, id)
}

// tally counts the job by where it stands; n is 1 or -1.
func (x *index) tally(p *page, s slot, n int) {
	st := s.status()
	if st == 0 {
		return
	}
	p.count[st] += n
	x.count[st] += int64(n)
	if s.has(flagHeld) {
		x.held += int64(n)
	}
	if s.has(flagLeased) {
		x.leased += int64(n)
	}
	if s.outcome() == Failed {
		x.failed += int64(n)
	}
}

// regain counts the job as available if it is.
func (x *index) regain(p *page, s slot, id JobID) {
	if s.available() {
		p.avail++
		x.avail++
		x.head = min(x.head, id)
	}
}

// setBusy keeps the job for one operation.
func (x *index) setBusy(p *page, s slot) {
	if s.available() {
		p.avail--
		x.avail--
	}
	s.set(flagBusy)
}

// first returns the available job with the lowest number from from on, 0 if
// there is none.
func (x *index) first(from JobID) JobID {
	for n := int(from / PageJobs); n < len(x.pages); n++ {
		p := x.pages[n]
		if p == nil || p.avail == 0 {
			continue
		}
		i := 0
		if JobID(n) == from/PageJobs {
			i = int(from % PageJobs)
		}
		for ; i < PageJobs; i++ {
			if p.slot(i).available() {
				return JobID(n*PageJobs + i)
			}
		}
	}
	return 0
}

// recount restores the counts of a page just read.
func (x *index) recount(p *page) {
	p.count, p.avail = [4]int{}, 0
	for i := range PageJobs {
		s := p.slot(i)
		x.tally(p, s, 1)
		if s.available() {
			p.avail++
			x.avail++
		}
	}
}

// free gives back the memory of the index.
func (x *index) free() {
	for _, p := range x.pages {
		if p != nil {
			freeSlots(p.slots)
		}
	}
	x.pages, x.full = nil, 0
}
