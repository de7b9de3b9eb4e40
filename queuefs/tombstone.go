package queuefs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"sync"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
)

// A Tombstone tells that there was a job.
type Tombstone struct {
	Job    JobID
	Culled time.Time
	Seq    Seq // of the event
}

// Tombstones are kept in log/index/queues/QID/culled, in the order of their
// events.
// Those since the last writing are in memory, and in the journal. The file is
// written at checkpoints, before the journal goes, and while many jobs are
// culled; what a crash tore is cut off and comes again from the journal, and
// what the journal has again is known by its number.
const (
	graveFile  = "culled"
	graveBatch = 4096 // at most between two syncs of the file, so at most torn
)

// maxTombstones is how many one call returns.
const maxTombstones = 10_000

// graves are the tombstones of a queue.
type graves struct {
	file sync.Mutex // held while the file is read or written; taken before mu of the queue
	size int64      // octets of the file that count
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
	for _, t := range q.idx.Stones.Fresh() {
		if t := tombstone(t); len(stones) < limit && t.Culled.After(since) {
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
	b := make([]byte, min(int64(limit)*index.TombstoneSize, q.graves.size-from))
	if _, err := f.ReadAt(b, from); err != nil {
		return nil, err
	}
	stones := make([]Tombstone, 0, len(b)/index.TombstoneSize)
	for ; len(b) > 0; b = b[index.TombstoneSize:] {
		t, ok := index.ParseTombstone(b)
		if !ok {
			return nil, errGrave
		}
		stones = append(stones, tombstone(t))
	}
	return stones, nil
}

var errGrave = errors.New("file does not verify")

// graveAfter returns where in the file the tombstones after since begin.
func graveAfter(f io.ReaderAt, size int64, since time.Time) (int64, error) {
	var bad error
	n := sort.Search(int(size/index.TombstoneSize), func(i int) bool {
		var b [index.TombstoneSize]byte
		_, err := f.ReadAt(b[:], int64(i)*index.TombstoneSize)
		t, ok := index.ParseTombstone(b[:])
		if err == nil && !ok {
			err = errGrave
		}
		bad = errors.Join(bad, err)
		return micro(t.Culled).After(since)
	})
	return int64(n) * index.TombstoneSize, bad
}

func tombstone(t index.Tombstone) Tombstone {
	return Tombstone{Job: t.Job, Culled: micro(t.Culled), Seq: t.Seq}
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
	size := st.Size() / index.TombstoneSize * index.TombstoneSize
	at := max(0, size-(graveBatch+1)*index.TombstoneSize)
	b := make([]byte, size-at)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return err
	}
	g, last := &q.graves, Seq(0)
	g.size = at
	for ; len(b) > 0; b = b[index.TombstoneSize:] {
		t, ok := index.ParseTombstone(b)
		if !ok || t.Seq <= last {
			break
		}
		g.size, last = g.size+index.TombstoneSize, t.Seq
	}
	q.idx.Stones.SetLast(last)
	if at > 0 && last == 0 {
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
	fresh := q.idx.Stones.Fresh()
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
		b := make([]byte, 0, n*index.TombstoneSize)
		for i := range fresh[:n] {
			b = fresh[i].Append(b)
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
		q.idx.Stones.Filed(n)
		q.mu.Unlock()
	}
	return nil
}

// prune writes the file anew without the tombstones whose time is over, when
// they are the greater part of a large file.
func (q *Queue) prune(dir *durable.Dir) error {
	g := &q.graves
	if g.size < 2*graveBatch*index.TombstoneSize {
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
