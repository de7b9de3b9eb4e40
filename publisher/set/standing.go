package set

import (
	"io"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// A Standing is a set at one instant, as it is published.
type Standing struct {
	OpenList
	Lists    []Span    // closed lists in the index
	Packages []Span    // in the Change Dump
	Next     time.Time // from when on there is no package
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
func (s *Set) indexed() []Span {
	return s.recent(Current(s.files.Lists, s.at.First, s.perIndex()-1))
}

// dumped returns the packages in the Change Dump, and from when on there is
// none. mu is held.
func (s *Set) dumped() ([]Span, time.Time) {
	next := s.at.From
	if lists := s.unpacked(); len(lists) > 0 {
		next = lists[0].From
	}
	packages := Current(s.files.Packages, s.made.packed+1, s.perIndex()-1) // as many as closed lists
	if n := len(packages); n > 0 {
		next = packages[n-1].Until
	}
	return s.recent(packages), next
}

// recent leaves out spans with an end longer ago than Current, but none with changes
// since the last Resource Dump: who begins with that needs them. mu is held.
func (s *Set) recent(all []Span) []Span {
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

// Pages are the engine pages of a queue from Lo up to Hi, shown as entries of a Resource List
// (Z39.99-2017, 10).
type Pages struct {
	Queue  Queue
	Set    names.Set
	Lo, Hi int
	Grow   bool // Hi grows with the queue
	Render func() names.Renderer
}

// Latest returns the last event in the pages and its time, both zero if there is
// none, and the number of entries.
func (p *Pages) Latest() (version job.Seq, at time.Time, entries int) {
	for i := p.Lo; i < p.Hi; i++ {
		v, t, pending, total := p.Queue.PageVersion(i)
		if v > version {
			version, at = v, t
		}
		entries += p.Set.Size(pending, total)
	}
	return version, at, entries
}

// A Snapshot is the contents of pages.
//
// A document must show one instant. Its pages are read one after the other while events go
// on; then the versions of all pages are compared with theirs, and changed pages are read
// again. If none has changed, all pages held together at the instant when the comparison
// began, because versions only grow: the newest of them is the version of the document.
// Pages are rendered after that loop. Where events come so fast that no comparison succeeds,
// the document has no entity tag, and its at is the time of the last event before the first
// reading: replaying the changes since at leads to the true state, as Z39.99-2017, 10.1 asks.
type Snapshot struct {
	Entries int
	Version job.Seq   // last event in it; 0 for none
	At      time.Time // all events up to then are in it; zero if there are none
	Steady  bool      // all pages are of one instant

	of    *Pages
	pages []reading
}

// Tries is how often versions are compared. Measured with writers that
// never rest, two to five documents in a hundred stay without entity tag.
const Tries = 20

// A reading is an engine page at one instant.
type reading struct {
	entries []ledger.Entry
	version job.Seq
	at      time.Time
}

// Snapshot reads the pages.
func (p *Pages) Snapshot() Snapshot {
	s := Snapshot{of: p}
	_, s.At, _ = p.Latest() // before anything is read
	for i := p.Lo; i < p.Hi; i++ {
		s.pages = append(s.pages, p.read(i))
	}
	for range Tries {
		if s.Steady = !s.compare(); s.Steady {
			break
		}
	}
	for _, r := range s.pages {
		for i := range r.entries {
			if p.Set == names.Replica {
				s.Entries += 2 + len(r.entries[i].Results)
			} else if r.entries[i].Status == job.Pending {
				s.Entries++
			}
		}
		if s.Steady && r.version > s.Version {
			s.Version, s.At = r.version, r.at
		}
	}
	return s
}

// compare reads changed pages again, and reports whether there were any.
func (s *Snapshot) compare() (again bool) {
	p := s.of
	for pages := p.Queue.Pages(); p.Grow && p.Hi < pages; p.Hi++ {
		s.pages = append(s.pages, reading{})
	}
	for i := range s.pages {
		if version, _, _, _ := p.Queue.PageVersion(p.Lo + i); version != s.pages[i].version {
			s.pages[i] = p.read(p.Lo + i)
			again = true
		}
	}
	return again
}

func (p *Pages) read(i int) (r reading) {
	if version, at, pending, total := p.Queue.PageVersion(i); p.Set.Size(pending, total) == 0 {
		return reading{version: version, at: at}
	}
	r.entries, r.version, r.at = p.Queue.Page(i, nil)
	if p.Set == names.Replica {
		p.Queue.AddResults(r.entries)
	}
	return r
}

// WriteTo writes the entries.
func (s *Snapshot) WriteTo(w io.Writer) (n int64, err error) {
	render, text := s.of.Render(), []byte(nil)
	for _, r := range s.pages {
		for j := range r.entries {
			if text, _ = render.Listed(text, s.of.Set, &r.entries[j]); len(text) < 32<<10 {
				continue
			}
			if _, err := w.Write(text); err != nil {
				return n, err
			}
			n, text = n+int64(len(text)), text[:0]
		}
	}
	_, err = w.Write(text)
	return n + int64(len(text)), err
}
