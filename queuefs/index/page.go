package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A page is the part of an index for a fixed range of job numbers. Of most queues it
// has memory for the first few of them only.
type page struct {
	slots   []byte   // of the first jobs, the others are not there; nil: none is
	md5s    []byte   // of the payloads of the same, 16 octets each; nil if none is known
	keys    []byte   // sums of the keys of submissions, 8 octets each; nil if there is none
	version job.Seq  // its last change
	at      int64    // time of that change, µs
	oldest  int64    // no processed job of it changed before, µs
	count   [4]int16 // jobs by status; [0] is unused
	avail   int16    // available jobs
	changed bool     // since it was last written
}

const (
	pageSize = PageJobs * slotSize
	md5Size  = 16
	keySize  = 8
	endSize  = 8
)

// slot returns the slot of a job, for reading only unless extend was called for it.
func (p *page) slot(i int) slot {
	if i >= p.size() {
		return noSlot[:]
	}
	return slot(p.slots[i*slotSize : (i+1)*slotSize : (i+1)*slotSize])
}

// noSlot is the slot of all jobs without memory, and read only.
var noSlot [slotSize]byte

// size returns how many slots the page has.
func (p *page) size() int { return len(p.slots) / slotSize }

// vacant reports whether the page has no memory, and so no jobs.
func (p *page) vacant() bool { return p.slots == nil }

// extend gives the page memory for a job.
func (p *page) extend(i int) {
	if i < p.size() {
		return
	}
	n := sizeFor(i + 1)
	slots := newSlots(n)
	copy(slots, p.slots)
	freeSlots(p.slots)
	p.slots = slots
	if p.md5s != nil {
		p.md5s = append(p.md5s, make([]byte, n*md5Size-len(p.md5s))...)
	}
	if p.keys != nil {
		p.keys = append(p.keys, make([]byte, n*keySize-len(p.keys))...)
	}
}

// sizeFor returns the number of slots of a page with n of them in use. It is 2, 8, 32,
// 128 or all: a queue with one job has its number 1.
func sizeFor(n int) int {
	size := 2
	for size < n {
		size *= 4
	}
	if size > 128 {
		size = PageJobs
	}
	return size
}

// md5 returns the MD5 of a payload, zero if it is not known.
func (p *page) md5(i int) (sum [16]byte) {
	if p.md5s != nil && i < p.size() {
		copy(sum[:], p.md5s[i*len(sum):])
	}
	return sum
}

func (p *page) setMD5(i int, sum [16]byte) {
	if p.md5s == nil {
		if sum == ([16]byte{}) {
			return
		}
		p.md5s = make([]byte, p.size()*md5Size)
	}
	copy(p.md5s[i*len(sum):], sum[:])
}

// Pages returns the number of pages up to the highest job.
func (x *Index) Pages() int { return len(x.pages) }

// Held returns the number of known pages, and of pages in memory.
func (x *Index) Held() (pages, full int) {
	for _, p := range x.pages {
		if p != nil {
			pages++
			if !p.vacant() {
				full++
			}
		}
	}
	return pages, full
}

// Small reports whether all jobs ever had numbers of a few slots of page 0.
func (x *Index) Small() bool {
	return len(x.pages) == 0 || len(x.pages) == 1 && (x.pages[0] == nil || x.pages[0].size() < PageJobs)
}

// Memory returns the bytes of all slots.
func (x *Index) Memory() (size int64) {
	for _, p := range x.pages {
		if p != nil {
			size += int64(cap(p.slots))
		}
	}
	return size
}

// A PageState is the state of a page.
type PageState struct {
	Version job.Seq // its last change; 0: there is no page
	At      int64   // time of that change, µs
	Pending int
	Total   int
}

// Page returns the state of page n.
func (x *Index) Page(n int) PageState {
	p := x.pageAt(n)
	if p == nil {
		return PageState{}
	}
	return PageState{p.version, p.at, int(p.count[job.Pending]), int(p.count[1] + p.count[2] + p.count[3])}
}

