package queuefs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
)

// A pack is a copy of the pending small jobs of one index page in one file, beside
// the page: log/index/queues/QID/cN. In a long queue the files of the jobs at the
// head have left the page cache, and two files a job take three times as long as a
// sequential read. Packs are written from the journal before the files are. Nothing
// depends on them: a copy is used if it has the digests in the index, so packs are
// not synced, and an error means that there is none.
//
//	"CUTIEPK2", then of each job: number u32 | text length u32 | payload length u32 | text | payload
const (
	packMagic   = "CUTIEPK2"
	packEntry   = 12
	packLimit   = 8 << 10      // bytes of text and payload of a small job
	packSize    = 4 << 20      // bytes of a pack, at most about
	packFewest  = PageJobs / 8 // pending jobs of a page worth a pack
	packsLoaded = 3            // pages in memory: that of the last job taken, and the next
	packStep    = 128 << 10    // bytes read at a time: more make syncs of the journal wait
)

func packName(n int) string { return fmt.Sprintf("c%09d", n) }

func parsePackName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'c' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && packName(n) == name
}

// packs are those of a queue. The zero value has none.
type packs struct {
	mu     sync.Mutex
	made   map[int]bool // pages that have a pack
	next   int          // full pages from here on are to be packed
	loaded map[int]map[JobID]*copied
	busy   bool // somebody loads
}

// A copied job is what a pack has of it, with the digests of both.
type copied struct {
	text, payload       []byte
	textSum, payloadSum [sha256.Size]byte
}

// matches reports whether the copy is that of a job as it is now.
func (c *copied) matches(v *view) bool {
	return v.Journaled.File == 0 && c.textSum == v.FileSHA256 && c.payloadSum == v.SHA256
}

// find returns what a loaded pack has of a job; nil if there is nothing.
func (p *packs) find(id JobID) *copied {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded[int(id/PageJobs)][id]
}

// unload gives back the memory of all packs but those of pages from to to-1.
func (p *packs) unload(from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.loaded {
		if n < from || n >= to {
			delete(p.loaded, n)
		}
	}
}

// loads returns the first page from n on whose pack is to be loaded, -1 if there is
// none; then nobody loads any more.
func (p *packs) loads(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to := n + packsLoaded; n < to; n++ {
		if p.made[n] && p.loaded[n] == nil {
			return n
		}
	}
	p.busy = false
	return -1
}

// begin reports whether the caller is to load packs from page n on.
func (p *packs) begin(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy || len(p.made) == 0 {
		return false
	}
	for to := n + packsLoaded; n < to; n++ {
		p.busy = p.busy || p.made[n] && p.loaded[n] == nil
	}
	return p.busy
}

// readAhead has the packs loaded of the page of a job that is taken and of the next
// ones.
func (q *Queue) readAhead(taken JobID) {
	page := int(taken / PageJobs)
	if !q.packs.begin(page) {
		return
	}
	load := func() {
		for n := q.packs.loads(page); n >= 0; n = q.packs.loads(page) {
			jobs, err := q.readPack(n)
			q.packs.mu.Lock()
			if err != nil || q.svc.usable() != nil {
				delete(q.packs.made, n)
			} else {
				q.packs.loaded[n] = jobs
			}
			q.packs.mu.Unlock()
		}
		q.packs.unload(page, page+packsLoaded)
	}
	if q.svc.begin() != nil {
		return
	}
	go func() { defer q.svc.end(); load() }()
}

// packed returns a pending job from its pack, with its payload.
func (q *Queue) packed(id JobID) (j Job, payload []byte, ok bool) {
	c := q.packs.find(id)
	if c == nil {
		return j, nil, false
	}
	v, ok := q.view(id)
	if !ok || !c.matches(&v) {
		return j, nil, false
	}
	j, err := ParseJob(c.text)
	if err != nil || j.ID != id {
		return j, nil, false
	}
	j.Queue, j.Status, j.Size = q.id, v.Status, v.Size
	return j, c.payload, true
}

var errPack = errors.New("no pack")

// readPack reads the pack of page n.
func (q *Queue) readPack(n int) (map[JobID]*copied, error) {
	dir, err := q.indexDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(packName(n))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() > 2*packSize {
		return nil, errPack
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) // see packStep
	data := make([]byte, st.Size())
	for at := 0; at < len(data); {
		k, err := io.ReadFull(f, data[at:min(at+packStep, len(data))])
		if err != nil {
			return nil, err
		}
		at += k
	}
	return parsePack(data)
}

