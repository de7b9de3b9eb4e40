package queuefs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
)

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    JobID
	Culled time.Time
	Seq    Seq // of the event
}

// maxTombstones is how many one call returns.
const maxTombstones = 10_000

// Tombstones returns the jobs culled after since, in the order of their events, at
// most limit of them: 0 means 1000, and 10,000 is the most. They are kept for
// [ServiceInfo].TombstoneAge. The time of the last one is the since of the next
// call.
func (q *Queue) Tombstones(since time.Time, limit int) ([]Tombstone, error) {
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, maxTombstones)
	if kept := q.tombstonesSince(); since.Before(kept) {
		since = kept
	}
	q.tombstones.mu.Lock()
	defer q.tombstones.mu.Unlock()
	dir, err := q.indexDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	filed, err := q.tombstones.read(dir, since, limit)
	if err != nil {
		return nil, fmt.Errorf("queue %s: tombstones: %w", q.id, err)
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	var stones []Tombstone
	for _, t := range slices.Concat(filed, q.idx.Tombstones.Fresh()) {
		if at := micro(t.Culled); len(stones) < limit && at.After(since) {
			stones = append(stones, Tombstone{Job: t.Job, Culled: at, Seq: t.Seq})
		}
	}
	return stones, nil
}

// tombstonesSince returns the time of the oldest tombstones to keep.
func (q *Queue) tombstonesSince() time.Time {
	hours := q.svc.Info().TombstoneAge
	if hours == 0 {
		hours = 90 * 24
	}
	return q.svc.opts.Now().Add(-time.Duration(hours) * time.Hour)
}

// loadTombstones reads the end of the file.
func (q *Queue) loadTombstones(dir *durable.Dir) error {
	last, err := q.tombstones.load(dir)
	if errors.Is(err, errTombstones) {
		q.svc.report(Problem{Path: q.indexPath(tombstonesName), Text: err.Error() + "; which jobs were culled before is forgotten"})
		err = nil
	}
	q.idx.Tombstones.SetLast(last)
	return err
}

// fileTombstones moves the tombstones in memory to the file.
func (q *Queue) fileTombstones() error {
	q.tombstones.mu.Lock()
	defer q.tombstones.mu.Unlock()
	q.mu.RLock()
	fresh := q.idx.Tombstones.Fresh()
	q.mu.RUnlock()
	if len(fresh) == 0 {
		return nil
	}
	dir, err := q.indexDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := q.tombstones.prune(dir, q.tombstonesSince()); err != nil {
		return err
	}
	for len(fresh) > 0 {
		n := min(len(fresh), tombstoneBatch)
		if err := q.tombstones.append(dir, fresh[:n]); err != nil {
			if errors.Is(err, ErrFailed) {
				q.svc.fail(err)
			}
			return err
		}
		fresh = fresh[n:]
		q.mu.Lock()
		q.idx.Tombstones.Filed(n)
		q.mu.Unlock()
	}
	return nil
}

const (
	tombstonesName = "culled" // in log/index/queues/QID
	tombstoneBatch = 4096     // at most between two syncs of the file, so at most torn
)

var errTombstones = errors.New("file does not verify")

// A tombstoneFile has the tombstones of a queue in the order of their events. It
// is written at checkpoints, before the journal is released. A crash can tear its
// end, to be cut off and replayed from the journal.
type tombstoneFile struct {
	mu   sync.Mutex // taken before mu of the queue
	size int64      // bytes of the file without damage
}

// read returns tombstones after since.
func (t *tombstoneFile) read(dir *durable.Dir, since time.Time, limit int) (stones []index.Tombstone, err error) {
	if t.size == 0 {
		return nil, nil
	}
	f, err := dir.Open(tombstonesName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from, err := t.after(f, since)
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(int64(limit)*index.TombstoneSize, t.size-from))
	if _, err := f.ReadAt(b, from); err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[index.TombstoneSize:] {
		s, ok := index.ParseTombstone(b)
		if !ok {
			return nil, errTombstones
		}
		stones = append(stones, s)
	}
	return stones, nil
}

// after returns the offset of the first tombstone after since.
func (t *tombstoneFile) after(f io.ReaderAt, since time.Time) (int64, error) {
	var bad error
	n := sort.Search(int(t.size/index.TombstoneSize), func(i int) bool {
		var b [index.TombstoneSize]byte
		_, err := f.ReadAt(b[:], int64(i)*index.TombstoneSize)
		s, ok := index.ParseTombstone(b[:])
		if err == nil && !ok {
			err = errTombstones
		}
		bad = errors.Join(bad, err)
		return micro(s.Culled).After(since)
	})
	return int64(n) * index.TombstoneSize, bad
}

// load finds out how much of the file verifies, and returns the last event in it.
// Only tombstones after the last but one sync can be torn; with none before, the
// error is errTombstones.
func (t *tombstoneFile) load(dir *durable.Dir) (last Seq, err error) {
	f, err := dir.Open(tombstonesName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size() / index.TombstoneSize * index.TombstoneSize
	at := max(0, size-(tombstoneBatch+1)*index.TombstoneSize)
	b := make([]byte, size-at)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return 0, err
	}
	t.size = at
	for ; len(b) > 0; b = b[index.TombstoneSize:] {
		s, ok := index.ParseTombstone(b)
		if !ok || s.Seq <= last {
			break
		}
		t.size, last = t.size+index.TombstoneSize, s.Seq
	}
	if at > 0 && last == 0 {
		t.size = 0
		return 0, errTombstones
	}
	return last, nil
}

// append adds tombstones and syncs the file. A failed sync is final: the error is
// ErrFailed.
func (t *tombstoneFile) append(dir *durable.Dir, stones []index.Tombstone) error {
	f, err := dir.Append(tombstonesName)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(t.size); err != nil { // after a crash, or a failed attempt
		return err
	}
	b := make([]byte, 0, len(stones)*index.TombstoneSize)
	for i := range stones {
		b = stones[i].Append(b)
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := dir.SyncFile(f); err != nil {
		return errors.Join(ErrFailed, err)
	}
	t.size += int64(len(b))
	return nil
}

// prune writes the file anew without the tombstones before oldest, when they are
// the greater part of a large file.
func (t *tombstoneFile) prune(dir *durable.Dir, oldest time.Time) error {
	if t.size < 2*tombstoneBatch*index.TombstoneSize {
		return nil
	}
	f, err := dir.Open(tombstonesName)
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := t.after(f, oldest)
	if err != nil || from < t.size/2 {
		return err
	}
	out, tmp, err := dir.Temp()
	if err != nil {
		return err
	}
	if err = copySynced(dir, out, io.NewSectionReader(f, from, t.size-from)); err == nil {
		err = dir.Rename(tmp, dir, tombstonesName)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(tmp))
	}
	t.size -= from
	return dir.Sync()
}

// copySynced writes a file and syncs and closes it.
func copySynced(dir *durable.Dir, out *os.File, from io.Reader) error {
	_, err := io.Copy(out, from)
	if err == nil {
		err = dir.SyncFile(out)
	}
	return errors.Join(err, out.Close())
}
