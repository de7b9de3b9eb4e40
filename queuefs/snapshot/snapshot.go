// Package snapshot is the index on disk, in log/index of a home: the pages and the
// queue file of each queue, and the checkpoint from which on the journal is replayed.
//
//	checkpoint               where replay begins
//	small                    queues with few jobs
//	doubt                    a sync has failed: no file is trusted
//	queues/QID/queue         last numbers, settings, LSNs
//	queues/QID/pN            page N of the index
//	queues/QID/culled, cN    tombstones and packs, see packages filing and packs
//
// The index is derived: pages without a digest that verifies are made again from
// the directories. Only the last numbers are not, so the queue file stays when a queue
// is removed: a queue made again under its name goes on with its numbers, and the
// reference of a job, or the name of a document that ends with an event, never comes
// to mean another in the caches and notes of clients.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/anvl"
	"cutie/queuefs/catalog"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// A Store is the directory of the index.
type Store struct {
	Dir     *durable.Dir
	Report  func(path, text string) // called with damage found
	Rebuild bool                    // make all pages again from the directories; former ones say only what these do not
	Highest func() index.Numbers    // last numbers of all open queues, for damaged files
	// Published returns the last event that published documents of a queue name; nil: none do.
	Published func(id string) (job.Seq, error)
	Own       bool // small queues have files of their own, as in homes of former versions; for tests

	doubt   atomic.Bool
	closed  bool            // by the checkpoint that was read
	missing bool            // there was no checkpoint
	renewed map[string]bool // queues without former pages, when rebuilding
	small   *catalog.File

	mu    sync.Mutex
	large map[string]bool // queues with a directory
	floor index.Numbers   // the last numbers of a removed queue may be as high; see keepFloor
}

// Path returns the path below the home of a file of a queue in the index.
func Path(queue, name string) string {
	return home.LogDir + "/" + home.IndexDir + "/" + home.QueuesDir + "/" + queue + "/" + name
}

