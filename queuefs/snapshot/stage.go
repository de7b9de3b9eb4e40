package snapshot

import (
	"errors"
	"io/fs"
	"slices"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
)

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
