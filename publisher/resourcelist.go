package publisher

import (
	"fmt"
	"io"
	"iter"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

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
func (s documents) resourceList(plain bool) *resource {
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
	r.Render = func(w io.Writer) (docState, error) {
		snap := l.Snapshot()
		if !s.Fits(snap.Entries) { // it has grown meanwhile
			return s.resourceIndex(plain).Render(w)
		}
		return l.write(w, snap)
	}
	return r
}

// resourceIndex returns the index of the pages with entries. It is as of
// one event, or has no entity tag.
func (s documents) resourceIndex(plain bool) *resource {
	links := s.Up(s.archiveLink(names.ResourceList)...)
	tag := func(at time.Time) string { return fmt.Sprintf("ri%d-%d", len(links), at.UnixMicro()) }
	at := s.LastChange()
	r := &resource{Tag: tag(at)}
	if len(links) == 1 {
		r.Modified = at // the link to the archive comes without an event
	}
	r.Render = func(w io.Writer) (state docState, err error) {
		var body []byte
		for try := 0; try < set.Tries && state.Tag == ""; try++ {
			at := s.LastChange()
			body = s.index(plain, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: links})
			if s.LastChange().Equal(at) {
				state.Tag = tag(at)
			}
			if len(links) == 1 {
				state.Modified = at
			}
		}
		_, err = w.Write(body)
		return state, err
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
func (l *listing) latest() (version job.Seq, at time.Time, entries int) {
	version, at, entries = l.Latest()
	return version, l.OrCreated(at), entries
}

// tag returns the entity tag of the listing at a version.
func (l *listing) tag(version job.Seq, info *job.Facts) string {
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
func (l listing) resource() *resource {
	info := l.Info(l.Lo)
	version, at, _ := l.latest()
	r := &resource{Tag: l.tag(version, info)}
	if info == nil && len(l.archives) == 0 {
		r.Modified = at // queue-info.txt may get any time, the link comes without an event
	}
	r.Render = func(w io.Writer) (docState, error) { return l.write(w, l.Snapshot()) }
	return r
}

// write writes a snapshot.
func (l *listing) write(w io.Writer, s set.Snapshot) (state docState, err error) {
	links := l.Up()
	if l.page {
		links = l.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: l.URI(names.ResourceList)})
	}
	at := l.OrCreated(s.At)
	top := l.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: append(links, l.archives...)})
	if l.plain {
		top = sitemap.AppendPlainHead(nil, sitemap.URLSet)
	}
	info := l.Info(l.Lo)
	if info != nil {
		r := l.Render()
		top = r.AppendInfo(top, info)
	} else if len(l.archives) == 0 {
		state.Modified = at
	}
	if s.Steady {
		state.Tag = l.tag(s.Version, info)
	}
	if _, err := w.Write(top); err != nil {
		return state, err
	}
	if _, err := s.WriteTo(w); err != nil {
		return state, err
	}
	_, err = w.Write(sitemap.AppendFoot(nil, sitemap.URLSet))
	return state, err
}

// The documents of a set.
type documents struct {
	*set.Set
	p *Publisher
}

// refer returns the reference of a document.
func (s documents) refer(d names.Doc) string { return s.Refs.Doc(s.Kind, d) }

// text composes a document of entries.
func (p *Publisher) text(root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) []byte {
	dst := p.src.Dialect.AppendHead(nil, root, head)
	for e := range entries {
		dst = p.src.Dialect.AppendEntry(dst, root, &e)
	}
	return sitemap.AppendFoot(dst, root)
}

// list returns a document of entries, made when it is asked for.
func (p *Publisher) list(tag string, root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) *resource {
	return textDocument(tag, func() []byte { return p.text(root, head, entries) })
}

// each returns the entry of every item.
func each[T any](items []T, entry func(*T) sitemap.Entry) iter.Seq[sitemap.Entry] {
	return func(yield func(sitemap.Entry) bool) {
		for i := range items {
			if !yield(entry(&items[i])) {
				return
			}
		}
	}
}