// EachOf calls do with every job of page n in order.
func (x *Index) EachOf(n int, do func(job.ID, Job)) {
	p := x.pageAt(n)
	for i := 0; p != nil && i < p.size(); i++ {
		if p.slot(i).status() != 0 {
			do(job.ID(n*PageJobs+i), x.job(p, i))
		}
	}
}

const (
	pageMagic  = "CUTIEPG2"
	pageHeader = 32
)

// Bits of the header for the parts after the MD5s. The latter are known by the size of
// the page, since pages of before there were other parts have zero there. Above the bits
// stands the number of slots, 0 for all; so did pages before there were smaller ones.
const (
	partKeys = 1 << iota
	partEnds
	partSlots = 16 // bits below the number
)

// PageName returns the name of page n on disk.
func PageName(n int) string { return fmt.Sprintf("p%09d", n) }

// PageLimit bounds the size of a page on disk.
const PageLimit = 2 * pageSize

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrPage is the error for a damaged page.
var ErrPage = errors.New("index page does not verify")

// AppendPage appends page n in its form for the disk to dst, and marks it as
// unchanged; false if it was unchanged. Notes on claims and files are left out:
// at a checkpoint the files are up to date.
func (x *Index) AppendPage(dst []byte, n int) ([]byte, bool) {
	p := x.pageAt(n)
	if p == nil || !p.changed {
		return dst, false
	}
	p.changed = false
	start, parts := len(dst), uint32(0)
	dst = append(dst, make([]byte, pageHeader)...)
	if !p.vacant() {
		dst = append(dst, p.slots...)
		for i := range p.size() {
			dst[start+pageHeader+i*slotSize+1] &= markHeld | markLeased
		}
		parts |= uint32(p.size()%PageJobs) << partSlots
		dst = append(append(dst, p.md5s...), p.keys...)
		if p.keys != nil {
			parts |= partKeys
		}
		size := len(dst)
		if dst = x.appendEnds(dst, p, n); len(dst) > size {
			parts |= partEnds
		}
	}
	data := dst[start:]
	copy(data, pageMagic)
	binary.LittleEndian.PutUint32(data[12:], parts)
	binary.LittleEndian.PutUint64(data[16:], uint64(p.version))
	binary.LittleEndian.PutUint64(data[24:], uint64(p.at))
	binary.LittleEndian.PutUint32(data[8:], pageSum(data, x.queue, n))
	return dst, true
}

// appendEnds appends the ends of holds of page n, if there are any.
func (x *Index) appendEnds(dst []byte, p *page, n int) []byte {
	start := len(dst)
	for i := range p.size() {
		if !p.slot(i).has(markHeld) {
			continue
		}
		if ends, ok := x.Holds.At(job.ID(n*PageJobs + i)); ok {
			if len(dst) == start {
				dst = append(dst, make([]byte, p.size()*endSize)...)
			}
			binary.LittleEndian.PutUint64(dst[start+8*i:], uint64(ends))
		}
	}
	return dst
}

// loadEnds takes the ends of holds of page n from the disk.
func (x *Index) loadEnds(ends []byte, p *page, n int) {
	for i := range len(ends) / 8 {
		if p.slot(i).has(markHeld) {
			x.Holds.Set(job.ID(n*PageJobs+i), int64(binary.LittleEndian.Uint64(ends[8*i:])))
		}
	}
}

