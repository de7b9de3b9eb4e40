package set

import (
	"io"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

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
