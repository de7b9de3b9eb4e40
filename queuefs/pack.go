package queuefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal/segment"
)

// A pack is what handing out the jobs of one index page asks of the disk, in
// one file: their job files and small payloads, one behind the other. In a
// long queue the files of the jobs at the head have left the page cache, and
// to read two files a job costs three times what a sequential read does.
//
// Packs stand beside the index pages, log/index/queues/QID/kN, are made of the
// pages that are full before the files of their jobs are, and go when no job of
// the page is pending. They are copies that nothing depends on: text and payload are
// believed if they have the digests of the index, and read from their own
// files else. Hence they are not synced, and an error with one only means that
// there is none.
//
//	"CUTIEPK1" | page u32 | crc u32 of the table | table | texts and payloads
//
// The table has 16 octets a slot, all u32: offset, 0 for none; length of the
// text; checksum of the payload; the first octets of its SHA-256.
const (
	packMagic  = "CUTIEPK1"
	packHeader = 16
	packEntry  = 16
	packTable  = PageJobs * packEntry
)

// packLimit is the most octets of text and payload that make a job small: from
// there on the transfer costs more than to open files.
const packLimit = 8 << 10

// packFewest is how many jobs of a page must be pending for it to be packed.
const packFewest = PageJobs / 8

// packsOpen is how many packs a service has open at most, packsAhead how many are
// opened and loaded before their jobs are wanted.
const (
	packsOpen  = 64
	packsAhead = 4
)

// mostPacks is packsOpen, or less where the process may have few files open.
var mostPacks = sync.OnceValue(func() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return packsOpen
	}
	return packsFor(limit.Cur)
})

// packsFor is how many of so many open files may be packs: one of eight, but at
// least those that are read ahead.
func packsFor(files uint64) int { return int(max(packsAhead+1, min(packsOpen, files/8))) }

func packName(n int) string { return fmt.Sprintf("k%09d", n) }

func parsePackName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'k' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && packName(n) == name
}

// A pack that is open.
type pack struct {
	q      *Queue
	page   int
	file   *os.File
	size   int64
	table  []byte
	loaded atomic.Bool // by somebody, or soon
}

// packs are those open, the one opened last at the end.
type packs struct {
	mu   sync.Mutex
	open []*pack
}

func (ps *packs) find(q *Queue, page int) *pack {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.get(q, page)
}

func (ps *packs) get(q *Queue, page int) *pack {
	for i := len(ps.open) - 1; i >= 0; i-- {
		if p := ps.open[i]; p.q == q && p.page == page {
			return p
		}
	}
	return nil
}

// add keeps a pack open, unless it is already.
func (ps *packs) add(p *pack) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.get(p.q, p.page) != nil {
		p.file.Close()
		return
	}
	if len(ps.open) == mostPacks() {
		ps.open[0].file.Close() // whoever reads it now turns to the files
		ps.open = ps.open[:copy(ps.open, ps.open[1:])]
	}
	ps.open = append(ps.open, p)
}

// drop closes those packs of which gone is true.
func (ps *packs) drop(gone func(*pack) bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	kept := ps.open[:0]
	for _, p := range ps.open {
		if gone(p) {
			p.file.Close()
		} else {
			kept = append(kept, p)
		}
	}
	clear(ps.open[len(kept):])
	ps.open = kept
}

// warm opens the packs of the pages that ids lie in, and has the last of them and
// those behind it loaded, whose jobs will be wanted next: the disk may have much to
// do.
func (q *Queue) warm(ids []JobID) {
	first, last := int(ids[0]/PageJobs), int(ids[len(ids)-1]/PageJobs)
	for n := first; n <= last; n++ {
		if q.closedPack(n) {
			q.openPack(n)
		}
	}
	if q.warmed.Load() == int64(last)+1 {
		if p := q.svc.packs.find(q, last); p == nil || p.loaded.Load() {
			return
		}
	}
	if q.svc.begin() != nil {
		return
	}
	if q.loading.Swap(true) {
		q.svc.end()
		return
	}
	q.warmed.Store(int64(last) + 1)
	go func() {
		defer q.svc.end()
		defer q.loading.Store(false)
		for n := last; n <= last+packsAhead && q.svc.usable() == nil; n++ {
			if q.closedPack(n) {
				q.keepPack(n)
			}
			if p := q.svc.packs.find(q, n); p != nil {
				p.load()
			}
		}
	}()
}

// closedPack tells whether page n has a pack that is not open.
func (q *Queue) closedPack(n int) bool {
	return q.hasPack(n) && q.svc.packs.find(q, n) == nil
}

func (q *Queue) hasPack(n int) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return n < len(q.idx.pages) && q.idx.pages[n] != nil && q.idx.pages[n].pack
}

// ReadAhead prepares for reading the jobs of page n one after the other, if
// there is a pack of it. It changes nothing but how long that takes.
func (q *Queue) ReadAhead(n int) {
	q.warm([]JobID{JobID(n) * PageJobs})
}

