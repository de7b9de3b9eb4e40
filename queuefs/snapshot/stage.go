package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/catalog"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

// Most queues have few jobs. Their queue files, each with page 0 if there is one, stand
// together in the catalog [indexfile.SmallName]:
//
//	octets of the queue file u32 | queue file | page
//
// A queue that grows gets a directory of its own. Of an entry and a directory the one of
// the later checkpoint counts.

const (
	floorName = "" // of an entry with numbers that no removed queue has gone above, once entries were lost
	smallKind = "index of small queues"
	smallPath = home.LogDir + "/" + home.IndexDir + "/" + indexfile.SmallName // below the home
)

// Open reads the catalog of small queues. Damage of what was there at the checkpoint is
// reported. Call it before anything else but Checkpoint.
func (s *Store) Open(c indexfile.Checkpoint) error {
	synced := c.Small
	if st, err := s.Dir.Stat(indexfile.SmallName); err == nil && c.Clean {
		synced = max(synced, st.Size)
	}
	small, damaged, err := catalog.Open(s.Dir, indexfile.SmallName, smallKind, synced)
	if err != nil {
		return err
	}
	s.small = small
	if damaged > 0 {
		if s.floor, err = s.highest(); err != nil {
			return err
		}
		s.Report(smallPath, fmt.Sprintf("%d octets do not verify; queues without an entry are made again from the directories, and numbers of their jobs and events go on above %d and %d, the highest that can be read",
			damaged, s.floor.Job, s.floor.Seq))
	} else if x, _, ok, err := s.entry(floorName); ok || err != nil {
		s.floor = index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq}
		if err != nil {
			return err
		}
	}
	s.large = map[string]bool{}
	all, names, err := s.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		s.large[name] = true
	}
	return all.Close()
}

// highest returns the highest numbers in any entry.
func (s *Store) highest() (last index.Numbers, err error) {
	for _, id := range s.small.Names() {
		x, _, ok, err := s.entry(id)
		if err != nil && !errors.Is(err, durable.ErrDamaged) {
			return last, err
		}
		if ok {
			last = last.Max(index.Numbers{Job: x.Last.Job, Seq: x.Last.Seq})
		}
	}
	return last, nil
}

// keepFloor keeps numbers above all known ones, before a damaged catalog is written anew:
// an entry that has the last numbers of a removed queue may be gone.
func (s *Store) keepFloor() error {
	highest := s.Highest()
	s.mu.Lock()
	s.floor = s.floor.Max(highest)
	last := s.floor
	s.mu.Unlock()
	x := indexfile.Queue{Last: last, Types: []string{""}, Bare: true}
	return s.put(floorName, &x, nil)
}

// Close lets go of the files.
func (s *Store) Close() error {
	if s.small == nil {
		return s.Dir.Close()
	}
	return errors.Join(s.small.Close(), s.Dir.Close())
}

// HasDir reports whether the queue has a directory in the index.
func (s *Store) HasDir(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.large[id]
}

func (s *Store) setDir(id string, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		s.large[id] = true
	} else {
		delete(s.large, id)
	}
}

// put adds an entry of a queue, unsynced.
func (s *Store) put(id string, x *indexfile.Queue, page []byte) error {
	if s.Own {
		dir, err := s.Queue(id)
		if err != nil {
			return err
		}
		defer dir.Close()
		return indexfile.QueueIn(dir, id).Write(x.Text())
	}
	text := x.Text()
	b := make([]byte, 0, 4+len(text)+len(page))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return s.small.Append(catalog.Entry{Name: id, Contents: append(append(b, text...), page...)})
}

// entry returns the queue file and the page in the entry of a queue; ok is false without
// one.
func (s *Store) entry(id string) (x indexfile.Queue, page []byte, ok bool, err error) {
	data, err := s.small.Get(id)
	if err != nil || data == nil {
		return x, nil, false, err
	}
	if len(data) < 4 || int64(len(data)-4) < int64(binary.LittleEndian.Uint32(data)) {
		return x, nil, false, fmt.Errorf("entry of queue %s: %w", id, durable.ErrDamaged)
	}
	n := 4 + binary.LittleEndian.Uint32(data)
	if x, err = indexfile.ParseQueue(data[4:n]); err != nil {
		return x, nil, false, fmt.Errorf("entry of queue %s: %w: %w", id, durable.ErrDamaged, err)
	}
	return x, data[n:], true, nil
}

// A File is the queue file of a queue, as it was read.
type File struct {
	indexfile.Queue
	page  []byte // in an entry
	inDir bool
	err   error // wraps [fs.ErrNotExist] or [durable.ErrDamaged] if there is none to go by
}

