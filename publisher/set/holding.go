package set

import (
	"cutie/publisher/names"
	"cutie/queuefs/job"
)

// A Holding is the files of a set at one instant.
type Holding struct {
	Packages bool     // the Change Dump has some
	Dump     *Edition // the last Resource Dump; nil if there is none
	Octets   int64    // bytes of all files
	Former
}

// Former are the files of documents that are not current any more, oldest first: closed
// lists and packages that the index and the Change Dump have dropped, and Resource Dumps
// before the last one.
type Former struct {
	Lists, Packages []Span
	Dumps           []*Edition
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
func (s *Set) List(first job.Seq) (Span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Find(s.files.Lists, first)
}

// Dump returns the dump of an event, or the current one for 0; nil if there
// is none.
func (s *Set) Dump(seq job.Seq) *Edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Dump(seq)
}

// Portion returns a package in some dump.
func (s *Set) Portion(doc names.Doc) (Portion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files.Portion(doc)
}

// Package returns the package of changes from an event on.
func (s *Set) Package(first job.Seq) (Span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Find(s.files.Packages, first)
}

// Gone reports whether a document would be older than all that are kept, or has the
// digest of another history. Whether there was just this one is not known.
func (s *Set) Gone(doc names.Doc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, first := job.Seq(doc.N), s.at.First
	if len(s.files.Lists) > 0 {
		first = s.files.Lists[0].First
	}
	if doc.Sum != "" && max(seq, job.Seq(doc.Version)) <= s.at.Read {
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
		seq = job.Seq(doc.Version)
	case names.FormerDump, names.FormerList:
	default:
		return false
	}
	if d := s.files.Dump(0); d != nil {
		return seq < d.Seq
	}
	return seq < first
}
