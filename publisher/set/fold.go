package set

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"cutie/publisher/compose"
	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs/durable"
)

// A closed list is folded: its entries are compressed into a file, and this file alone
// stands for the list then. On the way the entries are compared with the digest of the list, and with
// the compressed form, decoded again. They go after the file is in place, so a crash leaves
// both files at most, and the next start folds the list again. All readers of a list unpack
// as much as they read.

// toFold returns the oldest closed list that is not folded, and false if there is none. mu
// is held.
func (s *Set) toFold() (store.Span, bool) {
	if !s.made.unfolded {
		return store.Span{}, false
	}
	for i := range s.files.Lists.All {
		sp := &s.files.Lists.All[i]
		if sp.Packed == 0 && !sp.Lost() {
			return *sp, true
		}
	}
	s.made.unfolded = false
	return store.Span{}, false
}

// folds reports whether there is a list to fold. mu is held.
func (s *Set) folds() bool {
	_, ok := s.toFold()
	return ok
}

// fold makes the file in gzip stand for the list alone.
func (t *Task) fold(pause func() bool) error {
	if t.list.Packed > 0 {
		return nil
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	p, err := t.Packed(t.list)
	switch {
	case err == nil: // made before the start, or by an attempt that was stopped
		defer p.Close()
		if err := dir.Sync(); err != nil {
			return err
		}
		return t.foldInto(dir, p.Size)
	case !store.Absent(err):
		return t.broken(names.GzipFile(t.list.First), err)
	}
	if err := t.needSpace(t.list.Length/4, 0); err != nil {
		return err
	}
	size, err := t.compress(dir, pause)
	if err != nil {
		return err
	}
	return t.foldInto(dir, size)
}

// foldInto lets the file in gzip stand for the list, and removes the entries.
func (t *Task) foldInto(dir *durable.Dir, size int64) error {
	t.mu.Lock()
	if t.outlived() {
		t.mu.Unlock()
		return dump.ErrStopped
	}
	t.files.Lists.SetPacked(t.list.First, size)
	t.mu.Unlock()
	t.list.Packed = size
	if err := dir.Remove(names.EntriesFile(t.list.First)); err != nil && !store.Absent(err) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.made.unswept = true // a sweep tries again
	}
	return nil
}

// compress makes the file with the entries in gzip, and returns its size.
func (t *Task) compress(dir *durable.Dir, pause func() bool) (size int64, err error) {
	file, err := t.content()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	out, err := t.Store.Temp()
	if err != nil {
		return 0, err
	}
	defer out.Discard()
	w, err := compose.NewGzipWriter(out)
	if err != nil {
		return 0, err
	}
	in, h := io.NewSectionReader(file, 0, t.list.Length), sha256.New()
	for at := int64(0); at < t.list.Length; {
		n, err := io.CopyN(io.MultiWriter(w, h), in, min(64<<10, t.list.Length-at))
		if err == io.EOF {
			err = store.Damaged("%s is shorter than %d octets", file.Name(), t.list.Length)
		}
		if err != nil {
			return 0, err
		}
		if at += n; !pause() {
			return 0, dump.ErrStopped
		}
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if sum != t.list.Sum() {
		return 0, t.otherText(pause)
	}
	p, err := compose.OpenPacked(out.File)
	if err != nil {
		return 0, err
	}
	switch again, more, err := store.PackedSum(p, func(int64) bool { return pause() }); {
	case err != nil:
		return 0, err
	case !more:
		return 0, dump.ErrStopped
	case again != sum:
		return 0, fmt.Errorf("%s does not come out of its compressed form", file.Name())
	}
	name := names.GzipFile(t.list.First)
	if err := out.Commit(dir, name); err != nil {
		dir.Remove(name) // it may not be there after a crash: the next attempt makes another
		return 0, err
	}
	t.Store.TrustPacked(out.File, sum)
	st, err := out.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// otherText ends the folding of a list: its entries were read otherwise than they were
// written. They are damaged if the disk says so, too.
func (t *Task) otherText(pause func() bool) error {
	name := names.EntriesFile(t.list.First)
	file, err := t.openFile(name)
	if err != nil {
		return t.broken(name, err)
	}
	defer file.Close()
	got, more, err := store.SlowSum(file, t.list.Length, func(int64) bool { return pause() })
	switch {
	case err == nil && !more:
		return dump.ErrStopped
	case err == nil && got == t.list.Sum():
		return fmt.Errorf("%s was read otherwise than it is", name)
	case err == nil:
		err = store.Damaged("%s has not its SHA-256 digest", name)
	}
	return t.broken(name, err)
}

// broken notes a damaged file, and returns the error for its readers. Other errors it
// returns as they are.
func (s *Set) broken(name string, err error) error {
	if !store.Unusable(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(name, err)
	return &brokenFile{name}
}

// content opens the entries of the list; those of packList are open.
func (t *Task) content() (compose.Content, error) {
	if t.text != nil {
		return lent{t.text}, nil
	}
	return t.EntriesOf(t.list.First, t.list.Length)
}

// lent is a content that its user does not close.
type lent struct{ compose.Content }

func (lent) Close() error { return nil }

// unpackOpen makes the file with the entries of an open list from the one in gzip. A copy of
// a home, made while the list was closed and folded, may have the list open. d may be nil.
// s.mu is held.
func (s *Set) unpackOpen(d *durable.Dir, at *store.OpenList) error {
	if d == nil {
		return nil
	}
	if _, err := d.Stat(names.EntriesFile(at.First)); !store.Absent(err) {
		return err
	}
	file, err := d.Open(names.GzipFile(at.First))
	if err != nil {
		return nil // the list is made again from the journal
	}
	p, err := compose.OpenPacked(file)
	if err != nil {
		file.Close()
		return nil
	}
	defer p.Close()
	if p.Len < at.Length {
		return nil
	}
	out, err := s.Store.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	_, err = io.Copy(out, io.NewSectionReader(p, 0, at.Length))
	if broken := (*compose.PackedError)(nil); errors.As(err, &broken) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := out.Commit(d, names.EntriesFile(at.First)); err != nil {
		return err
	}
	return d.Remove(names.GzipFile(at.First))
}
