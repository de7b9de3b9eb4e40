package publisher

import (
	"fmt"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs"
	"cutie/sitemap"
)

// A Resource List consists of members, one for each engine page: the cost of a list
// of any length grows with the changes since the last request.

// A listing is the part of a Resource List in one document: the engine pages
// from lo up to hi. The first one also has queue-info.txt.
type listing struct {
	documents
	set.Pages
	page     bool           // it is one of several, named by an index
	plain    bool           // without terms of ResourceSync
	archives []sitemap.Link // to the archive, if there is one; pages have none
}

// resourceList returns resourcelist.xml: the list itself or, if it is too large
// for a document, the index of its pages. The plain one is sitemap.xml; nil without
// resources, since sitemaps.org wants an entry.
func (s documents) resourceList(plain bool) *answer.Resource {
	st := s.Queue.State()
	if plain && s.Kind == names.Pending && st.Pending == 0 {
		return nil
	}
	if !s.Fits(s.Kind.Size(int(st.Pending), int(st.Pending+st.Consumed+st.Deleted))) {
		return s.resourceIndex(plain)
	}
	l := listing{documents: s, Pages: s.Between(0, s.Queue.Pages(), plain), plain: plain}
	if !plain {
		l.archives = s.archiveLink(names.ResourceList)
	}
	l.Grow = true
	r := l.resource()
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		snap := l.Snapshot()
		if !s.Fits(snap.Entries) { // it has grown meanwhile
			return s.resourceIndex(plain).Compose(c)
		}
		return l.document(snap, c), nil
	}
	return r
}

// resourceIndex returns the index of the pages with entries. It is as of
// one event, or has no entity tag.
func (s documents) resourceIndex(plain bool) *answer.Resource {
	links := s.Up(s.archiveLink(names.ResourceList)...)
	tag := func(at time.Time) string { return fmt.Sprintf("ri%d-%d", len(links), at.UnixMicro()) }
	at := s.LastChange()
	r := &answer.Resource{Tag: tag(at)}
	if len(links) == 1 {
		r.Modified = at // the link to the archive comes without an event
	}
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{}
		var body []byte
		for try := 0; try < set.Tries && d.Tag == ""; try++ {
			at := s.LastChange()
			body = s.index(plain, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: links})
			if s.LastChange().Equal(at) {
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
func (s documents) index(plain bool, head sitemap.Head) []byte {
	if !plain {
		return s.p.text(sitemap.SitemapIndex, head, s.listPages)
	}
	dst := sitemap.AppendPlainHead(nil, sitemap.SitemapIndex)
	for e := range s.listPages {
		doc, _ := names.ParseDoc(e.Loc[len(s.Refs.Docs[s.Kind]):])
		dst = sitemap.AppendPlainEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{Loc: s.URI(names.SitemapPage, doc.N), LastMod: e.At})
	}
	return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
}

// listPages yields the entries of the index.
func (s documents) listPages(yield func(sitemap.Entry) bool) {
	pages := s.Queue.Pages()
	for n := 1; (n-1)*s.PerPage < pages; n++ {
		l, _ := s.listing(uint64(n), false)
		_, at, entries := l.latest()
		if entries == 0 && l.Info(l.Lo) == nil {
			continue
		}
		if !yield(sitemap.Entry{Loc: s.URI(names.ResourcePage, uint64(n)), At: at, Length: -1}) {
			return
		}
	}
}

// listing returns page n of the Resource List, from 1. The first page, and the
// last one the queue has had, are there even if they are empty.
func (s documents) listing(n uint64, plain bool) (listing, bool) {
	lo := (n - 1) * uint64(s.PerPage)
	if pages := s.Queue.Pages(); n > 1 && lo >= uint64(pages) {
		return listing{}, false
	}
	return listing{documents: s, Pages: s.Between(int(lo), int(lo)+s.PerPage, plain), page: true, plain: plain}, true
}

// latest returns the last event in the listing, its time or that of the creation of
// the queue, and the number of entries.
func (l *listing) latest() (version queuefs.Seq, at time.Time, entries int) {
	version, at, entries = l.Latest()
	return version, l.OrCreated(at), entries
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
	info := l.Info(l.Lo)
	version, at, _ := l.latest()
	r := &answer.Resource{Tag: l.tag(version, info)}
	if info == nil && len(l.archives) == 0 {
		r.Modified = at // queue-info.txt may get any time, the link comes without an event
	}
	r.Compose = func(c compose.Coding) (*compose.Document, error) { return l.document(l.Snapshot(), c), nil }
	return r
}

// document composes a snapshot.
func (l *listing) document(s set.Snapshot, c compose.Coding) *compose.Document {
	links := l.Up()
	if l.page {
		links = l.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: l.URI(names.ResourceList)})
	}
	d, at := &compose.Document{}, l.OrCreated(s.At)
	top := l.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: append(links, l.archives...)})
	if l.plain {
		top = sitemap.AppendPlainHead(nil, sitemap.URLSet)
	}
	info := l.Info(l.Lo)
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
