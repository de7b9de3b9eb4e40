package set

import (
	"errors"
	"io/fs"
	"time"

	"cutie/publisher/names"
)

// Retain removes documents beyond Keep and KeepOctets.
func (s *Set) Retain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.dumping {
		return nil // there are packages no dump names yet
	}
	return s.mend(s.removeOld())
}

// removeOld removes documents past their retention. mu is held.
func (s *Set) removeOld() error {
	dumps, lists := s.expired()
	files := s.files
	if files.Dumps = files.Dumps[dumps:]; lists > 0 {
		last := files.Lists[lists-1].Last
		files.Lists, files.Packages = files.Lists[lists:], files.Packages[Before(files.Packages, last+1):]
		// A task at such a list ends. If it waited for free space, the next may find some.
		if w := &s.made.lists; last > s.made.packed {
			s.made.packed, s.made.skipped, w.octets, w.again = last, last, min(w.octets, 1), time.Time{}
		}
	}
	if dumps+lists == 0 && !s.made.unswept {
		return nil
	}
	d, err := s.dir()
	if errors.Is(err, fs.ErrNotExist) && len(s.files.Dumps)+len(s.files.Lists) == 0 {
		s.made.unswept = false
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if s.made.unswept = true; dumps+lists > 0 {
		if err := s.write(d, files); err != nil {
			return err
		}
	}
	if err := s.files.Sweep(d, names.EntriesFile(s.at.First)); err != nil {
		return err
	}
	s.made.unswept = false
	return nil
}

// mostWaiting is how many lists may lack packages before an outdated Resource Dump may go:
// it is not replaced while they do.
const mostWaiting = 8

// expired returns how many of the oldest Resource Dumps and closed lists are to
// go. These always stay: the last Resource Dump, while it is true or will be
// replaced, unless that waits; the one before, if there is no
// Keep, for clients still fetching its packages; the last closed list; and lists with
// changes newer than the last Resource Dump. A list without its package goes as others do.
// mu is held.
func (s *Set) expired() (dumps, lists int) {
	now, terms := s.Now(), s.Terms()
	old := func(t time.Time) bool { return terms.Keep > 0 && now.Sub(t) > terms.Keep }
	octets := s.files.Octets()
	over := func() bool { return terms.KeepOctets > 0 && octets > terms.KeepOctets }

	for ; len(s.files.Dumps)-dumps > 1; dumps++ {
		if !old(s.files.Dumps[dumps+1].Made) && (len(s.files.Dumps)-dumps == 2 || terms.Keep > 0 && !over()) {
			break
		}
		octets -= s.files.Dumps[dumps].Alone(s.files.Dumps[dumps+1])
	}
	last := s.files.Dump(0)
	waits := s.made.lists.octets > 0 || s.made.dump.octets > 0 || len(s.unpacked()) > mostWaiting
	if last != nil && len(s.files.Dumps)-dumps == 1 && s.outdated(last) &&
		(terms.DumpPeriod == 0 && old(last.Made) || waits && (old(last.Made) || over())) {
		octets -= last.Alone(nil)
		last, dumps = nil, dumps+1
	}
	for ; lists < len(s.files.Lists)-1; lists++ {
		sp := s.files.Lists[lists]
		if last != nil && sp.Last > last.Seq || !old(sp.Until) && !over() {
			break
		}
		octets -= sp.Octets()
		if p, ok := Find(s.files.Packages, sp.First); ok {
			octets -= p.Length
		}
	}
	return dumps, lists
}

// Scrub reads the files of the set from the disk, and reports whether to go on. Damaged ones
// are taken out of the set.
func (s *Set) Scrub(yield func(int64) bool) bool {
	s.mu.Lock()
	if s.at.Entries == 0 && len(s.files.Lists)+len(s.files.Dumps) == 0 {
		s.mu.Unlock()
		return true
	}
	files := s.files
	growing := Piece{Name: names.EntriesFile(s.at.First), Length: s.at.Length}
	sum, open := parseSum(s.text.Word()) // false without entries
	growing.Sum = sum
	s.mu.Unlock()
	for p := range files.Pieces {
		more, err := s.scrub(p, false, yield)
		if err = s.broken(p.Name, err); err != nil && !Absent(err) {
			if _, broken := err.(*brokenFile); !broken {
				s.report(p.Name, "not verified: %v", err)
			}
		}
		if !more {
			return false
		}
	}
	if !open {
		return true
	}
	more, err := s.scrub(growing, true, yield)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if names.EntriesFile(s.at.First) == growing.Name {
			if err = s.mend(err); err != nil {
				s.Reportf(s.Path, "not verified: %v", err)
			}
		}
	}
	return more
}

func (s *Set) scrub(p Piece, grows bool, yield func(int64) bool) (more bool, err error) {
	file, err := s.openFile(p.Name)
	if err != nil {
		return true, err
	}
	defer file.Close()
	more, err = p.Reread(file, grows, yield)
	if err == nil && more && !grows {
		s.Store.Verified.Trust(file, p.Sum)
	}
	return more, err
}