func parsePack(data []byte) (map[JobID]*copied, error) {
	if len(data) < len(packMagic) || string(data[:len(packMagic)]) != packMagic {
		return nil, errPack
	}
	jobs := map[JobID]*copied{}
	for data = data[len(packMagic):]; len(data) > 0; {
		if len(data) < packEntry {
			return nil, errPack
		}
		le := binary.LittleEndian
		id, text, payload := le.Uint32(data), uint64(le.Uint32(data[4:])), uint64(le.Uint32(data[8:]))
		if data = data[packEntry:]; text+payload > uint64(len(data)) {
			return nil, errPack
		}
		end := text + payload
		c := &copied{text: data[:text:text], payload: data[text:end:end]}
		c.textSum, c.payloadSum = sha256.Sum256(c.text), sha256.Sum256(c.payload)
		jobs[JobID(id)] = c
		data = data[end:]
	}
	return jobs, nil
}

// pack writes the packs of the pages that have become full, as long as there is
// time, and reports whether none is left.
func (q *Queue) pack(inTime func() bool) bool {
	for {
		n, ids, size := q.packable()
		if n < 0 || q.svc.full.Load() {
			return true
		}
		if !inTime() {
			return false
		}
		err := q.writePack(n, ids, size)
		q.packs.mu.Lock()
		q.packs.next = n + 1 // what fails is not tried again
		if err == nil {
			q.packs.made[n] = true
		}
		q.packs.mu.Unlock()
	}
}

// packable returns the first full page that is to be packed, with its small pending
// jobs and the bytes of their entries; -1 if there is none.
func (q *Queue) packable() (page int, ids []JobID, size int) {
	q.packs.mu.Lock()
	next := q.packs.next
	q.packs.mu.Unlock()
	q.mu.RLock()
	defer q.mu.RUnlock()
	for n := next; n < min(int((q.idx.Last().Job+1)/PageJobs), q.idx.Pages()); n++ {
		if q.idx.Page(n).Pending < packFewest {
			continue
		}
		q.idx.EachOf(n, func(id JobID, j index.Job) {
			if j.Status == Pending && j.Size+int64(j.FileLength) <= packLimit {
				ids = append(ids, id)
				size += packEntry + int(j.Size) + int(j.FileLength)
			}
		})
		if len(ids) > 0 {
			return n, ids, size
		}
	}
	return -1, nil, 0
}

// writePack writes the pack of page n with those of the jobs that can be read; size
// is about how many bytes they are.
func (q *Queue) writePack(n int, ids []JobID, size int) error {
	dir, err := q.indexDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	buf := append(make([]byte, 0, min(size, packSize)+packLimit), packMagic...)
	for _, id := range ids {
		if len(buf) >= packSize {
			break
		}
		v, ok := q.view(id)
		if !ok || v.Journaled.File == 0 || v.Journaled.Payload == 0 {
			continue // its files are as good
		}
		text, payload, err := q.journaledParts(&v, true)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		buf = le.AppendUint32(buf, uint32(id))
		buf = le.AppendUint32(buf, uint32(len(text)))
		buf = le.AppendUint32(buf, uint32(len(payload)))
		buf = append(append(buf, text...), payload...)
	}
	if len(buf) == len(packMagic) {
		return errPack
	}
	return dir.Renew(packName(n), buf)
}

// dropPacks removes the packs of pages that have no pending job any more, or all
// packs.
func (q *Queue) dropPacks(all bool) {
	var old []int
	q.packs.mu.Lock()
	q.mu.RLock()
	for n := range q.packs.made {
		if all || q.idx.Page(n).Pending == 0 {
			old = append(old, n)
			delete(q.packs.made, n)
			delete(q.packs.loaded, n)
		}
	}
	q.mu.RUnlock()
	q.packs.mu.Unlock()
	if len(old) == 0 {
		return
	}
	dir, err := q.indexDir()
	if err != nil {
		return
	}
	defer dir.Close()
	for _, n := range old {
		_ = dir.Remove(packName(n)) // one that stays is not believed
	}
}

// findPacks notes which pages have a pack, and removes all others, among them those
// of former versions, kN. Pages that were full before and have none go without: to
// make one would read all their files.
func (q *Queue) findPacks(dir *durable.Dir) error {
	var strange []string
	p := &q.packs
	p.next = max(0, q.idx.Pages()-1)
	err := dir.Names(func(name string) {
		n, ok := parsePackName(name)
		_, former := parsePackName(strings.Replace(name, "k", "c", 1))
		switch {
		case ok && q.idx.Page(n).Pending > 0:
			p.made[n] = true
		case ok || former:
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