// partSizes returns the number of slots in a page on disk, and the sizes of MD5s and
// keys; false if no page has the parts that its header names, or its size.
func partSizes(data []byte) (slots, md5s, keys int, ok bool) {
	parts := binary.LittleEndian.Uint32(data[12:])
	if len(data) == pageHeader {
		return 0, 0, 0, parts == 0
	}
	if slots = int(parts >> partSlots); slots == 0 {
		slots = PageJobs
	}
	md5s = len(data) - pageHeader - slots*slotSize
	if parts&partKeys != 0 {
		keys = slots * keySize
		md5s -= keys
	}
	if parts&partEnds != 0 {
		md5s -= slots * endSize
	}
	known := parts&(1<<partSlots-1)&^(partKeys|partEnds) == 0 && slots <= PageJobs && slots == sizeFor(slots)
	return slots, md5s, keys, known && (md5s == 0 || md5s == slots*md5Size)
}

// SetPageChanged marks a page as changed, after its writing failed.
func (x *Index) SetPageChanged(n int) {
	if p := x.pageAt(n); p != nil {
		p.changed, x.Changed = true, true
	}
}

// LoadPage takes page n from the disk. There must be none yet. The error is ErrPage.
func (x *Index) LoadPage(data []byte, n int) error {
	p, ends, err := parsePage(data, x.queue, n)
	if err != nil {
		return err
	}
	for i := range p.size() {
		if p.slot(i).mediaType() >= len(x.types.names) {
			freeSlots(p.slots)
			return ErrPage
		}
	}
	for n >= len(x.pages) {
		x.pages = append(x.pages, nil)
	}
	x.pages[n] = p
	x.loadEnds(ends, p, n)
	x.Changed = x.Changed || p.changed
	for i := range p.size() {
		s := p.slot(i)
		x.tally(p, s, 1)
		if p.keys != nil {
			x.addKey(p.key(i), job.ID(n*PageJobs+i))
		}
		if s.available() {
			x.count(p, 1)
		}
	}
	return nil
}

// PageVersion returns the last change of a page on disk.
func PageVersion(data []byte, queue string, n int) (job.Seq, error) {
	p, _, err := parsePage(data, queue, n)
	if err != nil {
		return 0, err
	}
	freeSlots(p.slots)
	return p.version, nil
}

// pageSum is the checksum of a page on disk.
func pageSum(data []byte, queue string, n int) uint32 {
	name := crc32.Checksum([]byte(queue+"/"+PageName(n)), castagnoli)
	return crc32.Update(name, castagnoli, data[12:])
}

// parsePage reads a page on disk. ends are the ends of its holds, nil without one.
func parsePage(data []byte, queue string, n int) (p *page, ends []byte, err error) {
	if len(data) < pageHeader {
		return nil, nil, ErrPage
	}
	sum := pageSum(data, queue, n)
	magic := string(data[:8])
	slots, md5s, keys, known := partSizes(data)
	if magic != pageMagic || !known {
		return nil, nil, ErrPage
	}
	if binary.LittleEndian.Uint32(data[8:]) != sum {
		return nil, nil, ErrPage
	}
	p = &page{version: job.Seq(binary.LittleEndian.Uint64(data[16:])), at: int64(binary.LittleEndian.Uint64(data[24:]))}
	if data = data[pageHeader:]; len(data) == 0 {
		return p, nil, nil
	}
	body := data[:slots*slotSize]
	data = data[len(body):]
	ends = data[md5s+keys:]
	size := sizeFor(used(body))
	p.slots = newSlots(size)
	copy(p.slots, body)
	if md5s > 0 {
		p.md5s = bytes.Clone(data[:size*md5Size])
	}
	if keys > 0 {
		p.keys = bytes.Clone(data[md5s : md5s+size*keySize])
	}
	for i := range p.size() {
		s := p.slot(i)
		if s[0]&^slotStands != 0 || s[1]&^(markHeld|markLeased) != 0 {
			freeSlots(p.slots)
			return nil, nil, ErrPage
		}
		if st := s.status(); st != 0 {
			s.set(markPayload)
			s.setFiled(st)
		}
	}
	return p, ends, nil
}

// used returns how many slots there are up to the last one with a job, now or before.
func used(slots []byte) int { return (len(bytes.TrimRight(slots, "\x00")) + slotSize - 1) / slotSize }

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

