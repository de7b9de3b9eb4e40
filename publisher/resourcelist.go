package publisher

import (
	"fmt"
	"sync"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A Resource List consists of members, one for each engine page: the cost of a list
// of any length grows with the changes since the last request.

// A listing is the part of a Resource List in one document: the engine pages
// from lo up to hi. The first one also has queue-info.txt.
type listing struct {
	*set
	lo, hi int
	page   bool // it is one of several, named by an index

	archives []sitemap.Link // to the archive, if there is one; pages have none
}

// pagesOf returns how many engine pages surely fit into a page of the Resource
// List.
func (s *set) pagesOf() int {
	const reserve = 1 // for queue-info.txt
	n := min((s.p.MaxEntries-reserve)/(queuefs.PageJobs*s.kind.PerJob()), int(s.limit())/(queuefs.PageJobs*s.bound))
	return max(1, n)
}

// limit returns how many bytes of entries a document may have.
func (s *set) limit() int64 { return s.p.MaxBytes - 4096 - 2*int64(len(s.refs.Docs[names.Pending])) }

// fitsDocument reports whether one document may have n entries of jobs.
func (s *set) fitsDocument(n int) bool {
	if s.kind == names.Replica {
		n++ // queue-info.txt
	}
	return n <= s.p.MaxEntries && int64(n)*int64(s.bound) <= s.limit()*int64(s.kind.PerJob())
}

// resourceList returns resourcelist.xml: the list itself or, if it is too large
// for a document, the index of its pages.
func (s *set) resourceList() *answer.Resource {
	st := s.q.State()
	if !s.fitsDocument(s.kind.Size(int(st.Pending), int(st.Pending+st.Consumed+st.Deleted))) {
		return s.resourceIndex()
	}
	l := listing{set: s, hi: s.q.Pages(), archives: s.archiveLink(names.ResourceList)}
	r := l.resource()
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		snap := l.snapshot()
		if !s.fitsDocument(snap.entries) { // it has grown meanwhile
			return s.resourceIndex().Compose(c)
		}
		return l.document(snap, c), nil
	}
	return r
}

// resourceIndex returns the index of the pages with entries. It is as of
// one event, or has no entity tag.
func (s *set) resourceIndex() *answer.Resource {
	links := s.up(s.archiveLink(names.ResourceList)...)
	tag := func(at time.Time) string { return fmt.Sprintf("ri%d-%d", len(links), at.UnixMicro()) }
	at := s.lastChange()
	r := &answer.Resource{Tag: tag(at)}
	if len(links) == 1 {
		r.Modified = at // the link to the archive comes without an event
	}
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{}
		var body []byte
		for try := 0; try < steadyTries && d.Tag == ""; try++ {
			at := s.lastChange()
			body = s.p.text(sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: links}, s.listPages)
			if s.lastChange().Equal(at) {
				d.Tag = tag(at)
			}
			if len(links) == 1 {
				d.Modified = at
			}
		}
		d.Whole(body, c)
		return d, nil
	}
	return r
}

// listPages yields the entries of the index.
func (s *set) listPages(yield func(sitemap.Entry) bool) {
	pages := s.q.Pages()
	for n := 1; (n-1)*s.pages < pages; n++ {
		l, _ := s.listing(uint64(n))
		_, at, entries := l.latest()
		if entries == 0 && l.info() == nil {
			continue
		}
		if !yield(sitemap.Entry{Loc: s.uri(names.ResourcePage, uint64(n)), At: at, Length: -1}) {
			return
		}
	}
}

// listing returns page n of the Resource List, from 1. The first page, and the
// last one the queue has had, are there even if they are empty.
func (s *set) listing(n uint64) (listing, bool) {
	lo := (n - 1) * uint64(s.pages)
	if pages := s.q.Pages(); n > 1 && lo >= uint64(pages) {
		return listing{}, false
	}
	return listing{set: s, lo: int(lo), hi: int(lo) + s.pages, page: true}, true
}

// latest returns the last event that touched the listing, its time, and how
// many entries there are.
func (l *listing) latest() (version queuefs.Seq, at time.Time, entries int) {
	for p := l.lo; p < l.hi; p++ {
		v, t, pending, total := l.q.PageVersion(p)
		if v > version {
			version, at = v, t
		}
		entries += l.kind.Size(pending, total)
	}
	return version, l.orCreated(at), entries
}

// info returns the facts of queue-info.txt if the listing has it.
func (l *listing) info() *queuefs.Facts {
	if l.kind != names.Replica || l.lo > 0 {
		return nil
	}
	_, facts := l.q.InfoFile()
	return &facts
}

