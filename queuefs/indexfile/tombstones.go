package indexfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"sort"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// ErrTombstones is the error for a file without tombstones that verify.
var ErrTombstones = errors.New("file does not verify")

// TombstoneBatch is the most tombstones for one Append: so many can be torn.
const TombstoneBatch = 4096

// Tombstones are the file of tombstones of a queue, in the order of their events. A
// crash can tear its end, to be cut off and replayed from the journal. It is for one
// goroutine at a time.
type Tombstones struct {
	Queue string // each tombstone is bound to it

	size int64 // bytes of the file without damage
}

// parse reads a tombstone of the queue.
func (t *Tombstones) parse(b []byte) (index.Tombstone, bool) {
	s, ok := index.ParseTombstone(b)
	if !ok {
		return s, false
	}
	return s, binary.LittleEndian.Uint32(b[index.TombstoneSize-4:]) == t.of()
}

// of is the sum of the name of the queue.
func (t *Tombstones) of() uint32 { return crc32.Checksum([]byte(t.Queue), castagnoli) }

// A SyncError is a failed sync, and final.
type SyncError struct{ Err error }

func (e *SyncError) Error() string { return e.Err.Error() }
func (e *SyncError) Unwrap() error { return e.Err }

// Read returns tombstones after since.
func (t *Tombstones) Read(dir *durable.Dir, since time.Time, limit int) (stones []index.Tombstone, err error) {
	if t.size == 0 {
		return nil, nil
	}
	f, err := dir.Open(TombstonesName)
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
		s, ok := t.parse(b)
		if !ok {
			return nil, ErrTombstones
		}
		stones = append(stones, s)
	}
	return stones, nil
}

// after returns the offset of the first tombstone after since.
func (t *Tombstones) after(f io.ReaderAt, since time.Time) (int64, error) {
	var bad error
	n := sort.Search(int(t.size/index.TombstoneSize), func(i int) bool {
		var b [index.TombstoneSize]byte
		_, err := f.ReadAt(b[:], int64(i)*index.TombstoneSize)
		s, ok := t.parse(b[:])
		if err == nil && !ok {
			err = ErrTombstones
		}
		bad = errors.Join(bad, err)
		return time.UnixMicro(s.Culled).After(since)
	})
	return int64(n) * index.TombstoneSize, bad
}

// Load finds out how much of the file verifies, and returns the last event in it.
// Only tombstones after the last but one sync can be torn; with none before, the
// error is ErrTombstones.
func (t *Tombstones) Load(dir *durable.Dir) (last job.Seq, err error) {
	f, err := dir.Open(TombstonesName)
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
	at := max(0, size-(TombstoneBatch+1)*index.TombstoneSize)
	b := make([]byte, size-at)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return 0, err
	}
	t.size = at
	for ; len(b) > 0; b = b[index.TombstoneSize:] {
		s, ok := t.parse(b)
		if !ok || s.Seq <= last {
			break
		}
		t.size, last = t.size+index.TombstoneSize, s.Seq
	}
	if at > 0 && last == 0 {
		t.size = 0
		return 0, ErrTombstones
	}
	return last, nil
}

// Verify reads the file from its beginning, and returns the tombstones in it that make
// sense, and whether there is anything else.
func (t *Tombstones) Verify(dir *durable.Dir) (good []byte, damaged bool, err error) {
	data, err := dir.ReadFile(TombstonesName, nil, math.MaxInt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var last job.Seq
	size := len(data)
	for ; len(data) >= index.TombstoneSize; data = data[index.TombstoneSize:] {
		if s, ok := t.parse(data); ok && s.Seq > last {
			good, last = append(good, data[:index.TombstoneSize]...), s.Seq
		}
	}
	return good, len(good) < size, nil
}

// Mend writes the file again with the tombstones that make sense.
func (t *Tombstones) Mend(dir *durable.Dir, good []byte) error {
	err := dir.Replace(TombstonesName, good)
	if err == nil {
		t.size = int64(len(good))
	}
	return err
}

// Append adds tombstones and syncs the file. After a failed sync
// the error is a [SyncError].
func (t *Tombstones) Append(dir *durable.Dir, stones []index.Tombstone) error {
	f, err := dir.Append(TombstonesName)
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
		binary.LittleEndian.PutUint32(b[len(b)-4:], t.of())
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := dir.SyncFile(f); err != nil {
		return &SyncError{err}
	}
	t.size += int64(len(b))
	return nil
}

// Prune writes the file anew without the tombstones before oldest, when they are
// the greater part of a large file.
func (t *Tombstones) Prune(dir *durable.Dir, oldest time.Time) error {
	if t.size < 2*TombstoneBatch*index.TombstoneSize {
		return nil
	}
	f, err := dir.Open(TombstonesName)
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
		err = dir.Rename(tmp, dir, TombstonesName)
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
