package publisher

import (
	"sync"
	"time"

	"cutie/queuefs"
)

// A Resource List is made of members, one for each page of the engine, so
// that a list of any length costs what changed since it was last asked for.
//
// A document must show one instant. Its members are read one after the other
// while events go on; then the versions of all pages are compared with those
// of the members, and what has moved on is read again. If none has, all of
// them held together at the instant when the comparison began, because
// versions only grow: the newest of them is the version of the document.
// Pages are compressed before that loop or after it, never in it. Where
// events come so fast that no comparison succeeds, the document has no entity
// tag, and its at is the time of the last event before the first reading.

// A snapshot is what a listing shows.
type snapshot struct {
	members []*member
	entries int
	version queuefs.Seq // last event in it; 0 for none
	at      time.Time   // all events up to then are in it
	steady  bool        // all members are of one instant
}

// steadyTries is how often versions are compared. Measured with writers that
// never rest, two to five documents in a hundred stay without entity tag.
const steadyTries = 20

// A reading is a page of the engine at one instant.
type reading struct {
	entries []queuefs.Entry
	version queuefs.Seq
	at      time.Time
}

func (l *listing) snapshot() (s snapshot) {
	_, s.at, _ = l.latest() // before anything is read
	l.p.turns <- struct{}{}
	defer func() { <-l.p.turns }()

	moved := make(map[int]reading) // read, but not yet made a member
	s.members = make([]*member, l.hi-l.lo)
	for i := range s.members {
		s.members[i] = l.member(i, moved)
	}
	for range steadyTries {
		if s.steady = !l.compare(&s, moved); s.steady {
			break
		}
	}
	for i, r := range moved {
		s.members[i] = l.pack(i, r)
	}
	var newest *member
	for _, m := range s.members {
		s.entries += m.entries
		if newest == nil || m.version > newest.version {
			newest = m
		}
	}
	if s.steady && newest != nil && newest.version > 0 {
		s.version, s.at = newest.version, newest.at
	}
	return s
}

// member returns page i of the listing from the cache, or makes it. A page
// that changes is likely to do so again, so it is only read, into moved.
func (l *listing) member(i int, moved map[int]reading) *member {
	version, at, pending, total := l.q.PageVersion(l.lo + i)
	if l.set.size(pending, total) == 0 {
		return &member{version: version, at: at}
	}
	m := l.p.cache.get(l.key(i))
	switch {
	case m == nil:
		m = l.pack(i, l.read(i))
	case m.version != version:
		moved[i] = l.read(i)
	}
	return m
}

// compare reads again what is no longer as the snapshot has it, and reports
// whether there was such.
func (l *listing) compare(s *snapshot, moved map[int]reading) bool {
	for pages := l.q.Pages(); !l.page && l.hi < pages; l.hi++ {
		s.members = append(s.members, &member{})
	}
	again := false
	for i, m := range s.members {
		have := m.version
		if r, ok := moved[i]; ok {
			have = r.version
		}
		if version, _, _, _ := l.q.PageVersion(l.lo + i); version != have {
			moved[i] = l.read(i)
			again = true
		}
	}
	return again
}

func (l *listing) key(i int) memberKey {
	return memberKey{queue: l.q.ID(), set: l.set, from: int64(l.lo + i)}
}

func (l *listing) read(i int) (r reading) {
	r.entries, r.version, r.at = l.q.Page(l.lo+i, nil)
	return r
}

var textBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pack makes a member of a reading and keeps it in the cache.
func (l *listing) pack(i int, r reading) *member {
	buf := textBuffers.Get().(*[]byte)
	defer textBuffers.Put(buf)
	render := l.renderer()
	m := &member{version: r.version, at: r.at}
	text := (*buf)[:0]
	for j := range r.entries {
		var n int
		text, n = render.listed(text, l.set, &r.entries[j])
		m.entries += n
	}
	*buf, m.raw = text, int64(len(text))
	if m.raw > 0 {
		m.gz = compress(nil, text)
		l.p.cache.put(l.key(i), m)
	}
	return m
}