// File reads the queue file of a queue.
func (s *Store) File(id string) *File {
	x, page, ok, err := s.entry(id)
	if err != nil {
		return &File{err: err}
	}
	if s.HasDir(id) {
		dir, err := s.existing(id)
		if err == nil {
			defer dir.Close()
			var of indexfile.Queue
			of, err = indexfile.ReadQueue(dir, id)
			if err == nil && (!ok || of.At > x.At) {
				return &File{Queue: of, inDir: true}
			}
		}
		if !ok {
			return &File{inDir: true, err: err}
		}
	}
	if !ok {
		err = fs.ErrNotExist
	}
	return &File{Queue: x, page: page, err: err}
}

// stageSmall adds the entry of a queue with few jobs. It counts from now on: after a
// crash the journal is applied over it.
func (st *Staged) stageSmall(at journal.LSN, dirs func() ([4]int64, error)) (err error) {
	var page []byte
	held := 0
	st.pages = append(st.pages, 0)
	st.ledger.Note(func(x *index.Index) {
		x.SetPageChanged(0) // the entry has all of it
		page, _ = x.AppendPage(nil, 0)
		x.Changed = false
		held, _ = x.Held()
	})
	x := st.ledger.Snapshot(at)
	x.Pages = held
	if dirs != nil {
		if x.Dirs, err = dirs(); err != nil {
			return err
		}
	}
	return st.store.put(st.ledger.ID(), &x, page)
}

// loadSmall takes the page of an entry.
func loadSmall(l *ledger.Ledger, page []byte) (damaged map[int]bool, err error) {
	if len(page) > 0 {
		l.Note(func(x *index.Index) { err = x.LoadPage(page, 0) })
	}
	if err != nil {
		return map[int]bool{0: true}, nil
	}
	return nil, nil
}

// trim removes what a queue file or an entry in the other place has made useless.
func (s *Store) trim(id string, large bool) error {
	if large {
		if s.small.Has(id) {
			return s.small.Append(catalog.Entry{Name: id})
		}
		return nil
	}
	if !s.HasDir(id) {
		return nil
	}
	dir, err := s.existing(id)
	if err != nil {
		return err
	}
	defer dir.Close()
	left := 0
	err = dir.Names(func(name string) {
		if _, page := indexfile.ParsePageName(name); !page && name != indexfile.QueueName {
			left++
		}
	})
	if err != nil {
		return err
	}
	if left > 0 { // tombstones or packs
		return nil
	}
	all, err := s.Dir.Sub(home.QueuesDir)
	if err != nil {
		return err
	}
	defer all.Close()
	return s.removeDir(all, id)
}

// removeDir removes the directory of a queue from that of all. A step that failed may
// have happened.
func (s *Store) removeDir(all *durable.Dir, id string) error {
	err := all.RemoveTree(id)
	if _, e := all.Stat(id); errors.Is(e, fs.ErrNotExist) {
		s.setDir(id, false)
	}
	return err
}

// Staged are index files of a queue under temporary names.
type Staged struct {
	store  *Store
	ledger *ledger.Ledger
	large  bool        // the queue has files of its own
	names  [][2]string // temporary name, name
	pages  []int
	kept   bool // their checkpoint has come to its end
}

// Stage writes the changed pages of a queue, and its queue file, under temporary names,
// for a checkpoint at a record. dirs returns the times of the last changes of the
// directories; nil unless the home closes. Without changes Stage returns nil. End the
// result, also after an error.
func (s *Store) Stage(l *ledger.Ledger, at journal.LSN, dirs func() ([4]int64, error)) (st *Staged, err error) {
	var touched bool
	l.Look(func(x *index.Index) { touched = x.Changed })
	if !touched && dirs == nil {
		return nil, nil
	}
	st = &Staged{store: s, ledger: l}
	var small bool
	l.Look(func(x *index.Index) { small = x.Small() && !s.Own })
	if small {
		return st, st.stageSmall(at, dirs)
	}
	st.large = true
	dir, err := s.Queue(l.ID())
	if err != nil {
		return st, err
	}
	defer dir.Close() // a home may have more queues than descriptors
	if s.small.Has(l.ID()) {
		l.Note(func(x *index.Index) { x.SetPageChanged(0) }) // it stands in the entry alone
	}
	if err := s.renew(l.ID(), dir); err != nil {
		return st, err
	}
	held, err := st.stagePages(dir)
	if err != nil {
		return st, err
	}
	x := l.Snapshot(at)
	x.Pages = held // a page made since then is replayed
	if dirs != nil {
		if x.Dirs, err = dirs(); err != nil {
			return st, err
		}
	}
	tmp, err := indexfile.QueueIn(dir, l.ID()).Stage(x.Text())
	if err == nil {
		st.names = append(st.names, [2]string{tmp, indexfile.QueueName})
	}
	return st, err
}

