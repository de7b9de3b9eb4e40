package set

import (
	"crypto/sha256"
	"encoding/hex"

	"cutie/publisher/names"
	"cutie/publisher/store"
)

// Scrub reads the files of the set, and reports whether to go on.
func (s *Set) Scrub(yield func(int64) bool) bool {
	s.mu.Lock()
	if s.at.Entries == 0 && len(s.files.Lists.All)+len(s.files.Dumps) == 0 {
		s.mu.Unlock()
		return true
	}
	err := s.scrubLines()
	lists := s.files.Lists.All
	var pieces []store.Piece
	for p := range s.files.Pieces {
		pieces = append(pieces, p)
	}
	s.mu.Unlock()
	if err != nil {
		s.Reportf(s.Path, "not verified: %v", err)
	}
	for _, p := range pieces {
		more, err := s.scrubPiece(p, yield)
		if err != nil {
			s.report(p.Name, "not verified: %v", err)
		}
		if !more {
			return false
		}
	}
	for i := range lists {
		if lists[i].Lost() || lists[i].Packed > 0 {
			continue
		}
		if p, err := s.Packed(lists[i]); err == nil {
			p.Close()
		}
		if !yield(lists[i].Length / 8) {
			return false
		}
	}
	return s.scrubOpen(yield)
}

// scrubLines verifies the files of lines and of Resource Dumps, and writes damaged ones
// anew. mu is held.
func (s *Set) scrubLines() error {
	d, err := s.dir()
	if err != nil {
		return s.mend(err)
	}
	defer d.Close()
	if err := s.survey(d); err != nil {
		return err
	}
	for name, of := range map[string]*store.Spans{"lists": &s.files.Lists, "packages": &s.files.Packages} {
		whole, err := of.Whole(d)
		if err != nil {
			return err
		}
		if whole {
			continue
		}
		if err := s.final(of.Renew(s.Store, d)); err != nil {
			return err
		}
		s.report(name, "was damaged; written again")
		s.healed.Add(1)
	}
	for _, one := range s.files.Dumps {
		whole, err := s.files.Renew(d, one)
		if err != nil {
			return err
		}
		if !whole {
			s.report(names.DumpFile(one.Seq), "was damaged; written again")
			s.healed.Add(1)
		}
	}
	return nil
}

// scrubPiece reads a file of a closed list or a package.
func (s *Set) scrubPiece(p store.Piece, yield func(int64) bool) (more bool, err error) {
	file, err := s.openFile(p.Name)
	var got [sha256.Size]byte
	if more = true; err == nil {
		defer file.Close()
		if err = store.HasLength(file, p.Length); err == nil {
			if p.Text > 0 {
				got, more, err = store.SlowPackedSum(file, p.Text, func(n int64) bool { return yield(n * p.Length / p.Text) })
			} else {
				got, more, err = store.SlowSum(file, p.Length, yield)
			}
		}
	}
	switch {
	case err == nil && !more:
	case err == nil && got == p.Sum && p.Text > 0:
		s.Store.TrustPacked(file, got)
	case err == nil && got == p.Sum:
		s.Store.Verified.Trust(file, got)
	case err == nil:
		err = store.Damaged("%s has not its SHA-256 digest", p.Name)
	}
	if err != nil && store.Unusable(err) {
		s.mu.Lock()
		if s.files.Has(p.Name) { // else it was removed meanwhile
			s.note(p.Name, err)
		}
		s.mu.Unlock()
		err = nil
	}
	return more, err
}

// scrubOpen reads the open list.
func (s *Set) scrubOpen(yield func(int64) bool) bool {
	s.mu.Lock()
	at, want := s.at, s.text.Word()
	s.mu.Unlock()
	if at.Entries == 0 || want == store.Unknown {
		return true
	}
	file, err := s.openFile(names.EntriesFile(at.First))
	more := true
	if err == nil {
		defer file.Close()
		var got [sha256.Size]byte
		got, more, err = store.SlowSum(file, at.Length, yield)
		if err == nil && more && want != hex.EncodeToString(got[:]) {
			err = store.Damaged("%s has not its SHA-256 digest", file.Name())
		}
	}
	if err == nil || !more {
		return more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.First == at.First {
		if err = s.mend(lostList(err)); err != nil {
			s.Reportf(s.Path, "not verified: %v", err)
		}
	}
	return true
}
