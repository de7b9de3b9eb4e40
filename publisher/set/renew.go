package set

import (
	"bufio"
	"errors"
	"io"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs/durable"
)

// After a failed sync nobody knows which of the written octets are on the disk, and the
// system may say of the next sync it was good. So publishing stops, the engine keeps its
// events, and a Tick writes the files in question to new ones: verified, synced, and put
// in place of the old. Then publishing goes on. As long as that fails, it is tried again,
// after a pause of a second to a minute.

// Renew writes the files of the set again after a failed sync.
func (s *Set) Renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unsure {
		return nil
	}
	err := s.renewAll()
	if err != nil && store.Unusable(err) {
		err = s.mend(err)
	}
	if err == nil {
		s.unsure = false
	}
	return err
}

func (s *Set) renewAll() error {
	d, err := s.makeDir()
	if err != nil {
		return err
	}
	defer d.Close()
	if err := s.renewOpen(d); err != nil {
		return err
	}
	if err := errors.Join(s.files.Lists.Renew(s.Store, d), s.files.Packages.Renew(s.Store, d)); err != nil {
		return err
	}
	return s.Store.SyncQueue(s.Queue.ID())
}

// renewOpen copies the open list to a new file.
func (s *Set) renewOpen(d *durable.Dir) error {
	if s.at.Entries == 0 {
		return nil
	}
	return lostList(s.copyGrowing(d, names.EntriesFile(s.at.First), &s.text, s.at.Length))
}

// copyGrowing copies a growing file to a new one, verified and synced, in its place.
func (s *Set) copyGrowing(d *durable.Dir, name string, file *store.Growing, length int64) error {
	in, err := d.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := file.Check(in, length); err != nil {
		return err
	}
	out, err := s.Store.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	w := bufio.NewWriterSize(out, 256<<10)
	if _, err := io.Copy(w, io.NewSectionReader(in, 0, length)); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := out.Commit(d, name); err != nil {
		return err
	}
	if in, err = d.Open(name); err != nil {
		return err
	}
	defer in.Close()
	return file.Check(in, length) // reads the copy
}