// stagePages writes the changed pages, and returns how many there are.
func (st *Staged) stagePages(dir *durable.Dir) (held int, err error) {
	pages := 0
	st.ledger.Note(func(x *index.Index) {
		x.Changed, pages = false, x.Pages()
	})
	var buf []byte
	for n := 0; n < pages; n++ {
		var changed bool
		st.ledger.Note(func(x *index.Index) {
			buf, changed = x.AppendPage(buf[:0], n)
			if pages = x.Pages(); n == pages-1 {
				held, _ = x.Held()
			}
		})
		if !changed {
			continue
		}
		st.pages = append(st.pages, n)
		tmp, err := dir.Stage(index.PageName(n), buf)
		if err != nil {
			return 0, err
		}
		st.names = append(st.names, [2]string{tmp, index.PageName(n)})
	}
	return held, nil
}

// Place puts the files under their names, the queue file first: a crash may leave it
// newer than the pages, but never without a media type they speak of.
func (st *Staged) Place() error {
	if !st.large {
		return nil
	}
	dir, err := st.store.existing(st.ledger.ID())
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, n := range slices.Backward(st.names) {
		if err := dir.Rename(n[0], dir, n[1]); err != nil {
			return err
		}
	}
	return dir.Sync()
}

// Keep says that the checkpoint has come to its end. It removes what no start reads any
// more; after an error that is left for the next checkpoint with changes.
func (st *Staged) Keep() {
	st.kept = true
	if err := st.store.trim(st.ledger.ID(), st.large); err != nil {
		st.store.Report(Path(st.ledger.ID(), ""), err.Error())
	}
}

// End removes the staged files without Keep, and marks the pages as changed again.
func (st *Staged) End() {
	if st.kept {
		return
	}
	if err := st.remove(); err != nil {
		st.store.Report(Path(st.ledger.ID(), ""), err.Error())
	}
	st.ledger.Note(func(x *index.Index) {
		for _, n := range st.pages {
			x.SetPageChanged(n)
		}
		x.Changed = true
	})
}

func (st *Staged) remove() error {
	if len(st.names) == 0 {
		return nil
	}
	dir, err := st.store.existing(st.ledger.ID())
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, n := range st.names {
		if e := dir.Remove(n[0]); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// All of the index but the last numbers of removed queues is derived, so a file of it that
// cannot be read must not keep a home shut. Opening does not look for such files: once it
// has failed, it asks SetAsideUnreadable and begins again.

// SetAsideUnreadable reads every file of the index in log, and moves those that cannot be
// read to log/corrupt. It reports each one, and returns how many there are. Errors of the
// process, such as too many open files, say nothing of a file. Nobody else has the home
// open.
func SetAsideUnreadable(log *durable.Dir, report func(path, text string)) (n int, err error) {
	x := aside{log: log, report: report}
	err = x.look(log, home.IndexDir, home.LogDir+"/"+home.IndexDir)
	return x.n, err
}

type aside struct {
	log    *durable.Dir
	report func(path, text string)
	n      int
}

// look looks at an entry of a directory, which has a path below the home.
func (x *aside) look(in *durable.Dir, name, path string) error {
	st, err := in.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && isDir(path) {
		return x.lookIn(in, name, path)
	}
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errNotRegular
	default:
		err = readable(in, name)
	}
	return x.judge(in, name, path, err)
}

var errNotRegular = errors.New("not a regular file")

// isDir reports whether the index has a directory at a path below the home.
func isDir(path string) bool {
	rest := strings.TrimPrefix(path, home.LogDir+"/"+home.IndexDir)
	return rest == "" || rest == "/"+home.QueuesDir || strings.HasPrefix(rest, "/"+home.QueuesDir+"/") && strings.Count(rest, "/") == 2
}

func (x *aside) lookIn(in *durable.Dir, name, path string) error {
	var names []string
	dir, err := in.Sub(name)
	if err == nil {
		defer dir.Close()
		err = dir.Names(func(name string) { names = append(names, name) })
	}
	if err != nil {
		return x.judge(in, name, path, err)
	}
	for _, name := range names {
		if err := x.look(dir, name, path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// judge sets an entry aside if its error is about it.
func (x *aside) judge(in *durable.Dir, name, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !about(err) {
		return err
	}
	why := durable.Bare(err)
	to, err := x.log.SetAside(in, name, strings.ReplaceAll(strings.TrimPrefix(path, home.LogDir+"/"), "/", "-"))
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w; it is derived: move it away, and start again: %w", path, why, err)
	}
	x.n++
	text := fmt.Sprintf("cannot be read: %v; moved to %s/%s and made again", why, home.LogDir, to)
	if name == indexfile.SmallName {
		text += "; last numbers of removed queues are forgotten"
	}
	x.report(path, text)
	return nil
}

// about reports whether an error is about one file, and not about the process or the
// whole file system.
func about(err error) bool {
	for _, e := range []error{errNotRegular, unix.EIO, unix.EACCES, unix.EPERM, unix.EISDIR, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.EUCLEAN, unix.EBADMSG, unix.ENODATA, unix.EFBIG, unix.EOVERFLOW} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readable reads a file to its end.
func readable(in *durable.Dir, name string) error {
	f, err := in.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
