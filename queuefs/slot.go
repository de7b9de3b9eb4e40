package queuefs

import (
	"encoding/binary"
	"time"
)

// A slot is what the index keeps in memory of one job: 128 octets without a
// pointer. The rest is in the job file. A page of the index on disk is an
// image of its slots.
//
//	0 status | 1 flags | 2 media type u16 | 4 length of job file u32
//	8 size of payload i64 | 16 submitted µs i64 | 24 last event µs i64
//	32 SHA-256 of payload | 64 MD5 of payload | 80 SHA-256 and 112 MD5 of job file
type slot []byte

const slotSize = 128

// Flags of a slot. The place of the job file on disk is a Status, 0 for none,
// or filedUnknown.
const (
	flagBusy     = 1 << iota // an operation on the job is on its way to the journal
	flagDirty                // the files are behind the journal
	flagPayload              // the payload file stands
	filedShift   = iota      // three bits: where the job file stands
	filedMask    = 7 << filedShift
	filedUnknown = 7 // replayed from the journal: look everywhere
)

func (s slot) status() Status      { return Status(s[0]) }
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
func (s slot) md5() []byte         { return s[64:80] }
func (s slot) fileSHA() []byte     { return s[80:112] }
func (s slot) fileMD5() []byte     { return s[112:128] }
func (s slot) available() bool     { return s[0] == byte(Pending) && s[1]&flagBusy == 0 }
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

const pageSize = PageJobs * slotSize

// A page is the part of the index for a fixed range of job numbers.
type page struct {
	slots   []byte
	version Seq    // last event that touched it
	at      int64  // time of that event, µs
	count   [4]int // jobs by status; [0] is unused
	avail   int    // pending and not busy
	changed bool   // since it was last written
}

func (p *page) slot(i int) slot { return slot(p.slots[i*slotSize : (i+1)*slotSize : (i+1)*slotSize]) }

// An index is all pages of a queue. Missing pages have no jobs.
type index struct {
	pages []*page
	count [4]int64
	avail int64
	head  JobID // no available job is below
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

// grow returns the page of a job, making it if need be.
func (x *index) grow(id JobID) *page {
	n := int(id / PageJobs)
	for n >= len(x.pages) {
		x.pages = append(x.pages, nil)
	}
	if x.pages[n] == nil {
		x.pages[n] = &page{slots: newSlots()}
	}
	return x.pages[n]
}

// setStatus moves a job between statuses, ends the operation that held it,
// and keeps the counts.
func (x *index) setStatus(p *page, s slot, id JobID, to Status) {
	if s.available() {
		p.avail--
		x.avail--
	}
	if from := s.status(); from != 0 {
		p.count[from]--
		x.count[from]--
	}
	s[0] = byte(to)
	s.clear(flagBusy)
	if to != 0 {
		p.count[to]++
		x.count[to]++
	}
	x.regain(p, s, id)
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
		if st := s.status(); st != 0 {
			p.count[st]++
			x.count[st]++
		}
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
	x.pages = nil
}
