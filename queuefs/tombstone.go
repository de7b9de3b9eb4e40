package queuefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sort"
	"sync"
	"time"

	"cutie/queuefs/durable"
)

// A Tombstone tells that there was a job.
type Tombstone struct {
	Job    JobID
	Culled time.Time
	Seq    Seq // of the event
}

// Tombstones are kept in log/index/queues/QID/culled, in the order of their
// events, 32 octets each:
//
//	job u64 | culled µs i64 | seq u64 | crc u32 | 0 u32
//
// Those since the last writing are in memory, and in the journal. The file is
// written at checkpoints, before the journal goes, and while many jobs are
// culled; what a crash tore is cut off and comes again from the journal, and
// what the journal has again is known by its number.
const (
	graveFile  = "culled"
	graveSize  = 32
	graveBatch = 4096 // at most between two syncs of the file, so at most torn
)

// maxTombstones is how many one call returns.
const maxTombstones = 10_000

// graves are the tombstones of a queue.
type graves struct {
	file sync.Mutex // held while the file is read or written; taken before mu of the queue
	size int64      // octets of the file that count

	// By mu of the queue.
	fresh []Tombstone // not in the file
	last  Seq         // of all
}

// add keeps the tombstone of an event; q.mu is held.
func (g *graves) add(r *record) {
	if r.seq > g.last {
		g.fresh, g.last = append(g.fresh, Tombstone{Job: r.job, Culled: micro(r.time), Seq: r.seq}), r.seq
	}
}

// Tombstones returns the jobs that were culled after since, in the order of
// their events, at most limit of them: 0 means 1000, and no more than 10,000
// are given. They are kept for [ServiceInfo].TombstoneAge. The time of the last one
// is the since of the next call.
func (q *Queue) Tombstones(since time.Time, limit int) ([]Tombstone, error) {
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, maxTombstones)
	if kept := q.rememberedSince(); since.Before(kept) {
		since = kept
	}
	g := &q.graves
	g.file.Lock()
	defer g.file.Unlock()
	stones, err := q.readGraves(since, limit)
	if err != nil {
		return nil, fmt.Errorf("queue %s: tombstones: %w", q.id, err)
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	for _, t := range g.fresh {
		if len(stones) < limit && t.Culled.After(since) {
			stones = append(stones, t)
		}
	}
	return stones, nil
}

// rememberedSince returns the time before which tombstones may be gone.
func (q *Queue) rememberedSince() time.Time {
	hours := q.svc.Info().TombstoneAge
	if hours == 0 {
		hours = 90 * 24
	}
	return q.svc.opts.Now().Add(-time.Duration(hours) * time.Hour)
}

// readGraves reads tombstones after since from the file; graves.file is held.
func (q *Queue) readGraves(since time.Time, limit int) ([]Tombstone, error) {
	if q.graves.size == 0 {
		return nil, nil
	}
	dir, err := q.indexDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(graveFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from, err := graveAfter(f, q.graves.size, since)
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(int64(limit)*graveSize, q.graves.size-from))
	if _, err := f.ReadAt(b, from); err != nil {
		return nil, err
	}
	stones := make([]Tombstone, 0, len(b)/graveSize)
	for ; len(b) > 0; b = b[graveSize:] {
		t, ok := parseGrave(b)
		if !ok {
			return nil, errGrave
		}
		stones = append(stones, t)
	}
	return stones, nil
}

var errGrave = errors.New("file does not verify")

// graveAfter returns where in the file the tombstones after since begin.
func graveAfter(f io.ReaderAt, size int64, since time.Time) (int64, error) {
	var bad error
	n := sort.Search(int(size/graveSize), func(i int) bool {
		var b [graveSize]byte
		_, err := f.ReadAt(b[:], int64(i)*graveSize)
		t, ok := parseGrave(b[:])
		if err == nil && !ok {
			err = errGrave
		}
		bad = errors.Join(bad, err)
		return t.Culled.After(since)
	})
	return int64(n) * graveSize, bad
}

