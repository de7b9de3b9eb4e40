package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"cutie/queuefs/job"
)

// A page is the part of an index for a fixed range of job numbers.
type page struct {
	slots   []byte
	md5s    []byte  // of the payloads, 16 octets each; nil if none is known
	keys    []byte  // sums of the keys of submissions, 8 octets each; nil if there is none
	version job.Seq // its last change
	at      int64   // time of that change, µs
	count   [4]int  // jobs by status; [0] is unused
	avail   int     // available jobs
	changed bool    // since it was last written
	oldest  int64   // no processed job of it changed before, µs
}

const (
	pageSize = PageJobs * slotSize
	md5sSize = PageJobs * 16
	keysSize = PageJobs * 8
	endsSize = PageJobs * 8
)

func (p *page) slot(i int) slot { return slot(p.slots[i*slotSize : (i+1)*slotSize : (i+1)*slotSize]) }

// noSlots are the slots of all pages without jobs, and read only. freeSlots knows
// them by their odd capacity.
var noSlots = make([]byte, pageSize, pageSize+1)

func (p *page) vacant() bool { return &p.slots[0] == &noSlots[0] }

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

// PageMemory is the size of a page in memory, and on disk without MD5s.
const PageMemory = pageHeader + pageSize

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
	return PageState{p.version, p.at, p.count[job.Pending], p.count[1] + p.count[2] + p.count[3]}
}

// EachOf calls do with every job of page n in order.
func (x *Index) EachOf(n int, do func(job.ID, Job)) {
	p := x.pageAt(n)
	for i := 0; p != nil && i < PageJobs; i++ {
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
// the page, since pages of before there were other parts have zero there.
const (
	partKeys = 1 << iota
	partEnds
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
		for i := range PageJobs {
			dst[start+pageHeader+i*slotSize+1] &= markHeld | markLeased
		}
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
	for i := range PageJobs {
		if !p.slot(i).has(markHeld) {
			continue
		}
		if ends, ok := x.Holds.At(job.ID(n*PageJobs + i)); ok {
			if len(dst) == start {
				dst = append(dst, make([]byte, endsSize)...)
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

// partSizes returns the sizes of MD5s and keys in a page on disk; false if no page has
// the parts that its header names, or its size.
func partSizes(data []byte) (md5s, keys int, ok bool) {
	parts := binary.LittleEndian.Uint32(data[12:])
	if len(data) == pageHeader {
		return 0, 0, parts == 0
	}
	md5s = len(data) - pageHeader - pageSize
	if parts&partKeys != 0 {
		keys = keysSize
		md5s -= keysSize
	}
	if parts&partEnds != 0 {
		md5s -= endsSize
	}
	return md5s, keys, parts&^(partKeys|partEnds) == 0 && (md5s == 0 || md5s == md5sSize)
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
	for i := range PageJobs {
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
	for i := range PageJobs {
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
	covered := data[16:]
	if binary.LittleEndian.Uint32(data[12:]) != 0 {
		covered = data[12:]
	}
	return crc32.Update(name, castagnoli, covered)
}

// parsePage reads a page on disk. ends are the ends of its holds, nil without one.
func parsePage(data []byte, queue string, n int) (p *page, ends []byte, err error) {
	if len(data) < pageHeader {
		return nil, nil, ErrPage
	}
	sum := pageSum(data, queue, n)
	magic, size := string(data[:8]), len(data)-pageHeader
	md5s, keys, known := partSizes(data)
	old := magic == oldPageMagic && (size == 0 || size == PageJobs*oldSlotSize)
	if old {
		sum = crc32.Checksum(data[16:], castagnoli)
	} else if magic != pageMagic || !known {
		return nil, nil, ErrPage
	}
	if binary.LittleEndian.Uint32(data[8:]) != sum {
		return nil, nil, ErrPage
	}
	p = &page{slots: noSlots, version: job.Seq(binary.LittleEndian.Uint64(data[16:])), at: int64(binary.LittleEndian.Uint64(data[24:])), changed: old}
	switch data = data[pageHeader:]; {
	case size == 0:
		return p, nil, nil
	case old:
		p.slots = newSlots()
		p.takeOld(data)
	default:
		p.slots = newSlots()
		copy(p.slots, data)
		data = data[pageSize:]
		if md5s > 0 {
			p.md5s = bytes.Clone(data[:md5s])
		}
		if keys > 0 {
			p.keys = bytes.Clone(data[md5s : md5s+keys])
		}
		ends = data[md5s+keys:]
	}
	for i := range PageJobs {
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

// The pages of version 0.1 up to November 2026 had slots of 128 octets, with an
// MD5 behind either SHA-256, and a checksum without their name.
const (
	oldPageMagic = "CUTIEPG1"
	oldSlotSize  = 128
)

// takeOld reads slots of the earlier layout.
func (p *page) takeOld(data []byte) {
	for i := range PageJobs {
		s, o := p.slot(i), data[i*oldSlotSize:(i+1)*oldSlotSize]
		copy(s, o[:64])
		copy(s[64:96], o[80:112])
		p.setMD5(i, [16]byte(o[64:80]))
	}
}
