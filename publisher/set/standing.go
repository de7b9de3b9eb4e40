package set

import (
	"time"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// A Standing is a set at one instant, as it is published.
type Standing struct {
	store.OpenList
	Lists    []store.Span // closed lists in the index
	Packages []store.Span // in the Change Dump
	Next     time.Time    // from when on there is no package
}

// Standing brings the lists up to date and returns how they stand.
func (s *Set) Standing() (Standing, error) {
	if err := s.catchUp(); err != nil {
		return Standing{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Standing{OpenList: s.at, Lists: s.indexed()}
	st.Packages, st.Next = s.dumped()
	return st, nil
}

// indexed returns the closed lists in the index: they follow each other without
// a gap up to the open one, and are no older than Current, or have changes since the
// last Resource Dump. mu is held.
func (s *Set) indexed() []store.Span {
	return s.recent(store.Current(s.files.Lists, s.at.First, s.perIndex()-1))
}

// dumped returns the packages in the Change Dump, and from when on there is
// none. mu is held.
func (s *Set) dumped() ([]store.Span, time.Time) {
	next := s.at.From
	if lists := s.unpacked(); len(lists) > 0 {
		next = lists[0].From
	}
	packages := store.Current(s.files.Packages, s.made.packed+1, s.perIndex()-1) // as many as closed lists
	if n := len(packages); n > 0 {
		next = packages[n-1].Until
	}
	return s.recent(packages), next
}

// recent leaves out spans with an end longer ago than Current, but none with changes
// since the last Resource Dump: who begins with that needs them. mu is held.
func (s *Set) recent(all []store.Span) []store.Span {
	current := s.Terms().Current
	if current == 0 {
		return all
	}
	oldest, dump := s.Now().Add(-current), s.files.Dump(0)
	for len(all) > 0 && all[0].Until.Before(oldest) && (dump == nil || all[0].Last <= dump.Seq) {
		all = all[1:]
	}
	return all
}

// A Holding is the files of a set at one instant.
type Holding struct {
	Packages bool           // the Change Dump has some
	Dump     *store.Edition // the last Resource Dump; nil if there is none
	Octets   int64          // bytes of all files
	Former
}

// Former are the files of documents that are not current any more, oldest first: closed
// lists and packages that the index and the Change Dump have dropped, and Resource Dumps
// before the last one.
type Former struct {
	Lists, Packages []store.Span
	Dumps           []*store.Edition
}

// Holding returns the files there are; its slices are not to be changed.
func (s *Set) Holding() Holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _ := s.dumped()
	return Holding{len(now) > 0, s.files.Dump(0), s.files.Octets() + s.at.Length, Former{
		s.files.Lists[:len(s.files.Lists)-len(s.indexed())],
		s.files.Packages[:len(s.files.Packages)-len(now)],
		s.files.Dumps[:max(0, len(s.files.Dumps)-1)],
	}}
}

// Octets returns the bytes of all files.
func (s *Set) Octets() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Octets() + s.at.Length
}

// List returns the closed list from an event on.
func (s *Set) List(first queuefs.Seq) (store.Span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Find(s.files.Lists, first)
}

// Dump returns the dump of an event, or the current one for 0; nil if there
// is none.
func (s *Set) Dump(seq queuefs.Seq) *store.Edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Dump(seq)
}

// Portion returns a package in some dump.
func (s *Set) Portion(doc names.Doc) (store.Portion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Portion(doc)
}

// Package returns the package of changes from an event on.
func (s *Set) Package(first queuefs.Seq) (store.Span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Find(s.files.Packages, first)
}

// Gone reports whether a document would be older than all that are kept, or has the
// digest of another history. Whether there was just this one is not known.
func (s *Set) Gone(doc names.Doc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, first := queuefs.Seq(doc.N), s.at.First
	if len(s.files.Lists) > 0 {
		first = s.files.Lists[0].First
	}
	if doc.Sum != "" && max(seq, queuefs.Seq(doc.Version)) <= s.at.Read {
		return true
	}
	switch doc.Kind {
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		first = s.made.packed + 1
		if len(s.files.Packages) > 0 {
			first = s.files.Packages[0].First
		}
		return seq < first
	case names.ClosedList:
		return seq < first
	case names.ResourcePackage, names.ResourceManifest, names.DumpPart, names.FormerPage:
		seq = queuefs.Seq(doc.Version)
	case names.FormerDump, names.FormerList:
	default:
		return false
	}
	if d := s.files.Dump(0); d != nil {
		return seq < d.Seq
	}
	return seq < first
}