func (t *Tombstone) append(dst []byte) []byte {
	le := binary.LittleEndian
	n := len(dst)
	dst = le.AppendUint64(dst, uint64(t.Job))
	dst = le.AppendUint64(dst, uint64(t.Culled.UnixMicro()))
	dst = le.AppendUint64(dst, uint64(t.Seq))
	dst = le.AppendUint32(dst, crc32.Checksum(dst[n:], castagnoli))
	return le.AppendUint32(dst, 0)
}

func parseGrave(b []byte) (Tombstone, bool) {
	le := binary.LittleEndian
	t := Tombstone{Job: JobID(le.Uint64(b)), Culled: micro(int64(le.Uint64(b[8:]))), Seq: Seq(le.Uint64(b[16:]))}
	return t, t.Job != 0 && le.Uint32(b[24:]) == crc32.Checksum(b[:24], castagnoli)
}

// openGraves finds out how much of the file counts. Only what came between its
// last two syncs can be torn.
func (q *Queue) openGraves(dir *durable.Dir) error {
	f, err := dir.Open(graveFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size() / graveSize * graveSize
	at := max(0, size-(graveBatch+1)*graveSize)
	b := make([]byte, size-at)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return err
	}
	g := &q.graves
	g.size = at
	for ; len(b) > 0; b = b[graveSize:] {
		t, ok := parseGrave(b)
		if !ok || t.Seq <= g.last {
			break
		}
		g.size, g.last = g.size+graveSize, t.Seq
	}
	if at > 0 && g.last == 0 {
		q.svc.report(Problem{Path: q.indexPath(graveFile), Text: errGrave.Error() + "; which jobs were culled before is forgotten"})
		g.size = 0
	}
	return nil
}

// bury writes the tombstones in memory to the file.
func (q *Queue) bury() error {
	g := &q.graves
	g.file.Lock()
	defer g.file.Unlock()
	q.mu.RLock()
	fresh := g.fresh
	q.mu.RUnlock()
	if len(fresh) == 0 {
		return nil
	}
	dir, err := q.indexDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := q.prune(dir); err != nil {
		return err
	}
	f, err := dir.Append(graveFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(g.size); err != nil { // of a crash, or of an attempt that failed
		return err
	}
	for len(fresh) > 0 {
		n := min(len(fresh), graveBatch)
		b := make([]byte, 0, n*graveSize)
		for i := range fresh[:n] {
			b = fresh[i].append(b)
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		if err := dir.SyncFile(f); err != nil {
			// A second sync would not tell.
			q.svc.fail(err)
			return errors.Join(ErrFailed, err)
		}
		g.size += int64(len(b))
		fresh = fresh[n:]
		q.mu.Lock()
		if g.fresh = g.fresh[n:]; len(g.fresh) == 0 {
			g.fresh = nil
		}
		q.mu.Unlock()
	}
	return nil
}

// prune writes the file anew without the tombstones whose time is over, when
// they are the greater part of a large file.
func (q *Queue) prune(dir *durable.Dir) error {
	g := &q.graves
	if g.size < 2*graveBatch*graveSize {
		return nil
	}
	f, err := dir.Open(graveFile)
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := graveAfter(f, g.size, q.rememberedSince())
	if err != nil || from < g.size/2 {
		return err
	}
	out, tmp, err := dir.Temp()
	if err != nil {
		return err
	}
	if err = rewriteGraves(dir, out, io.NewSectionReader(f, from, g.size-from)); err == nil {
		err = dir.Rename(tmp, dir, graveFile)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(tmp))
	}
	g.size -= from
	return dir.Sync()
}

func rewriteGraves(dir *durable.Dir, out *os.File, from io.Reader) error {
	_, err := io.Copy(out, from)
	if err == nil {
		err = dir.SyncFile(out)
	}
	return errors.Join(err, out.Close())
}
