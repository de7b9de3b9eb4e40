package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

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