// A Place has the records with the parts of a job; 0 is a part in its file.
type Place struct{ File, Payload journal.LSN }

// places has the place of each job behind the journal. These jobs are neighbours,
// so that pages take a third of the memory of a map of jobs.
type places map[int]*placePage

type placePage struct {
	used int
	at   [placeJobs]Place // without File there is none
}

// placeJobs is how many job numbers a placePage covers. Many queues have one job behind
// the journal.
const placeJobs = 16

func (p places) of(id job.ID) Place {
	if page := p[int(id/placeJobs)]; page != nil {
		return page.at[id%placeJobs]
	}
	return Place{}
}

// put sets the place of a job; to.File is not 0.
func (p places) put(id job.ID, to Place) {
	n := int(id / placeJobs)
	page := p[n]
	if page == nil {
		page = new(placePage)
		p[n] = page
	}
	if page.at[id%placeJobs].File == 0 {
		page.used++
	}
	page.at[id%placeJobs] = to
}

func (p places) drop(id job.ID) {
	n := int(id / placeJobs)
	page := p[n]
	if page == nil || page.at[id%placeJobs].File == 0 {
		return
	}
	page.at[id%placeJobs] = Place{}
	if page.used--; page.used == 0 {
		delete(p, n)
	}
}

// SetFilesWritten notes that the files of a job have the parts of a place. It
// returns false if the journal is ahead of them again.
func (x *Index) SetFilesWritten(id job.ID, was Place) bool {
	if now := x.places.of(id); now != was {
		now.Payload = 0
		x.places.put(id, now)
		return false
	}
	x.SetPassed(id)
	return true
}

// SetPassed notes that no file of a job is behind the journal any more.
func (x *Index) SetPassed(id job.ID) {
	if x.places.drop(id); len(x.places) == 0 {
		x.places = nil
	}
	x.grow(id).slot(int(id % PageJobs)).clear(markBehind)
}

// Behind reports whether the files of a job are behind the journal.
func (x *Index) Behind(id job.ID) bool {
	s := x.slot(id)
	return s != nil && s.has(markBehind)
}

// BehindOf reports whether the files of some job lack a record before at.
func (x *Index) BehindOf(at journal.LSN) bool {
	for _, page := range x.places {
		for _, p := range page.at {
			if p.File != 0 && p.File < at || p.Payload != 0 && p.Payload < at {
				return true
			}
		}
	}
	return false
}

// A History has the records of the last events.
type History struct {
	first   job.Seq // of records
	records []journal.LSN
}

// Note notes the record of an event. After a gap it begins anew.
func (h *History) Note(seq job.Seq, at journal.LSN) {
	if len(h.records) == 0 || seq != h.first+job.Seq(len(h.records)) {
		h.records, h.first = h.records[:0], seq
	}
	h.records = append(h.records, at)
}

// After returns the records of up to most events after one; false if the event
// next to it is not known.
func (h *History) After(seq job.Seq, most int) ([]journal.LSN, bool) {
	if len(h.records) == 0 || seq+1 < h.first || seq+1 >= h.first+job.Seq(len(h.records)) {
		return nil, false
	}
	from := h.records[seq+1-h.first:]
	return slices.Clone(from[:min(len(from), most)]), true
}

// From returns the record of an event, or of the first one after it that is known.
func (h *History) From(seq job.Seq) (at journal.LSN, ok bool) {
	if seq >= h.first+job.Seq(len(h.records)) {
		return 0, false
	}
	return h.records[max(seq, h.first)-h.first], true
}

// Forget drops the records before first.
func (h *History) Forget(first journal.LSN) {
	n := 0
	for n < len(h.records) && h.records[n] < first {
		n++
	}
	if n > 0 {
		h.records = slices.Clone(h.records[n:])
		h.first += job.Seq(n)
	}
}
