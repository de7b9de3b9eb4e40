// Package snapshot keeps the index in the table of a home: a row and the pages of each
// queue, its tombstones, and the checkpoint from which on the log is replayed. A checkpoint
// stages what has changed; the opening reads all of it.
//
// The index is derived: pages that do not verify are made again from the directories. Only
// the last numbers are not, so the row of a queue stays when the queue is removed: a queue
// made again under its name goes on with its numbers, and the reference of a job, or the name
// of a document that ends with an event, never comes to mean another in the caches and notes
// of clients.
package snapshot

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
)

// TablePath is the path of the table below a home.
const TablePath = home.LogDir + "/" + table.Name

// SubscriptionsPath stands for the rows of the hub in reports of damage.
const SubscriptionsPath = TablePath + "/" + string(table.Subscriptions)

// A Store is the index of a home in its table. Make one with [Open].
type Store struct {
	Options
	Table *table.Table

	doubt           atomic.Bool
	closed, missing bool
	checkpoint      table.Checkpoint
	indexed         bool

	mu    sync.Mutex
	floor index.Numbers // the last numbers of a removed queue may be as high, once rows were lost
}

// Options are those of [Open].
type Options struct {
	Log     *durable.Dir            // log of the home
	Former  *durable.Dir            // log of the files from before the directory was made again from its store; nil: it was not
	Look    bool                    // change nothing
	Rebuild bool                    // make all pages again from the directories; former ones say only what these do not
	Report  func(path, text string) // called with damage found
	Fail    func(error)             // called when the table cannot be written, or used, any more
	Highest func() index.Numbers    // last numbers of all open queues, for damaged rows
	// Published returns the last event that published documents of a queue name; nil: none do.
	Published func(id string) (job.Seq, error)
}

