package publisher

import (
	"fmt"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/snapshot"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A Resource List consists of members, one for each engine page: the cost of a list
// of any length grows with the changes since the last request.

// A listing is the part of a Resource List in one document: the engine pages
// from lo up to hi. The first one also has queue-info.txt.
type listing struct {
	*set
	snapshot.Pages
	page     bool           // it is one of several, named by an index
	plain    bool           // without terms of ResourceSync
	archives []sitemap.Link // to the archive, if there is one; pages have none
}

// resultsPerJob is how many results a job of a page of the Resource List may have on
// average before the page has more than MaxEntries entries.
const resultsPerJob = 4

// pagesOf returns how many engine pages fit into a page of the Resource List.
func (s *set) pagesOf() int {
	const reserve = 1 // for queue-info.txt
	perJob, bound := s.kind.PerJob(), s.bound
	if s.kind == names.Replica {
		bound += bound * resultsPerJob / perJob
		perJob += resultsPerJob
	}
	n := min((s.p.MaxEntries-reserve)/(queuefs.PageJobs*perJob), int(s.limit())/(queuefs.PageJobs*bound))
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
// for a document, the index of its pages. The plain one is sitemap.xml.
func (s *set) resourceList(plain bool) *answer.Resource {
	st := s.q.State()
	if !s.fitsDocument(s.kind.Size(int(st.Pending), int(st.Pending+st.Consumed+st.Deleted))) {
		return s.resourceIndex(plain)
	}
	l := listing{set: s, Pages: s.between(0, s.q.Pages(), plain), plain: plain}
	if !plain {
		l.archives = s.archiveLink(names.ResourceList)
	}
	l.Grow = true
	r := l.resource()
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		snap := l.Snapshot()
		if !s.fitsDocument(snap.Entries) { // it has grown meanwhile
			return s.resourceIndex(plain).Compose(c)
		}
		return l.document(snap, c), nil
	}
	return r
}

// resourceIndex returns the index of the pages with entries. It is as of
// one event, or has no entity tag.
func (s *set) resourceIndex(plain bool) *answer.Resource {
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
		for try := 0; try < snapshot.Tries && d.Tag == ""; try++ {
			at := s.lastChange()
			body = s.index(plain, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: links})
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

// index returns the index of the pages.
func (s *set) index(plain bool, head sitemap.Head) []byte {
	if !plain {
		return s.p.text(sitemap.SitemapIndex, head, s.listPages)
	}
	dst := sitemap.AppendPlainHead(nil, sitemap.SitemapIndex)
	for e := range s.listPages {
		doc, _ := names.ParseDoc(e.Loc[len(s.refs.Docs[s.kind]):])
		dst = sitemap.AppendPlainEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{Loc: s.uri(names.SitemapPage, doc.N), LastMod: e.At})
	}
	return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
}

// listPages yields the entries of the index.
func (s *set) listPages(yield func(sitemap.Entry) bool) {
	pages := s.q.Pages()
	for n := 1; (n-1)*s.pages < pages; n++ {
		l, _ := s.listing(uint64(n), false)
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
func (s *set) listing(n uint64, plain bool) (listing, bool) {
	lo := (n - 1) * uint64(s.pages)
	if pages := s.q.Pages(); n > 1 && lo >= uint64(pages) {
		return listing{}, false
	}
	return listing{set: s, Pages: s.between(int(lo), int(lo)+s.pages, plain), page: true, plain: plain}, true
}

// between returns the engine pages from lo up to hi.
func (s *set) between(lo, hi int, plain bool) snapshot.Pages {
	p := snapshot.Pages{Queue: s.q, Set: s.kind, Lo: lo, Hi: hi, Render: s.renderer, Cache: s.p.cache, Key: s.path}
	if plain {
		p.Render, p.Key = s.plainRenderer, s.path+" plain"
	}
	return p
}

func (s *set) plainRenderer() entries.Renderer {
	r := s.renderer()
	r.Plain = true
	return r
}

// latest returns the last event in the listing, its time or that of the creation of
// the queue, and the number of entries.
func (l *listing) latest() (version queuefs.Seq, at time.Time, entries int) {
	version, at, entries = l.Latest()
	return version, l.orCreated(at), entries
}

// info returns the facts of queue-info.txt if the listing has it.
func (l *listing) info() *queuefs.Facts {
	if l.kind != names.Replica || l.Lo > 0 {
		return nil
	}
	_, facts := l.q.InfoFile()
	return &facts
}

// tag returns the entity tag of the listing at a version.
func (l *listing) tag(version queuefs.Seq, info *queuefs.Facts) string {
	t := fmt.Sprintf("l%d-%d", l.Lo, version)
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
	r.Compose = func(c compose.Coding) (*compose.Document, error) { return l.document(l.Snapshot(), c), nil }
	return r
}

// document composes a snapshot.
func (l *listing) document(s snapshot.Snapshot, c compose.Coding) *compose.Document {
	links := l.up()
	if l.page {
		links = l.up(sitemap.Link{Rel: sitemap.RelIndex, Href: l.uri(names.ResourceList)})
	}
	d, at := &compose.Document{}, l.orCreated(s.At)
	top := l.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: append(links, l.archives...)})
	if l.plain {
		top = sitemap.AppendPlainHead(nil, sitemap.URLSet)
	}
	info := l.info()
	if info != nil {
		r := l.Render()
		top = r.AppendInfo(top, info)
	} else if len(l.archives) == 0 {
		d.Modified = at
	}
	if s.Steady {
		d.Tag = l.tag(s.Version, info)
	}
	b := d.Build(c)
	b.Text(top)
	b.Members(s.Members)
	b.Text(sitemap.AppendFoot(nil, sitemap.URLSet))
	b.End()
	return d
}
