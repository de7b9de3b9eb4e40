// Package indexfile has the files of the index of a home, in log/index, except for the
// pages themselves:
//
//	checkpoint          where replay begins, and whether the home was closed
//	doubt               a sync of the file system has failed since the checkpoint
//	small               the queue file and page 0 of each queue with few jobs
//	queues/QID/queue    numbers and names, needed by the pages
//	queues/QID/culled   tombstones of culled jobs
//	queues/QID/pN       page N, see package index
//
// It reads and writes their forms, and decides nothing. The checkpoint names the format of
// the home, 1; another one is refused.
package indexfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A Checkpoint says where replay begins.
type Checkpoint struct {
	Past, Keep journal.LSN
	Small      int64 // size of the catalog of small queues; 0: unknown
	Clean      bool  // closed in order: the files are exact
	Stopped    bool  // closed in order, with files behind the journal from Past on
}

// Text returns the contents of the file.
func (c Checkpoint) Text() []byte {
	u := func(n journal.LSN) string { return strconv.FormatUint(uint64(n), 10) }
	r := anvl.Record{{Name: "lsn", Value: u(c.Past)}, {Name: "keep", Value: u(c.Keep)},
		{Name: "clean", Value: strconv.FormatBool(c.Clean)}, {Name: "format", Value: format}}
	if c.Stopped {
		r.Add("stopped", "true")
	}
	if c.Small > 0 {
		r.Add("small", strconv.FormatInt(c.Small, 10))
	}
	return anvl.AppendRecord(nil, r)
}

// From returns where replay begins.
func (c Checkpoint) From() journal.LSN {
	if c.Keep != 0 {
		return min(c.Keep, c.Past)
	}
	return c.Past
}

// Reached reports whether a journal with records up to reach, 0 for none at all, has all
// that was in it at the checkpoint. After a clean stop none is needed.
func (c Checkpoint) Reached(reach journal.LSN) bool {
	return c.Clean || reach >= max(c.Past, 1)
}

// format is the number of the form of a home: of its index, its journal and its records.
const format = "1"

// ErrFormat is the error for a home of another format.
var ErrFormat = errors.New("the home is of another version")

// ParseCheckpoint reads a checkpoint. The error is [ErrFormat] for another format.
func ParseCheckpoint(r anvl.Record) (c Checkpoint, err error) {
	if f := r.Value("format"); f != format {
		return c, fmt.Errorf("%w: it has format %q, and this program reads format %s; use the program that wrote it", ErrFormat, f, format)
	}
	number := func(name string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(r.Value(name), 10, 64)
		}
		return n
	}
	c.Clean, c.Stopped = r.Value("clean") == "true", r.Value("stopped") == "true"
	c.Past, c.Keep = journal.LSN(number("lsn")), journal.LSN(number("keep"))
	if r.Value("small") != "" {
		c.Small = int64(number("small"))
	}
	return c, err
}

// CheckpointIn is the file of a [Checkpoint] in the directory of the index.
func CheckpointIn(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: CheckpointName, Kind: "checkpoint", Max: 1 << 16}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Names of files; SmallName is a catalog of queues with few jobs, tombstones are beside the
// file of a queue.
const (
	QueueName      = "queue"
	CheckpointName = "checkpoint"
	DoubtName      = "doubt"
	TombstonesName = "culled"
	SmallName      = "small"
)

// ParsePageName accepts the output of [index.PageName] only.
func ParsePageName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'p' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && index.PageName(n) == name
}

// A Queue is the file beside the pages of a queue.
type Queue struct {
	Last                index.Numbers
	Submitted, Consumed int64
	Created             int64 // µs, when the queue was made; 0: unknown
	Types               []string
	Info                [32]byte    // SHA-256 of the queue-info.txt in the last event of it; zero: unknown
	Pages               int         // how many there are
	At                  journal.LSN // of the checkpoint it belongs to
	Dirs                [4]int64    // when the directories last changed, if the home was closed; else 0
	Since               journal.LSN // earlier records are of a former queue of the name
	Before              job.Seq     // last event of former queues of the name
	Settings            []byte      // the last legible queue-info.txt; nil: unknown
	Stamp               string      // of the file with the settings, see [home.Reading.Stamp]; "": unknown
	Bare                bool        // written before the first checkpoint: pages say nothing
	Empty               bool        // the queue had no jobs at that time
	Culled              job.Seq     // of the last tombstone in its file; 0: unknown
	Mirror              bool        // the queue was a mirror, not yet live
}