// Open opens the table of a home, and reads its checkpoint. A table that does not verify, or
// cannot be read, is set aside in log/corrupt, and another one begins: the directories have
// the state then. To look, one that does not verify counts as missing, and one that cannot be
// read is an error.
func Open(o Options) (*Store, error) {
	s := &Store{Options: o}
	if err := s.unpack(); err != nil {
		return nil, err
	}
	if err := s.openTable(); err != nil {
		return nil, err
	}
	s.Table.Failed = s.Fail
	if s.Former != nil {
		if err := s.keepSubscriptions(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.readCheckpoint(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	_, err := s.Log.Stat(doubtName)
	s.doubt.Store(!errors.Is(err, fs.ErrNotExist))
	if x, ok, _ := s.row(table.Meta, table.FloorKey); ok {
		s.floor = x.Last
	}
	return s, nil
}

func (s *Store) openTable() (err error) {
	s.Table, err = table.Open(s.Log, s.Look)
	damaged := errors.Is(err, durable.ErrDamaged)
	switch {
	case err == nil:
		return nil
	case !damaged && !aboutFile(err):
		return err
	case s.Look && !damaged:
		return fmt.Errorf("%w; the file is derived: a start of the daemon, or cutie check --repair, sets it aside and makes it again", err)
	case s.Look:
		s.Report(TablePath, durable.Bare(err).Error()+"; to be made again from the directories")
		s.Table, err = table.None(s.Log), nil
		return nil
	}
	to, e := s.Log.SetAside(s.Log, table.Name, table.Name)
	if e != nil {
		return fmt.Errorf("%s cannot be read: %w; it is derived: move it away, and start again: %w", TablePath, durable.Bare(err), e)
	}
	s.Report(TablePath, fmt.Sprintf("%v; moved to %s/%s and made again from the directories; "+
		"last numbers of removed queues, and subscriptions, are forgotten", durable.Bare(err), home.LogDir, to))
	s.Table, err = table.Open(s.Log, false)
	return err
}

// aboutFile reports whether an error is about one file, and not about the process or the
// whole file system.
func aboutFile(err error) bool {
	for _, e := range []error{unix.EIO, unix.EACCES, unix.EPERM, unix.EISDIR, unix.ENOTDIR, unix.ELOOP,
		unix.ENXIO, unix.EUCLEAN, unix.EBADMSG, unix.ENODATA, unix.EFBIG, unix.EOVERFLOW, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readCheckpoint reads the checkpoint. Without a row that verifies the directories have the
// state.
func (s *Store) readCheckpoint() error {
	text, err := s.Table.Get(table.Meta, table.CheckpointKey)
	switch {
	case errors.Is(err, durable.ErrDamaged):
		s.Report(TablePath, err.Error()+"; the index is made again from the directories")
		return nil
	case err != nil:
		return err
	case text == nil:
		s.missing = true
		return nil
	}
	s.checkpoint, err = table.ParseCheckpoint(text)
	s.indexed, s.closed = err == nil, err == nil && s.checkpoint.Clean
	return err
}

// Checkpoint returns the checkpoint that was read; without one ok is false: the directories
// have the state.
func (s *Store) Checkpoint() (c table.Checkpoint, ok bool) { return s.checkpoint, s.indexed }

// Close lets go of the table.
func (s *Store) Close() error { return errors.Join(s.Table.Close(), s.Log.Close()) }

// Missing reports whether there was no checkpoint at all: the home is new, a copy, or has
// lost its index.
func (s *Store) Missing() bool { return s.missing }

// Closed reports whether the home was closed in order before it was opened.
func (s *Store) Closed() bool { return s.closed }

// Has reports whether the index knows of a queue, present or former.
func (s *Store) Has(id string) bool { return s.Table.Has(table.Queues, id) }

// doubtName is the name of a file in log: a sync of the file system has failed since the
// checkpoint.
const doubtName = "doubt"

// InDoubt reports whether a sync has failed since the last checkpoint: files may be in
// the cache alone.
func (s *Store) InDoubt() bool { return s.doubt.Load() }

// Doubt notes a failed sync. The cache may go on showing earlier writes, and this note
// as well, until the machine restarts.
func (s *Store) Doubt() {
	s.doubt.Store(true)
	_ = s.Log.Put(doubtName, nil)
}

// Trust takes Doubt back.
func (s *Store) Trust() error {
	if !s.InDoubt() {
		return nil
	}
	if err := s.Log.Remove(doubtName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.doubt.Store(false)
	return nil
}

// Known reports whether the index has more of a queue than the last numbers of a removed
// one. A row that cannot be read counts as more.
func (s *Store) Known(id string) bool {
	if !s.Has(id) {
		return false
	}
	f := s.File(id)
	return f.err != nil || !f.Bare || f.Queue.Settings != nil
}

// SetCheckpoint makes what was staged the state to begin from.
func (s *Store) SetCheckpoint(c *table.Checkpoint) error {
	s.Table.Put(table.Meta, table.CheckpointKey, c.Text())
	return s.Table.Commit()
}

// MarkOpen writes that the home is open: it was not closed in order.
func (s *Store) MarkOpen(c table.Checkpoint) error {
	c.Clean, c.Stopped = false, false
	return s.SetCheckpoint(&c)
}

// KeepFloor keeps numbers above all known ones, once rows were lost: those that have the last
// numbers of removed queues may be among them.
func (s *Store) KeepFloor() {
	highest := s.Highest()
	s.mu.Lock()
	s.floor = s.floor.Max(highest)
	last := s.floor
	s.mu.Unlock()
	s.put(table.Meta, table.FloorKey, &table.Queue{Last: last, Types: []string{""}, Bare: true})
}

// DropDamaged ends damaged rows that nothing else makes again: of removed queues, and under
// damaged keys. The last numbers in them are lost. kept says that there is such a queue.
func (s *Store) DropDamaged(kept func(id string) bool) {
	lost := false
	for _, r := range s.Table.Damaged {
		made := r.Kind == table.Meta && (r.Key == table.CheckpointKey || r.Key == table.ServiceKey)
		if made || r.Kind == table.Queues && kept(r.Key) {
			continue
		}
		s.Table.Delete(r.Kind, r.Key)
		s.Report(TablePath, fmt.Sprintf("row %s %q does not verify; numbers of queues without a row go on above the highest there are", r.Kind, r.Key))
		lost = true
	}
	if lost {
		s.KeepFloor()
	}
}

func (s *Store) put(k table.Kind, key string, x *table.Queue) { s.Table.Put(k, key, x.Text()) }

// row returns the row of a queue; ok is false without one. The error wraps
// [durable.ErrDamaged].
func (s *Store) row(k table.Kind, key string) (x table.Queue, ok bool, err error) {
	text, err := s.Table.Get(k, key)
	if err != nil || text == nil {
		return x, false, err
	}
	if x, err = table.ParseQueue(text); err != nil {
		return x, false, fmt.Errorf("row of queue %s: %w: %w", key, durable.ErrDamaged, err)
	}
	return x, true, nil
}

// A File is the row of a queue, as it was read.
type File struct {
	table.Queue
	err error // wraps [fs.ErrNotExist] or [durable.ErrDamaged] if there is none to go by
}

// File reads the row of a queue.
func (s *Store) File(id string) *File {
	x, ok, err := s.row(table.Queues, id)
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	return &File{Queue: x, err: err}
}

// Settings are the copy of queue-info.txt in the index.
type Settings struct {
	Text    []byte    // nil: unknown
	Stamp   string    // of the file with this text, see [home.Reading.Stamp]; "": unknown
	Created time.Time // of the queue; zero: unknown
}

// Settings returns the copy of queue-info.txt, as far as the index has one.
func (f *File) Settings() (Settings, error) {
	kept, err := Settings{Text: f.Queue.Settings, Stamp: f.Stamp}, f.err
	if err == nil && f.Created != 0 {
		kept.Created = time.UnixMicro(f.Created).UTC()
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) { // reported when the queue is opened
		err = nil
	}
	return kept, err
}

// Sound reports whether the row of a queue is there and verifies.
func (f *File) Sound() bool { return f.err == nil }

// New stages the row of a queue before its first event, so that earlier records of the name
// are of a former queue. Until the next checkpoint the log has all jobs of a queue that begins
// without any, and the directories stand in for the pages of another. The row is on stable
// storage after Sync, or a checkpoint.
func (s *Store) New(l *ledger.Ledger, since journal.LSN) error {
	former, err := s.Numbers(l.ID())
	if err != nil {
		return err
	}
	empty := false
	var before job.Seq
	l.Note(func(x *index.Index) {
		x.Reach(former)
		x.Info = l.Settings().SHA256 // the queue begins with this file
		before, empty = x.Last().Seq, x.Pages() == 0
	})
	l.Begin(since, before)
	if err := s.dropPages(l.ID()); err != nil {
		return err
	}
	x := l.Snapshot(since)
	x.Bare, x.Empty = true, empty
	s.put(table.Queues, l.ID(), &x)
	return nil
}

// Sync puts what was staged on stable storage.
func (s *Store) Sync() error { return s.Table.Commit() }

// Loaded says how much of a queue the index had.
type Loaded struct {
	Fresh   bool         // no pages yet: the log has all jobs
	None    bool         // no pages to go by: the directories have all jobs
	Former  *index.Index // what pages say all the same, when rebuilding
	Damaged map[int]bool // pages to be made from the directories
	Dirs    [4]int64     // when the directories last changed, if the home was closed
}

// Load takes the row of a queue, and reads its pages into its ledger, when a home is opened.
// Without a checkpoint no page counts.
func (s *Store) Load(l *ledger.Ledger, f *File, indexed bool) (was Loaded, err error) {
	ok := f.err == nil
	switch {
	case ok:
		l.Load(&f.Queue)
	case errors.Is(f.err, durable.ErrDamaged):
		s.Report(TablePath, f.err.Error()+"; the index of the queue is made again from the directories")
	case !errors.Is(f.err, fs.ErrNotExist): // made or brought since the last checkpoint
		return was, f.err
	}
	if !ok {
		// Jobs in the directories and the log may have later numbers.
		last, err := s.Numbers(l.ID())
		if err != nil {
			return was, err
		}
		l.Note(func(x *index.Index) { x.Reach(last) })
	}
	switch {
	case s.Rebuild:
		was.None = true
		was.Former, err = s.former(l.ID(), &f.Queue)
	case !indexed || !ok || f.Bare:
		was.Fresh = indexed && ok && f.Empty
		was.None = !was.Fresh
		err = s.dropPages(l.ID())
	default:
		was.Dirs = f.Dirs
		was.Damaged, err = s.loadPages(l, &f.Queue)
	}
	return was, err
}

// loadPages reads the pages of a queue, and returns and reports those that are damaged or
// missing.
func (s *Store) loadPages(l *ledger.Ledger, q *table.Queue) (damaged map[int]bool, err error) {
	damaged = map[int]bool{}
	there, versions := map[int]bool{}, int64(0)
	bad := func(n int, why string) {
		damaged[n] = true
		s.Report(TablePath, fmt.Sprintf("index of queue %s: %s; made again from the directories", l.ID(), why))
	}
	err = s.Table.Each(table.Pages, table.Of(l.ID()), "", func(key string, page []byte, err error) bool {
		n := table.PageNumber(key)
		if err == nil {
			l.Note(func(x *index.Index) {
				if err = x.LoadPage(page, n); err == nil {
					there[n], versions = true, table.Sum(versions, n, x.Page(n).Version)
				}
			})
		}
		if err != nil {
			s.Table.Delete(table.Pages, key) // its key may be wrong, too
			bad(n, fmt.Sprintf("page %d does not verify", n))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	whole := len(damaged) == 0
	for n := 0; len(there) < q.Pages && n <= int(l.Numbers().Job/index.PageJobs); n++ {
		if !there[n] && !damaged[n] {
			bad(n, fmt.Sprintf("page %d is missing", n))
		}
	}
	if whole && len(damaged) == 0 && q.Versions != 0 && versions != q.Versions {
		// One of them is older than the row says, and nobody can tell which.
		for n := range there {
			damaged[n] = true
		}
		s.Report(TablePath, fmt.Sprintf("index of queue %s: a page is out of date; made again from the directories", l.ID()))
	}
	return damaged, nil
}

// former reads the pages of a queue as far as they verify. They are removed: their successors
// are staged by the next checkpoint.
func (s *Store) former(id string, q *table.Queue) (*index.Index, error) {
	x := index.New(id)
	if len(q.Types) > 0 {
		x.SetMediaTypes(q.Types)
	}
	err := s.Table.Each(table.Pages, table.Of(id), "", func(key string, page []byte, bad error) bool {
		if bad == nil {
			_ = x.LoadPage(page, table.PageNumber(key))
		}
		return true
	})
	return x, errors.Join(err, s.dropPages(id))
}

// dropPages stages the end of pages, so that they are not taken for those of the next
// checkpoint.
func (s *Store) dropPages(id string) error {
	return s.Table.Drop(table.Pages, table.Of(id))
}

// Service returns the last known cutie-info.txt; nil if there is no copy.
func (s *Store) Service() ([]byte, error) {
	text, err := s.Table.Get(table.Meta, table.ServiceKey)
	if errors.Is(err, durable.ErrDamaged) { // made again
		return nil, nil
	}
	return text, err
}

// KeepService keeps a copy of cutie-info.txt, unless there is no space.
func (s *Store) KeepService(text []byte) error {
	s.Table.Put(table.Meta, table.ServiceKey, text)
	err := s.Table.Commit()
	if errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return nil
	}
	return err
}

// Numbers returns the last numbers a queue of the name can have given out before, as far as
// the index knows. Where it has no sound row of the queue, they are at least those that
// published documents name.
func (s *Store) Numbers(id string) (last index.Numbers, err error) {
	x, ok, err := s.row(table.Queues, id)
	switch {
	case ok:
		last = index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}
		s.mu.Lock()
		defer s.mu.Unlock()
		return last.Max(s.floor), nil
	case errors.Is(err, durable.ErrDamaged):
		if last, err = s.salvage(id); err != nil {
			return last, err
		}
		s.Report(TablePath, fmt.Sprintf("row of queue %s does not verify; "+
			"numbers of jobs and events go on above %d and %d, the highest there are", id, last.Job, last.Seq))
	case err != nil:
		return last, err
	}
	s.mu.Lock()
	last = last.Max(s.floor)
	s.mu.Unlock()
	of, err := s.published(id)
	return last.Max(of), err
}

// published returns the last numbers that published documents name. Each job number was
// given out by an event of its own, so there are no more of them.
func (s *Store) published(id string) (last index.Numbers, err error) {
	if s.Published == nil {
		return last, nil
	}
	seq, err := s.Published(id)
	return index.Numbers{Job: min(job.ID(seq), job.MaxID), Seq: seq}, err
}

// salvage returns the highest numbers in the pages of a queue, and those of all open queues.
// All numbers of a page count as given out.
func (s *Store) salvage(id string) (last index.Numbers, err error) {
	last = s.Highest()
	err = s.Table.Each(table.Pages, table.Of(id), "", func(key string, page []byte, bad error) bool {
		n := table.PageNumber(key)
		last.Job = max(last.Job, min(job.ID(n+1)*index.PageJobs-1, job.MaxID))
		if version, err := index.PageVersion(page, id, n); bad == nil && err == nil {
			last.Seq = max(last.Seq, version)
		}
		return true
	})
	return last, err
}

// Retire keeps the last numbers of queues found gone.
func (s *Store) Retire(last map[string]index.Numbers) error {
	for _, id := range slices.Sorted(maps.Keys(last)) {
		was, err := s.Numbers(id)
		if err != nil {
			return err
		}
		if was.Max(last[id]) != was {
			s.Reset(id, was.Max(last[id]))
		}
	}
	return nil
}

// Reset keeps other last numbers of a queue, even if they are lower, and nothing else.
func (s *Store) Reset(id string, last index.Numbers) {
	s.put(table.Queues, id, &table.Queue{Last: last, Types: []string{""}, Bare: true})
}

// Forget removes the index of a queue, except for its last numbers.
func (s *Store) Forget(id string) error {
	known := s.Has(id)
	last, err := s.Numbers(id)
	if err != nil || !known && last == (index.Numbers{}) {
		return err
	}
	s.Reset(id, last)
	if err := s.dropPages(id); err != nil {
		return err
	}
	return errors.Join(s.Table.DeleteAll(table.Culled, table.Of(id)), s.Table.Commit())
}

// Stage stages the changed pages of a queue and its row, for a checkpoint at a record. dirs
// returns the times of the last changes of the directories; nil unless the home closes.
func (s *Store) Stage(l *ledger.Ledger, at journal.LSN, dirs func() ([4]int64, error)) (err error) {
	var changed bool
	pages := 0
	l.Note(func(x *index.Index) {
		changed, pages = x.Changed, x.Pages()
		x.Changed = false
	})
	if !changed && dirs == nil {
		return nil
	}
	defer func() {
		if err != nil {
			l.Note(func(x *index.Index) { x.Changed = true })
		}
	}()
	var changes [4]int64
	if dirs != nil {
		if changes, err = dirs(); err != nil {
			return err // before a page counts as staged
		}
	}
	// The row of the queue goes with its pages: a crash must not part them.
	var rows []table.Row
	size, held, versions := 0, 0, int64(0)
	for n := 0; n < pages; n++ {
		var page []byte
		l.Note(func(x *index.Index) {
			p := x.Page(n)
			page, changed = x.AppendPage(nil, n)
			if p.Version != 0 || page != nil {
				versions = table.Sum(versions, n, p.Version)
				held++
			}
			pages = x.Pages()
		})
		if !changed {
			continue
		}
		rows = append(rows, table.Row{Kind: table.Pages, Key: table.PageKey(l.ID(), n), Contents: page})
		if size += len(page); size >= table.CommitSize {
			x := l.Snapshot(at)
			x.Pages = 0 // the others follow
			s.Table.PutAll(append(rows, table.Row{Kind: table.Queues, Key: l.ID(), Contents: x.Text()}))
			if err := s.Table.Commit(); err != nil {
				return err
			}
			rows, size = rows[:0], 0
		}
	}
	x := l.Snapshot(at)
	x.Pages, x.Versions, x.Dirs = held, versions, changes // a page made since then is replayed
	s.Table.PutAll(append(rows, table.Row{Kind: table.Queues, Key: l.ID(), Contents: x.Text()}))
	if s.Table.Full() {
		return s.Table.Commit()
	}
	return nil
}

// A tombstone in its row: job u64 | culled µs i64. The key has the event.
const stoneSize = 16

// Bury stages tombstones of a queue, and commits when many rows are staged.
func (s *Store) Bury(id string, stones []index.Tombstone) error {
	for _, t := range stones {
		b := binary.LittleEndian.AppendUint64(make([]byte, 0, stoneSize), uint64(t.Job))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Culled))
		s.Table.Put(table.Culled, table.CulledKey(id, t.Seq), b)
	}
	if s.Table.Full() {
		return s.Table.Commit()
	}
	return nil
}

func stoneOf(key string, b []byte) (t index.Tombstone, ok bool) {
	if len(b) != stoneSize || len(key) < 8 {
		return t, false
	}
	t.Job, t.Culled = job.ID(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	t.Seq = job.Seq(binary.BigEndian.Uint64([]byte(key[len(key)-8:])))
	return t, true
}

// Stones returns up to limit tombstones of a queue after an instant in µs, in the order of
// their events. The error wraps [durable.ErrDamaged] if one of them does not verify.
func (s *Store) Stones(id string, since int64, limit int) (stones []index.Tombstone, err error) {
	from, err := s.firstStone(id, since)
	if err != nil {
		return nil, err
	}
	var bad error
	err = s.Table.Each(table.Culled, table.Of(id), table.CulledKey(id, from), func(key string, b []byte, e error) bool {
		t, ok := stoneOf(key, b)
		if !ok {
			bad = cmp.Or(e, durable.ErrDamaged)
		} else if t.Culled > since && len(stones) < limit {
			stones = append(stones, t)
		}
		return bad == nil && len(stones) < limit
	})
	return stones, cmp.Or(err, bad)
}

// firstStone returns the event of the first tombstone after an instant, by halves: later
// events have later times.
func (s *Store) firstStone(id string, since int64) (job.Seq, error) {
	last, err := s.LastStone(id)
	n := sort.Search(int(last), func(seq int) bool {
		after := true
		e := s.Table.Each(table.Culled, table.Of(id), table.CulledKey(id, job.Seq(seq)), func(key string, b []byte, _ error) bool {
			t, ok := stoneOf(key, b)
			after = !ok || t.Culled > since
			return false
		})
		err = cmp.Or(err, e)
		return after
	})
	return job.Seq(n), err
}

// BadStones commits the end of the tombstones of a queue that do not verify, if they are to be
// mended, and returns how many there are.
func (s *Store) BadStones(id string, mend bool) (n int, err error) {
	err = s.Table.Each(table.Culled, table.Of(id), "", func(key string, b []byte, _ error) bool {
		if _, ok := stoneOf(key, b); !ok {
			if n++; mend {
				s.Table.Delete(table.Culled, key)
			}
		}
		return true
	})
	if err == nil && n > 0 && mend {
		err = s.Table.Commit()
	}
	return n, err
}

// Unbury commits the end of the tombstones of a queue before an instant in µs.
func (s *Store) Unbury(id string, before int64) error {
	return s.Table.DeleteUntil(table.Culled, table.Of(id), func(key string, b []byte) bool {
		t, ok := stoneOf(key, b)
		return !ok || t.Culled < before
	})
}

// LastStone returns the event of the last tombstone of a queue; 0 without one.
func (s *Store) LastStone(id string) (job.Seq, error) {
	key, err := s.Table.Last(table.Culled, table.Of(id))
	if err != nil || key == "" {
		return 0, err
	}
	return job.Seq(binary.BigEndian.Uint64([]byte(key[len(key)-8:]))), nil
}