// tag returns the entity tag of the listing at a version.
func (l *listing) tag(version queuefs.Seq, info *queuefs.Facts) string {
	t := fmt.Sprintf("l%d-%d", l.lo, version)
	if l.page {
		t += "p"
	}
	if len(l.archives) > 0 {
		t += "a"
	}
	if info != nil {
		t += fmt.Sprintf("-%x-%x", info.SHA256[:6], info.Modified.UnixMicro())
	}
	return t
}

// resource returns the listing as a document.
func (l listing) resource() *answer.Resource {
	info := l.info()
	version, at, _ := l.latest()
	r := &answer.Resource{Tag: l.tag(version, info)}
	if info == nil && len(l.archives) == 0 {
		r.Modified = at // queue-info.txt may get any time, the link comes without an event
	}
	r.Compose = func(c compose.Coding) (*compose.Document, error) { return l.document(l.snapshot(), c), nil }
	return r
}

// document composes a snapshot.
func (l *listing) document(s snapshot, c compose.Coding) *compose.Document {
	links := l.up()
	if l.page {
		links = l.up(sitemap.Link{Rel: sitemap.RelIndex, Href: l.uri(names.ResourceList)})
	}
	d := &compose.Document{}
	top := l.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: s.at, Links: append(links, l.archives...)})
	info := l.info()
	if info != nil {
		r := l.renderer()
		top = r.AppendInfo(top, info)
	} else if len(l.archives) == 0 {
		d.Modified = s.at
	}
	if s.steady {
		d.Tag = l.tag(s.version, info)
	}
	b := d.Build(c)
	b.Text(top)
	b.Members(s.members)
	b.Text(sitemap.AppendFoot(nil, sitemap.URLSet))
	b.End()
	return d
}

// A snapshot is the contents of a listing.
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
type snapshot struct {
	members []*compose.Member
	entries int
	version queuefs.Seq // last event in it; 0 for none
	at      time.Time   // all events up to then are in it
	steady  bool        // all members are of one instant
}

// steadyTries is how often versions are compared. Measured with writers that
// never rest, two to five documents in a hundred stay without entity tag.
const steadyTries = 20

// A reading is an engine page at one instant.
type reading struct {
	entries []queuefs.Entry
	version queuefs.Seq
	at      time.Time
}

func (l *listing) snapshot() (s snapshot) {
	_, s.at, _ = l.latest() // before anything is read
	defer l.p.cache.Turn()()

	moved := make(map[int]reading) // read, but not yet made a member
	s.members = make([]*compose.Member, l.hi-l.lo)
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
	var newest *compose.Member
	for _, m := range s.members {
		s.entries += m.Entries
		if newest == nil || m.Version > newest.Version {
			newest = m
		}
	}
	if s.steady && newest != nil && newest.Version > 0 {
		s.version, s.at = queuefs.Seq(newest.Version), newest.At
	}
	return s
}

// member returns page i of the listing from the cache, or makes it. A changed
// page is likely to change again, so it is only read, into moved.
func (l *listing) member(i int, moved map[int]reading) *compose.Member {
	version, at, pending, total := l.q.PageVersion(l.lo + i)
	if l.kind.Size(pending, total) == 0 {
		return &compose.Member{Version: uint64(version), At: at}
	}
	m, ok := l.p.cache.Get(l.key(i))
	switch {
	case !ok:
		m = l.pack(i, l.read(i))
	case m.Version != uint64(version):
		moved[i] = l.read(i)
	}
	return m
}

// compare reads changed pages again, and reports whether there were any.
func (l *listing) compare(s *snapshot, moved map[int]reading) bool {
	for pages := l.q.Pages(); !l.page && l.hi < pages; l.hi++ {
		s.members = append(s.members, &compose.Member{})
	}
	again := false
	for i, m := range s.members {
		have := queuefs.Seq(m.Version)
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

func (l *listing) key(i int) compose.Key {
	return compose.Key{Of: l.path, From: int64(l.lo + i)}
}

func (l *listing) read(i int) (r reading) {
	r.entries, r.version, r.at = l.q.Page(l.lo+i, nil)
	return r
}

var textBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pack makes a member of a reading and keeps it in the cache.
func (l *listing) pack(i int, r reading) *compose.Member {
	buf := textBuffers.Get().(*[]byte)
	defer textBuffers.Put(buf)
	render, text, listed := l.renderer(), (*buf)[:0], 0
	for j := range r.entries {
		var n int
		text, n = render.Listed(text, l.kind, &r.entries[j])
		listed += n
	}
	*buf = text
	if len(text) == 0 {
		return &compose.Member{Version: uint64(r.version), At: r.at}
	}
	m := compose.NewMember(text)
	m.Entries, m.Version, m.At = listed, uint64(r.version), r.at
	l.p.cache.Put(l.key(i), m)
	return m
}
