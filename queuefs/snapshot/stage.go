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
	dir    *durable.Dir
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
	dir, err := s.Queue(l.ID())
	if err != nil {
		return nil, err
	}
	st = &Staged{store: s, ledger: l, dir: dir}
	if err := s.renew(l.ID(), dir); err != nil {
		return st, err
	}
	held, err := st.stagePages()
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
func (st *Staged) stagePages() (held int, err error) {
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
		tmp, err := st.dir.Stage(index.PageName(n), buf)
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
	for _, n := range slices.Backward(st.names) {
		if err := st.dir.Rename(n[0], st.dir, n[1]); err != nil {
			return err
		}
	}
	return st.dir.Sync()
}

// Keep says that the checkpoint has come to its end.
func (st *Staged) Keep() { st.kept = true }

// End closes the directory. Without Keep it removes the staged files and marks the
// pages as changed again.
func (st *Staged) End() {
	defer st.dir.Close()
	if st.kept {
		return
	}
	for _, n := range st.names {
		if err := st.dir.Remove(n[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			st.store.Report(Path(st.ledger.ID(), n[0]), err.Error())
		}
	}
	st.ledger.Note(func(x *index.Index) {
		for _, n := range st.pages {
			x.SetPageChanged(n)
		}
		x.Changed = true
	})
}