// openPack makes the pack of page n one that is open, or forgets it. Others who
// want it meanwhile wait.
func (q *Queue) openPack(n int) {
	q.packing.Lock()
	defer q.packing.Unlock()
	if q.svc.packs.find(q, n) == nil {
		q.keepPack(n)
	}
}

// keepPack opens the pack of page n, or forgets it.
func (q *Queue) keepPack(n int) {
	p, err := q.readPack(n)
	if err != nil {
		q.mu.Lock()
		if n < len(q.idx.pages) && q.idx.pages[n] != nil {
			q.idx.pages[n].pack = false
		}
		q.mu.Unlock()
		return
	}
	p.keep()
}

// keep adds a pack to those open, unless it was removed meanwhile.
func (p *pack) keep() {
	p.q.svc.packs.add(p)
	if !p.q.hasPack(p.page) {
		p.q.svc.packs.drop(func(o *pack) bool { return o.q == p.q && o.page == p.page })
	}
}

var errPack = errors.New("pack does not verify")

func (q *Queue) readPack(n int) (*pack, error) {
	all, err := q.svc.ixdir.Sub(queuesDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	dir, err := all.Sub(q.id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(packName(n))
	if err != nil {
		return nil, err
	}
	// See load. Without the advice it is only slower.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM)
	head := make([]byte, packHeader+packTable)
	if _, err = f.ReadAt(head, 0); err == nil && (string(head[:8]) != packMagic ||
		binary.LittleEndian.Uint32(head[8:]) != uint32(n) ||
		binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[packHeader:], castagnoli)) {
		err = errPack
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &pack{q: q, page: n, file: f, size: st.Size(), table: head[packHeader:]}, nil
}

// loadStep is how much of a pack is loaded at a time.
const loadStep = 128 << 10

// load has the system keep what the pack has, all of which will be read, unless
// somebody does so already. It goes step by step: to read all at once, as the
// system would do by itself, makes whoever syncs the journal wait for it.
func (p *pack) load() {
	if p.loaded.Swap(true) {
		return
	}
	b := loadBuffers.Get().(*[loadStep]byte)
	defer loadBuffers.Put(b)
	for at := int64(len(p.table)); at < p.size && p.q.svc.usable() == nil; at += loadStep {
		if _, err := p.file.ReadAt(b[:], at); err != nil {
			return // the end, or it was closed
		}
	}
}

var loadBuffers = sync.Pool{New: func() any { return new([loadStep]byte) }}

// ReadAt reads at an offset.
func (p *pack) ReadAt(b []byte, at segment.Position) error {
	_, err := p.file.ReadAt(b, int64(at))
	return err
}

// Committed returns how many octets there are from an offset on.
func (p *pack) Committed(at segment.Position) int { return int(max(0, p.size-int64(at))) }

// entry returns what the table says of a job.
func (p *pack) entry(id JobID) (offset, text, crc, sha uint32) {
	e := p.table[id%PageJobs*packEntry:]
	le := binary.LittleEndian
	return le.Uint32(e), le.Uint32(e[4:]), le.Uint32(e[8:]), le.Uint32(e[12:])
}

// packedText returns the job file of a job from the pack of its page, if that
// is open; the caller verifies it.
func (q *Queue) packedText(id JobID, s slot) []byte {
	p := q.svc.packs.find(q, int(id/PageJobs))
	if p == nil {
		return nil
	}
	offset, length, _, _ := p.entry(id)
	if offset == 0 || int(length) != s.textLen() {
		return nil
	}
	text := make([]byte, length)
	if _, err := p.file.ReadAt(text, int64(offset)); err != nil {
		return nil
	}
	return text
}

// packedAt returns the pack of the page of a job, if that is open and has its
// payload, with the offset and the checksum of the payload; nil else.
func (q *Queue) packedAt(id JobID, s slot) (p *pack, offset int64, crc uint32) {
	p = q.svc.packs.find(q, int(id/PageJobs))
	if p == nil || s.size() > packLimit {
		return nil, 0, 0
	}
	at, length, crc, sha := p.entry(id)
	if at == 0 || sha != binary.LittleEndian.Uint32(s.sha()) {
		return nil, 0, 0
	}
	return p, int64(at) + int64(length), crc
}

// packedPayload returns the payload of a job from the pack of its page, if
// that is open and the payload verifies.
func (q *Queue) packedPayload(id JobID, s slot) []byte {
	p, offset, crc := q.packedAt(id, s)
	if p == nil {
		return nil
	}
	data := make([]byte, s.size())
	if _, err := p.file.ReadAt(data, offset); err != nil || crc32.Checksum(data, castagnoli) != crc {
		return nil
	}
	return data
}

// findPacks notes which pages have a pack. Pages that were full before and have
// none go without: to make one would read all their files.
func (q *Queue) findPacks(dir *durable.Dir) error {
	q.unpacked = max(0, len(q.idx.pages)-1)
	var strange []string
	err := dir.Names(func(name string) {
		n, ok := parsePackName(name)
		if !ok {
			return
		}
		if n < len(q.idx.pages) && q.idx.pages[n] != nil {
			q.idx.pages[n].pack = true
		} else {
			strange = append(strange, name)
		}
	})
	for _, name := range strange {
		if e := dir.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