// Text returns the contents of the file.
func (x Queue) Text() []byte {
	var r anvl.Record
	n := func(name string, v int64) { r.Add(name, strconv.FormatInt(v, 10)) }
	n("job", int64(x.Last.Job))
	n("sequence", int64(x.Last.Seq))
	n("time", x.Last.Time)
	n("submitted", x.Submitted)
	n("consumed", x.Consumed)
	n("created", x.Created)
	n("pages", int64(x.Pages))
	n("lsn", int64(x.At))
	n("since", int64(x.Since))
	n("before", int64(x.Before))
	if x.Bare {
		n("bare", 1)
		if x.Empty {
			n("empty", 1)
		}
	}
	if x.Mirror {
		n("mirror", 1)
	}
	if x.Culled != 0 {
		n("culled", int64(x.Culled))
	}
	if x.Info != ([32]byte{}) {
		r.Add("info", hex.EncodeToString(x.Info[:]))
	}
	if len(x.Settings) > 0 {
		r.Add("settings", string(x.Settings))
		if x.Stamp != "" {
			r.Add("stamp", x.Stamp)
		}
	}
	for _, d := range x.Dirs {
		n("directory", d)
	}
	for _, t := range x.Types {
		r.Add("type", t)
	}
	return anvl.AppendRecord(nil, r)
}

// ParseQueue reads the output of Text.
func ParseQueue(data []byte) (x Queue, err error) {
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return x, err
	}
	dirs := 0
	for _, e := range r {
		if e.Name == "type" {
			x.Types = append(x.Types, e.Value)
			continue
		}
		if e.Name == "settings" {
			x.Settings = []byte(e.Value)
			continue
		}
		if e.Name == "stamp" {
			x.Stamp = e.Value
			continue
		}
		if e.Name == "info" {
			b, err := hex.DecodeString(e.Value)
			if err != nil || len(b) != len(x.Info) {
				return x, index.ErrPage
			}
			copy(x.Info[:], b)
			continue
		}
		v, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil {
			return x, err
		}
		switch e.Name {
		case "job":
			x.Last.Job = job.ID(v)
		case "sequence":
			x.Last.Seq = job.Seq(v)
		case "time":
			x.Last.Time = v
		case "submitted":
			x.Submitted = v
		case "consumed":
			x.Consumed = v
		case "created":
			x.Created = v
		case "pages":
			x.Pages = int(v)
		case "lsn":
			x.At = journal.LSN(v)
		case "since":
			x.Since = journal.LSN(v)
		case "before":
			x.Before = job.Seq(v)
		case "culled":
			x.Culled = job.Seq(v)
		case "bare":
			x.Bare = v != 0
		case "empty":
			x.Empty = v != 0
		case "mirror":
			x.Mirror = v != 0
		case "directory":
			if dirs < len(x.Dirs) {
				x.Dirs[dirs] = v
				dirs++
			}
		}
	}
	if len(x.Types) == 0 || x.Types[0] != "" {
		return x, index.ErrPage
	}
	return x, nil
}

// QueueIn is the file of a [Queue] in the directory of its index.
func QueueIn(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: QueueName, Kind: "index of queue " + queue, Max: 64 << 20}
}

// ReadQueue reads the file of a [Queue]. The error wraps
// [fs.ErrNotExist] or [durable.ErrDamaged] if there is none to go by.
func ReadQueue(dir *durable.Dir, queue string) (x Queue, err error) {
	file := QueueIn(dir, queue)
	data, err := file.Read()
	if err != nil {
		return x, err
	}
	if x, err = ParseQueue(data); err != nil {
		return x, fmt.Errorf("%w: %w", durable.ErrDamaged, err)
	}
	return x, nil
}

// Salvage returns the highest numbers in the lines of a damaged file: any line can be
// wrong or missing. A number that leaves few after it is not believed.
func Salvage(data []byte) (last index.Numbers) {
	believe := func(n index.Numbers) {
		if n.Job <= job.MaxID/2 && n.Seq <= job.MaxID/2 {
			last = last.Max(n)
		}
	}
	for line := range bytes.Lines(data) {
		name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err == nil && name == "job":
			believe(index.Numbers{Job: job.ID(n)})
		case err == nil && name == "sequence":
			believe(index.Numbers{Seq: job.Seq(n)})
		}
	}
	return last
}

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
