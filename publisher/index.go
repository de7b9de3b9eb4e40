package publisher

import (
	"fmt"
	"time"

	"cutie/sitemap"
)

// resourceList returns resourcelist.xml: the list itself, or, if that is too
// large for a document, the index of its pages.
func (f *feed) resourceList(s Set) *resource {
	l, fits := f.whole(s)
	if !fits {
		return f.resourceIndex(s)
	}
	r := l.resource()
	r.compose = func(c coding) (*document, error) {
		snap := l.snapshot()
		if !f.fit(s, snap.entries) { // it has grown meanwhile
			return f.resourceIndex(s).compose(c)
		}
		return l.document(snap, c), nil
	}
	return r
}

// resourceIndex returns the index of the pages of a Resource List that have
// entries. It is as of one event, or has no entity tag if none can be told.
func (f *feed) resourceIndex(s Set) *resource {
	links := f.archiveLink(s, resourceList, []sitemap.Link{{Rel: sitemap.RelUp, Href: f.names.docs[s] + docName{kind: capabilityList}.String()}})
	tag := func(at time.Time) string { return fmt.Sprintf("ri%d-%d", len(links), at.UnixMicro()) }
	at := f.lastChange()
	r := &resource{tag: tag(at), cache: cacheOpen}
	if len(links) == 1 {
		r.modified = at // the link to the archive comes without an event
	}
	r.compose = func(c coding) (*document, error) {
		d := &document{}
		var body []byte
		for try := 0; try < steadyTries && d.tag == ""; try++ {
			at := f.lastChange()
			body = f.appendIndex(body[:0], s, at, links)
			if f.lastChange().Equal(at) {
				d.tag = tag(at)
			}
			if len(links) == 1 {
				d.modified = at
			}
		}
		d.whole(body, c)
		return d, nil
	}
	return r
}

func (f *feed) appendIndex(dst []byte, s Set, at time.Time, links []sitemap.Link) []byte {
	docs := f.names.docs[s]
	dst = f.p.Dialect.AppendHead(dst, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ResourceList, At: at, Links: links})
	pages := f.q.Pages()
	for n := 1; (n-1)*f.pages[s] < pages; n++ {
		l, _ := f.listing(s, uint64(n))
		_, at, entries := l.latest()
		if entries > 0 || l.info() != nil {
			dst = f.p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: docs + docName{kind: resourcePage, n: uint64(n)}.String(), At: at, Length: -1})
		}
	}
	return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
}

// whole makes the document of one text.
func (d *document) whole(text []byte, c coding) { d.text(c.pack(text)) }

// fixedText returns a document of one text, made when it is asked for.
func fixedText(tag string, text func() []byte) *resource {
	return &resource{tag: tag, cache: cacheOpen, compose: func(c coding) (*document, error) {
		d := &document{tag: tag}
		d.whole(text(), c)
		return d, nil
	}}
}

// capabilities returns the Capability List of a set (Z39.99-2017, 9). It names
// a Resource Dump and archives once there are such.
func (f *feed) capabilities(s Set) *resource {
	f.mu.Lock()
	dumped := f.sets[s].current() != nil
	archived := f.archives(&f.sets[s])
	f.mu.Unlock()
	tag := fmt.Sprintf("c-%t", dumped)
	for _, a := range archived {
		tag += fmt.Sprintf("-%d", a.whole)
	}
	if n := f.p.notifier.Load(); n != nil {
		tag += "-" + n.tag
	}
	return fixedText(tag, func() []byte {
		links := append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: f.names.info}}, aboutLinks(f.names.docs[s])...)
		dst := f.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList,
			Links: append(links, sitemap.Link{Rel: sitemap.RelUp, Href: f.p.site.description()})})
		for _, e := range f.offered(s, dumped, archived) {
			dst = f.p.Dialect.AppendEntry(dst, sitemap.URLSet, &e)
		}
		return sitemap.AppendFoot(dst, sitemap.URLSet)
	})
}

// offered returns what a Capability List names.
func (f *feed) offered(s Set, dumped bool, archived []*archive) (entries []sitemap.Entry) {
	add := func(doc docKind, c sitemap.Capability) {
		entries = append(entries, sitemap.Entry{Loc: f.names.docs[s] + docName{kind: doc}.String(), Capability: c, Length: -1})
	}
	add(resourceList, sitemap.ResourceList)
	add(changeIndex, sitemap.ChangeList)
	add(changeDump, sitemap.ChangeDump)
	if dumped {
		add(resourceDump, sitemap.ResourceDump)
	}
	for _, a := range archived {
		add(a.whole, a.capability)
	}
	if n := f.p.notifier.Load(); n != nil {
		entries = append(entries, n.Entries(f.q.ID(), s)...)
	}
	return entries
}

// description returns the Source Description (Z39.99-2017, 8), with two sets
// for each queue, or the index of its parts if there are too many.
func (p *Publisher) description() *resource {
	ids, tag := p.queueIDs()
	per := p.perPart(ids)
	if len(ids) <= per {
		return p.descriptionOf(tag, ids, aboutLinks(p.site.description()+"/"))
	}
	return fixedText("si-"+tag, func() []byte {
		dst := p.Dialect.AppendHead(nil, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.Description, Links: aboutLinks(p.site.description() + "/")})
		for n := 1; (n-1)*per < len(ids); n++ {
			dst = p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: p.site.description() + "/" + partName(n), Length: -1})
		}
		return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
	})
}

// descriptionPart returns part n of the Source Description, nil if there is
// none.
func (p *Publisher) descriptionPart(n int) *resource {
	ids, tag := p.queueIDs()
	per := p.perPart(ids)
	if (n-1)*per >= len(ids) {
		return nil
	}
	ids = ids[(n-1)*per:]
	return p.descriptionOf(fmt.Sprintf("%d-%s", n, tag), ids[:min(len(ids), per)],
		[]sitemap.Link{{Rel: sitemap.RelIndex, Href: p.site.description()}})
}

// perPart is how many queues a part of the Source Description has: an entry
// has four references to what stands below the names of the longest of them.
func (p *Publisher) perPart(ids []string) int {
	longest := 0
	for _, id := range ids {
		longest = max(longest, len(id))
	}
	const spelled = 5 // octets at most of one, in a reference that is escaped
	size := 4*(len(p.site)+spelled*longest+64) + 512
	return max(1, min(p.MaxEntries, int(p.MaxBytes-4096)/size)/numSets)
}

func (p *Publisher) descriptionOf(tag string, ids []string, links []sitemap.Link) *resource {
	return fixedText("s-"+tag, func() []byte {
		dst := p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.Description, Links: links})
		for _, id := range ids {
			n := p.site.queue(id)
			for s := range n.docs {
				dst = p.Dialect.AppendEntry(dst, sitemap.URLSet, &sitemap.Entry{
					Loc: n.docs[s] + docName{kind: capabilityList}.String(), Capability: sitemap.CapabilityList, Length: -1,
					Links: append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: n.info}}, aboutLinks(n.docs[s])...)})
			}
		}
		return sitemap.AppendFoot(dst, sitemap.URLSet)
	})
}

// queueIDs returns the identifiers of all queues and a digest of them.
func (p *Publisher) queueIDs() ([]string, string) {
	queues := p.svc.queues()
	ids := make([]string, len(queues))
	for i, q := range queues {
		ids[i] = q.ID()
	}
	return ids, salt(ids)
}
