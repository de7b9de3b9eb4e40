package queuefs

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"cutie/queuefs/durable"
)

// packAll makes the packs that are due, as long as there is time, and not for
// long. It tells whether none is left.
func (s *Service) packAll(inTime func() bool) bool {
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	end := time.Now().Add(time.Duration(mostLeisure))
	for _, q := range s.Queues() {
		if !q.pack(func() bool { return inTime() && time.Now().Before(end) }) {
			return false
		}
	}
	return true
}

// pack makes the packs of the pages that have become full, as long as there is
// time, and room for the files of jobs. It comes before these are written, for
// what has no files is in the journal, where jobs are neighbours. It tells
// whether none is left; s.upkeep is held.
func (q *Queue) pack(inTime func() bool) bool {
	var dir *durable.Dir
	for {
		n := q.nextPack()
		if n < 0 || q.svc.full.Load() {
			return true
		}
		if !inTime() {
			return false
		}
		if dir == nil {
			var err error
			if dir, err = q.indexDir(); err != nil {
				return true
			}
			defer dir.Close()
		}
		// What fails is not tried again: the disk may be full.
		q.packed(n, q.writePack(dir, n) == nil)
	}
}

// nextPack returns the first page of which a pack is due, -1 if there is none.
func (q *Queue) nextPack() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for to := min(int((q.job+1)/PageJobs), len(q.idx.pages)); q.unpacked < to; q.unpacked++ {
		if p := q.idx.pages[q.unpacked]; p != nil && !p.pack && p.count[Pending] >= packFewest {
			return q.unpacked
		}
	}
	return -1
}

// packed notes whether page n has a pack now.
func (q *Queue) packed(n int, there bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unpacked = n + 1
	if n < len(q.idx.pages) && q.idx.pages[n] != nil {
		q.idx.pages[n].pack = there
	}
}

// dropPacks removes the packs of pages that have no pending job any more, or all
// packs.
func (q *Queue) dropPacks(all bool) {
	q.mu.Lock()
	var old []int
	for n, p := range q.idx.pages {
		if p != nil && p.pack && (all || p.count[Pending] == 0) {
			p.pack = false
			old = append(old, n)
		}
	}
	q.mu.Unlock()
	if len(old) == 0 {
		return
	}
	dir, err := q.indexDir()
	if err != nil {
		return
	}
	defer dir.Close()
	for _, n := range old {
		q.svc.packs.drop(func(p *pack) bool { return p.q == q && p.page == n })
		_ = dir.Remove(packName(n)) // what stays behind is not believed
	}
}

// writePack writes the pack of page n.
func (q *Queue) writePack(dir *durable.Dir, n int) (err error) {
	f, tmp, err := dir.Temp()
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, dir.Remove(tmp))
		}
	}()
	w := packWriter{q: q, head: make([]byte, packHeader+packTable), out: bufio.NewWriterSize(f, 256<<10)}
	copy(w.head, packMagic)
	le := binary.LittleEndian
	le.PutUint32(w.head[8:], uint32(n))
	if _, err := f.Seek(int64(len(w.head)), io.SeekStart); err != nil {
		return err
	}
	w.offset = len(w.head)
	if err := w.jobs(q.packable(n)); err != nil {
		return err
	}
	le.PutUint32(w.head[12:], crc32.Checksum(w.head[packHeader:], castagnoli))
	if err := w.out.Flush(); err != nil {
		return err
	}
	if _, err := f.WriteAt(w.head, 0); err != nil {
		return err
	}
	return dir.Rename(tmp, dir, packName(n))
}

// packable returns the jobs of page n that a pack has: pending and small.
func (q *Queue) packable(n int) []JobID {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if n >= len(q.idx.pages) || q.idx.pages[n] == nil {
		return nil
	}
	ids := make([]JobID, 0, PageJobs)
	for i := range PageJobs {
		s := q.idx.pages[n].slot(i)
		if s.status() == Pending && s.size()+int64(s.textLen()) <= packLimit {
			ids = append(ids, JobID(n*PageJobs+i))
		}
	}
	return ids
}

// A packWriter writes the jobs of one page.
type packWriter struct {
	q      *Queue
	head   []byte
	out    *bufio.Writer
	offset int
	buf    []byte
}

// jobs writes jobs with what is to be read of them, and passes over those of
// which it cannot be read.
func (w *packWriter) jobs(ids []JobID) error {
	f := fetch{q: w.q, payloads: [][]byte{}}
	for len(ids) > 0 {
		n, err := w.run(&f, ids)
		if n == 0 && err == nil {
			n, err = 1, w.job(ids[0])
		}
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// run writes those of the jobs that ids begins with which stand in the journal
// with their payloads, one behind the other, and returns how many.
func (w *packWriter) run(f *fetch, ids []JobID) (int, error) {
	from, length := f.plan(ids)
	if len(f.parts) == 0 {
		return 0, nil
	}
	w.buf = slices.Grow(w.buf[:0], length)[:length]
	if w.q.svc.log.ReadAt(w.buf, from) != nil {
		return 0, nil // the files are as good
	}
	for i := range f.parts {
		p := &f.parts[i]
		text := w.buf[p.text:p.end]
		if p.status != Pending || p.whole < p.end || sha256.Sum256(text) != p.sum {
			return i, nil
		}
		if err := w.add(ids[i], text, w.buf[p.end:p.whole], p.sha); err != nil {
			return i, err
		}
	}
	return len(f.parts), nil
}

// job writes one job, wherever it is, if it is still pending and small.
func (w *packWriter) job(id JobID) error {
	v, ok := w.q.view(id)
	s := v.s()
	if !ok || s.status() != Pending || s.size()+int64(s.textLen()) > packLimit {
		return nil
	}
	text, v, err := w.q.text(id)
	if err != nil || len(text) != v.s().textLen() {
		return nil
	}
	p, err := w.q.Payload(id)
	if err != nil {
		return nil
	}
	defer p.Close()
	payload := make([]byte, p.Size())
	if _, err := io.ReadFull(p, payload); err != nil {
		return nil
	}
	return w.add(id, text, payload, [32]byte(v.s().sha()))
}

// add writes one job, unless its payload has not the digest sha: somebody may
// mend the file.
func (w *packWriter) add(id JobID, text, payload []byte, sha [32]byte) error {
	if sha256.Sum256(payload) != sha {
		return nil
	}
	e := w.head[packHeader+int(id%PageJobs)*packEntry:]
	le := binary.LittleEndian
	le.PutUint32(e, uint32(w.offset))
	le.PutUint32(e[4:], uint32(len(text)))
	le.PutUint32(e[8:], crc32.Checksum(payload, castagnoli))
	copy(e[12:packEntry], sha[:])
	w.offset += len(text) + len(payload)
	w.out.Write(text)
	_, err := w.out.Write(payload)
	return err
}