// Queue opens the directory of a queue, and makes it if need be; to be closed.
func (s *Store) Queue(id string) (*durable.Dir, error) {
	all, err := s.Dir.MakeSub(home.QueuesDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	dir, err := all.MakeSub(id)
	if err == nil {
		s.setDir(id, true)
	}
	return dir, err
}

// existing is Queue without making anything. The error wraps [fs.ErrNotExist] if there
// is no such directory.
func (s *Store) existing(id string) (*durable.Dir, error) {
	all, err := s.Dir.Sub(home.QueuesDir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return all.Sub(id)
}

// Has reports whether the index knows of a queue, present or former.
func (s *Store) Has(id string) bool { return s.HasDir(id) || s.small.Has(id) }

// Known reports whether the index has more of a queue than the last numbers of a removed
// one. An entry that cannot be read counts as more.
func (s *Store) Known(id string) bool {
	if !s.Has(id) {
		return false
	}
	f := s.File(id)
	return f.err != nil || !f.Bare || f.Queue.Settings != nil
}

// names returns the names in the directory of all queues.
func (s *Store) names() (all *durable.Dir, names []string, err error) {
	all, err = s.Dir.Sub(home.QueuesDir)
	if err != nil {
		return nil, nil, err
	}
	if err = all.Names(func(name string) { names = append(names, name) }); err != nil {
		all.Close()
		return nil, nil, err
	}
	return all, names, nil
}

// Sweep removes temporary files of writers that a crash ended.
func (s *Store) Sweep() error {
	if err := s.Dir.Sweep(nil); err != nil {
		return err
	}
	all, names, err := s.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	for _, name := range names {
		if d, err := all.Sub(name); err == nil {
			err = d.Sweep(nil)
			d.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Checkpoint reads the checkpoint. Without a file that verifies ok is false: the
// directories have the state.
func (s *Store) Checkpoint() (c indexfile.Checkpoint, ok bool, err error) {
	var r anvl.Record
	data, err := indexfile.CheckpointIn(s.Dir).Read()
	if err == nil {
		r, err = anvl.ParseRecord(data)
	} else if errors.Is(err, fs.ErrNotExist) {
		s.missing = true
		return c, false, nil
	} else if !errors.Is(err, durable.ErrDamaged) {
		return c, false, err
	}
	if err != nil {
		s.Report(home.LogDir+"/"+home.IndexDir+"/"+indexfile.CheckpointName, err.Error()+"; the index is made again from the directories")
		return c, false, nil
	}
	c, err = indexfile.ParseCheckpoint(r)
	s.closed = err == nil && c.Clean
	return c, err == nil, err
}

// Missing reports whether there was no checkpoint at all: the home is new, a copy, or has
// lost its index.
func (s *Store) Missing() bool { return s.missing }

// Closed reports whether the home was closed in order before it was opened.
func (s *Store) Closed() bool { return s.closed }

// SetCheckpoint writes the checkpoint, with c.Small as it is then, and bounds the waste in
// the catalog of small queues. A damaged catalog is written anew before: nobody must take
// an entry for the last one of its name when the damage is forgotten. Another one meanwhile
// has no size in the checkpoint, so that a crash between two steps is not taken for damage.
// c.Small is Size before the file system was synced: a power failure may tear later
// entries.
func (s *Store) SetCheckpoint(c *indexfile.Checkpoint) error {
	if s.small.Torn() {
		if err := errors.Join(s.keepFloor(), s.small.Compact()); err != nil {
			return err
		}
		c.Small = s.small.Size()
	}
	if s.small.Wasteful() {
		of := *c
		of.Small = 0
		if err := indexfile.CheckpointIn(s.Dir).Write(of.Text()); err != nil {
			return err
		}
		if err := s.small.Compact(); err != nil {
			return err
		}
		c.Small = s.small.Size()
	}
	return indexfile.CheckpointIn(s.Dir).Write(c.Text())
}

// Size returns the bytes of the catalog of small queues, for a checkpoint.
func (s *Store) Size() int64 { return s.small.Size() }

// MarkOpen writes that the home is open: it was not closed in order. The file does not
// grow, so a home on a full disk can be opened.
func (s *Store) MarkOpen(c indexfile.Checkpoint) error {
	c.Clean, c.Stopped = false, false
	err := indexfile.CheckpointIn(s.Dir).Write(c.Text())
	if errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return indexfile.CheckpointIn(s.Dir).Rewrite(c.Text())
	}
	return err
}

// ReadDoubt finds out whether a sync has failed in a former use of the home.
func (s *Store) ReadDoubt() {
	_, err := s.Dir.Stat(indexfile.DoubtName)
	s.doubt.Store(!errors.Is(err, fs.ErrNotExist))
}

// InDoubt reports whether a sync has failed since the last checkpoint: files may be in
// the cache alone.
func (s *Store) InDoubt() bool { return s.doubt.Load() }

// Doubt notes a failed sync. The cache may go on showing earlier writes, and this note
// as well, until the machine restarts.
func (s *Store) Doubt() {
	s.doubt.Store(true)
	_ = s.Dir.Put(indexfile.DoubtName, nil)
}

// Trust takes Doubt back.
func (s *Store) Trust() error {
	if !s.InDoubt() {
		return nil
	}
	if err := s.Dir.Remove(indexfile.DoubtName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.doubt.Store(false)
	return nil
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

// Small reports whether the index has all of a queue in one sound entry.
func (s *Store) Small(id string) bool {
	return s.small.Has(id) && !s.HasDir(id) && !s.small.Doubtful(id)
}

// New writes the queue file of a queue before its first event, so that earlier records
// of the name are of a former queue. Until the next checkpoint the journal has all jobs
// of a queue that begins without any, and the directories stand in for the pages of
// another. The file is on stable storage after Sync, or a checkpoint.
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
	if err := s.forgetDir(l.ID()); err != nil {
		return err
	}
	x := l.Snapshot(since)
	x.Bare, x.Empty = true, empty
	return s.put(l.ID(), &x, nil)
}

// Sync puts the entries of small queues on stable storage.
func (s *Store) Sync() error { return s.small.Sync() }

// Loaded says how much of a queue the index had.
type Loaded struct {
	Fresh   bool         // no pages yet: the journal has all jobs
	None    bool         // no pages to go by: the directories have all jobs
	Former  *index.Index // what pages say all the same, when rebuilding
	Damaged map[int]bool // pages to be made from the directories
	Dirs    [4]int64     // when the directories last changed, if the home was closed
	Culled  job.Seq      // of the last tombstone in its file
}

// Load takes the queue file, and reads the pages of a queue into its ledger, when a home is
// opened. Without a checkpoint, indexed is false and no page counts.
func (s *Store) Load(l *ledger.Ledger, f *File, c indexfile.Checkpoint, indexed bool) (was Loaded, err error) {
	q, err := &f.Queue, f.err
	ok := err == nil
	switch {
	case ok:
		l.Load(q)
	case errors.Is(err, durable.ErrDamaged):
		s.Report(Path(l.ID(), indexfile.QueueName), err.Error()+"; the index is made again from the directories")
	case !errors.Is(err, fs.ErrNotExist): // made or brought since the last checkpoint
		return was, err
	}
	if !ok {
		// Jobs in the directories and the journal may have later numbers.
		last, err := s.Numbers(l.ID())
		if err != nil {
			return was, err
		}
		l.Note(func(x *index.Index) { x.Reach(last) })
	}
	if s.Rebuild {
		was.None = true
		was.Former, err = s.former(l.ID(), q, f.page)
		return was, err
	}
	doubtful := ok && !f.inDir && s.small.Doubtful(l.ID())
	if doubtful {
		l.Note(func(x *index.Index) { x.Reach(s.floor) })
	}
	drop := !indexed || !ok || q.Bare || doubtful
	if drop {
		was.Fresh = indexed && ok && q.Empty && !doubtful
		was.None = !was.Fresh
	} else if was.Dirs, was.Culled = q.Dirs, q.Culled; !f.inDir {
		was.Damaged, err = loadSmall(l, f.page)
		if len(was.Damaged) > 0 {
			s.Report(Path(l.ID(), index.PageName(0)), "index page does not verify; made again from the directories")
		}
		return was, err
	}
	if !s.HasDir(l.ID()) {
		return was, nil
	}
	dir, err := s.existing(l.ID())
	if err != nil {
		return was, err
	}
	defer dir.Close()
	if drop {
		return was, dropPages(dir)
	}
	// After a crash between this file and its checkpoint, pages may be older than the
	// file: then their state says nothing about damage.
	was.Damaged, err = s.loadPages(l, dir, q.Pages, q.At <= c.Past)
	return was, err
}

// loadPages reads the pages of a queue; there should be want of them. It returns the
// damaged and missing ones, and reports them if the index should be whole.
func (s *Store) loadPages(l *ledger.Ledger, dir *durable.Dir, want int, whole bool) (damaged map[int]bool, err error) {
	numbers, err := pageNumbers(dir)
	if err != nil {
		return nil, err
	}
	damaged = map[int]bool{}
	bad := func(n int, why string) {
		damaged[n] = true
		if whole {
			s.Report(Path(l.ID(), index.PageName(n)), why+"; made again from the directories")
		}
	}
	if len(numbers) < want {
		there := map[int]bool{}
		for _, n := range numbers {
			there[n] = true
		}
		for n := range int(l.Numbers().Job/index.PageJobs) + 1 {
			if !there[n] {
				bad(n, "index page missing")
			}
		}
	}
	var buf []byte
	for _, n := range numbers {
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil {
			return nil, err
		}
		l.Note(func(x *index.Index) { err = x.LoadPage(buf, n) })
		if err != nil {
			bad(n, err.Error())
		}
	}
	return damaged, nil
}

// former reads the pages of a queue as far as they verify, one of them from its entry.
// They are removed when their successors are staged.
func (s *Store) former(id string, q *indexfile.Queue, page []byte) (*index.Index, error) {
	x := index.New(id)
	if len(q.Types) > 0 {
		x.SetMediaTypes(q.Types)
	}
	if len(page) > 0 {
		_ = x.LoadPage(page, 0)
	}
	if !s.HasDir(id) {
		return x, nil
	}
	dir, err := s.existing(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	numbers, err := pageNumbers(dir)
	var buf []byte
	for _, n := range numbers {
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil && !errors.Is(err, durable.ErrTooLong) {
			return nil, err
		}
		_ = x.LoadPage(buf, n)
	}
	return x, err
}

// renew removes the former pages of a queue, when rebuilding.
func (s *Store) renew(id string, dir *durable.Dir) error {
	if !s.Rebuild || s.renewed[id] {
		return nil
	}
	if s.renewed == nil {
		s.renewed = map[string]bool{}
	}
	s.renewed[id] = true
	return dropPages(dir)
}

// dropPages removes pages, so that they are not taken for those of the next checkpoint.
func dropPages(dir *durable.Dir) error {
	numbers, err := pageNumbers(dir)
	for _, n := range numbers {
		if e := dir.Remove(index.PageName(n)); !errors.Is(e, unix.EROFS) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func pageNumbers(dir *durable.Dir) (numbers []int, err error) {
	err = dir.Names(func(name string) {
		if n, ok := indexfile.ParsePageName(name); ok {
			numbers = append(numbers, n)
		}
	})
	return numbers, err
}

// service is the copy of cutie-info.txt.
func (s *Store) service() durable.Sealed {
	return durable.Sealed{Dir: s.Dir, Name: "service", Kind: "cutie-info.txt", Max: 1 << 20}
}

// Service returns the last known cutie-info.txt; nil if there is no copy.
func (s *Store) Service() ([]byte, error) {
	text, err := s.service().Read()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) { // made again
		return nil, nil
	}
	return text, err
}

// KeepService keeps a copy of cutie-info.txt, unless there is no space.
func (s *Store) KeepService(text []byte) error {
	err := s.service().Write(text)
	if errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return nil
	}
	return err
}

// Numbers returns the last numbers a queue of the name can have given out before, as far
// as the index knows. Where it has no sound file of the queue, they are at least those that
// published documents name.
func (s *Store) Numbers(id string) (last index.Numbers, err error) {
	x, _, ok, err := s.entry(id)
	switch {
	case errors.Is(err, durable.ErrDamaged):
		last = s.Highest()
		s.Report(smallPath, fmt.Sprintf("%v; numbers of jobs and events go on above %d and %d, the highest there are", err, last.Job, last.Seq))
	case err != nil:
		return last, err
	case ok:
		last = index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}
	}
	s.mu.Lock()
	last = last.Max(s.floor)
	s.mu.Unlock()
	if s.File(id).err != nil {
		of, err := s.published(id)
		if err != nil {
			return last, err
		}
		last = last.Max(of)
	}
	if s.HasDir(id) {
		dir, err := s.existing(id)
		if err != nil {
			return last, err
		}
		defer dir.Close()
		of, err := s.numbersIn(dir, id)
		if err != nil {
			return last, err
		}
		last = last.Max(of)
	}
	return last, nil
}

// published returns the last numbers that published documents name. Each job number was
// given out by an event of its own, so there are no more of them.
func (s *Store) published(id string) (last index.Numbers, err error) {
	if s.Published == nil || id == floorName {
		return last, nil
	}
	seq, err := s.Published(id)
	return index.Numbers{Job: min(job.ID(seq), job.MaxID), Seq: seq}, err
}

// numbersIn returns the highest numbers in the files of an index. Without a queue file
// that verifies, all numbers of a page count as given out.
func (s *Store) numbersIn(dir *durable.Dir, queue string) (last index.Numbers, err error) {
	x, err := indexfile.ReadQueue(dir, queue)
	switch {
	case err == nil:
		return index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}, nil
	case errors.Is(err, durable.ErrDamaged):
		if last, err = s.salvage(dir, Path(queue, indexfile.QueueName), err); err != nil {
			return last, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return last, err
	}
	pages, err := pageNumbers(dir)
	if err != nil {
		return last, err
	}
	var buf []byte
	for _, n := range pages {
		last.Job = max(last.Job, min(job.ID(n+1)*index.PageJobs-1, job.MaxID))
		if buf, err = dir.ReadFile(index.PageName(n), buf[:0], index.PageLimit); err != nil {
			return last, err
		}
		if version, err := index.PageVersion(buf, queue, n); err == nil {
			last.Seq = max(last.Seq, version)
		}
	}
	return last, nil
}

// salvage returns the highest numbers in the lines of a damaged file, and those of all
// open queues: any line can be wrong or missing. A number that leaves few after it is
// not believed.
func (s *Store) salvage(dir *durable.Dir, path string, why error) (last index.Numbers, err error) {
	data, err := dir.ReadFile(path[strings.LastIndexByte(path, '/')+1:], nil, 64<<20)
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return last, err
	}
	last = indexfile.Salvage(data).Max(s.Highest())
	s.Report(path, fmt.Sprintf("%v; numbers of jobs and events go on above %d and %d, the highest that can be read", why, last.Job, last.Seq))
	return last, nil
}

// Retire keeps the last numbers of queues found gone.
func (s *Store) Retire(last map[string]index.Numbers) error {
	for _, id := range slices.Sorted(maps.Keys(last)) {
		was, err := s.Numbers(id)
		if err != nil {
			return err
		}
		if was.Max(last[id]) == was {
			continue
		}
		if err := s.keep(id, was.Max(last[id])); err != nil {
			return err
		}
	}
	return nil
}

// Reset keeps other last numbers of a queue, even if they are lower.
func (s *Store) Reset(id string, last index.Numbers) error { return s.keep(id, last) }

// keep adds an entry of nothing but the last numbers of a queue.
func (s *Store) keep(id string, last index.Numbers) error {
	x := indexfile.Queue{Last: last, Types: []string{""}, Bare: true}
	return s.put(id, &x, nil)
}

// Forget removes the index of a queue, except for its last numbers.
func (s *Store) Forget(id string) error {
	known := s.Has(id)
	last, err := s.Numbers(id)
	if err == nil && !known && last == (index.Numbers{}) {
		return nil
	}
	if err == nil {
		err = s.keep(id, last)
	}
	if err != nil || s.Own {
		return err
	}
	return s.forgetDir(id)
}

// forgetDir removes the directory of a queue, after the entry with its last numbers is on
// stable storage.
func (s *Store) forgetDir(id string) error {
	if !s.HasDir(id) {
		return nil
	}
	if err := s.small.Sync(); err != nil {
		return err
	}
	all, err := s.Dir.Sub(home.QueuesDir)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := s.removeDir(all, id); err != nil {
		return err
	}
	return all.Sync()
}
