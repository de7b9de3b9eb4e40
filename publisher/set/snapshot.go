package set

import (
	"sync"
	"time"

	"cutie/publisher/compose"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
)

// Pages are the engine pages of a queue from Lo up to Hi, shown as entries of a Resource List
// (Z39.99-2017, 10). The compressed entries of a page are kept until the page changes.
type Pages struct {
	Queue  Queue
	Set    names.Set
	Lo, Hi int
	Grow   bool // Hi grows with the queue
	Render func() entries.Renderer
	Cache  *compose.Cache
	Key    string // of the set in Cache
}

// Latest returns the last event in the pages and its time, both zero if there is
// none, and the number of entries.
func (p *Pages) Latest() (version queuefs.Seq, at time.Time, entries int) {
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
// A document must show one instant. Its members are read one after the other
// while events go on; then the versions of all pages are compared with theirs,
// and changed pages are read again. If none has changed, all members held
// together at the instant when the comparison began, because versions only
// grow: the newest of them is the version of the document. Pages are compressed
// before that loop or after it, never in it. Where events come so fast that no
// comparison succeeds, the document has no entity tag, and its at is the time
// of the last event before the first reading: replaying the changes since at
// leads to the true state, as Z39.99-2017, 10.1 asks.
type Snapshot struct {
	Members []*compose.Member
	Entries int
	Version queuefs.Seq // last event in it; 0 for none
	At      time.Time   // all events up to then are in it; zero if there are none
	Steady  bool        // all members are of one instant
}

// Tries is how often versions are compared. Measured with writers that
// never rest, two to five documents in a hundred stay without entity tag.
const Tries = 20

// A reading is an engine page at one instant.
type reading struct {
	entries []queuefs.Entry
	version queuefs.Seq
	at      time.Time
}

// Snapshot reads the pages.
func (p *Pages) Snapshot() (s Snapshot) {
	_, s.At, _ = p.Latest() // before anything is read
	defer p.Cache.Turn()()

	moved := make(map[int]reading) // read, but not yet made a member
	s.Members = make([]*compose.Member, p.Hi-p.Lo)
	for i := range s.Members {
		s.Members[i] = p.member(i, moved)
	}
	for range Tries {
		if s.Steady = !p.compare(&s, moved); s.Steady {
			break
		}
	}
	for i, r := range moved {
		s.Members[i] = p.pack(i, r)
	}
	var newest *compose.Member
	for _, m := range s.Members {
		s.Entries += m.Entries
		if newest == nil || m.Version > newest.Version {
			newest = m
		}
	}
	if s.Steady && newest != nil && newest.Version > 0 {
		s.Version, s.At = queuefs.Seq(newest.Version), newest.At
	}
	return s
}

// member returns page i of the pages from the cache, or makes it. A changed
// page is likely to change again, so it is only read, into moved.
func (p *Pages) member(i int, moved map[int]reading) *compose.Member {
	version, at, pending, total := p.Queue.PageVersion(p.Lo + i)
	if p.Set.Size(pending, total) == 0 {
		return &compose.Member{Version: uint64(version), At: at}
	}
	m, ok := p.Cache.Get(p.key(i))
	switch {
	case !ok:
		m = p.pack(i, p.read(i))
	case m.Version != uint64(version):
		moved[i] = p.read(i)
	}
	return m
}

// compare reads changed pages again, and reports whether there were any.
func (p *Pages) compare(s *Snapshot, moved map[int]reading) bool {
	for pages := p.Queue.Pages(); p.Grow && p.Hi < pages; p.Hi++ {
		s.Members = append(s.Members, &compose.Member{})
	}
	again := false
	for i, m := range s.Members {
		have := queuefs.Seq(m.Version)
		if r, ok := moved[i]; ok {
			have = r.version
		}
		if version, _, _, _ := p.Queue.PageVersion(p.Lo + i); version != have {
			moved[i] = p.read(i)
			again = true
		}
	}
	return again
}

func (p *Pages) key(i int) compose.Key {
	return compose.Key{Of: p.Key, From: int64(p.Lo + i)}
}

func (p *Pages) read(i int) (r reading) {
	r.entries, r.version, r.at = p.Queue.Page(p.Lo+i, nil)
	if p.Set == names.Replica {
		p.Queue.AddResults(r.entries)
	}
	return r
}

var textBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pack makes a member of a reading and keeps it in the cache.
func (p *Pages) pack(i int, r reading) *compose.Member {
	buf := textBuffers.Get().(*[]byte)
	defer textBuffers.Put(buf)
	render, text, listed := p.Render(), (*buf)[:0], 0
	for j := range r.entries {
		var n int
		text, n = render.Listed(text, p.Set, &r.entries[j])
		listed += n
	}
	*buf = text
	if len(text) == 0 {
		return &compose.Member{Version: uint64(r.version), At: r.at}
	}
	m := compose.NewMember(text)
	m.Entries, m.Version, m.At = listed, uint64(r.version), r.at
	p.Cache.Put(p.key(i), m)
	return m
}
