package set

import (
	"encoding/hex"

	"cutie/publisher/names"
	"cutie/publisher/store"
)

// Scrub reads the files of the set from the disk, and reports whether to go on. Damaged ones
// are taken out of the set.
func (s *Set) Scrub(yield func(int64) bool) bool {
	s.mu.Lock()
	if s.at.Entries == 0 && len(s.files.Lists)+len(s.files.Dumps) == 0 {
		s.mu.Unlock()
		return true
	}
	err := s.mend(s.scrubInventory())
	files, at, want := s.files, s.at, s.text.Word()
	s.mu.Unlock()
	if err != nil {
		s.Reportf(s.Path, "not verified: %v", err)
	}
	for p := range files.Pieces {
		more, err := s.scrub(p, yield)
		if err = s.broken(p.Name, err); err != nil && !store.Absent(err) {
			if _, broken := err.(*brokenFile); !broken {
				s.report(p.Name, "not verified: %v", err)
			}
		}
		if !more {
			return false
		}
	}
	if at.Entries == 0 || want == store.Unknown {
		return true
	}
	more, err := s.scrubOpen(&at, want, yield)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.at.First == at.First {
			if err = s.mend(err); err != nil {
				s.Reportf(s.Path, "not verified: %v", err)
			}
		}
	}
	return more
}

// scrubInventory compares the inventory with its file, and looks for files that are absent or
// have another length. mu is held.
func (s *Set) scrubInventory() error {
	d, err := s.dir()
	if err != nil {
		return err
	}
	defer d.Close()
	if len(s.files.Lists)+len(s.files.Dumps) == 0 {
		return nil
	}
	in, err := s.files.IsIn(d, s.Path, s.Stamp())
	if err == nil && !in {
		if err = s.write(d, s.files); err == nil {
			s.report("inventory", "was damaged; written again")
		}
	}
	if err != nil {
		return err
	}
	return s.survey(d)
}

func (s *Set) scrub(p store.Piece, yield func(int64) bool) (more bool, err error) {
	file, err := s.openFile(p.Name)
	if err != nil {
		return true, err
	}
	defer file.Close()
	more, err = store.SlowCheck(file, p, yield)
	if err == nil && more {
		s.Store.Verified.Trust(file, p.Sum)
	}
	return more, err
}

func (s *Set) scrubOpen(at *store.OpenList, want string, yield func(int64) bool) (more bool, err error) {
	file, err := s.openFile(names.EntriesFile(at.First))
	if err != nil {
		return true, err
	}
	defer file.Close()
	got, more, err := store.SlowSum(file, at.Length, yield)
	if err == nil && more && want != hex.EncodeToString(got[:]) {
		err = store.Damaged("%s has not its SHA-256 digest", file.Name())
	}
	return more, err
}
