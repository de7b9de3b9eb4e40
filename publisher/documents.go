package publisher

import (
	"fmt"
	"iter"
	"time"

	"cutie/publisher/compose"
	"cutie/queuefs"
	"cutie/sitemap"
)

// text composes a document of entries.
func (p *Publisher) text(root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) []byte {
	dst := p.Dialect.AppendHead(nil, root, head)
	for e := range entries {
		dst = p.Dialect.AppendEntry(dst, root, &e)
	}
	return sitemap.AppendFoot(dst, root)
}

// fixedText returns a document of one text, made when it is asked for.
func fixedText(tag string, text func() []byte) *resource {
	return &resource{tag: tag, cache: cacheOpen, compose: func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: tag}
		d.Whole(text(), c)
		return d, nil
	}}
}

// list returns a document of entries, made when it is asked for.
func (p *Publisher) list(tag string, root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) *resource {
	return fixedText(tag, func() []byte { return p.text(root, head, entries) })
}

// final says that the document never changes.
func (r *resource) final() *resource {
	r.cache = cacheClosed
	return r
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

// perDocument returns how many entries about documents one document may have:
// an entry has two references at most, times, a length and a digest.
func (s *set) perDocument() int {
	size := 2*(len(s.names.docs[s.kind])+64) + 512
	return max(2, min(sitemap.MaxEntries, int(s.limit())/size))
}

// oldUntil returns t in version 0.9, where open documents have an until too.
func (p *Publisher) oldUntil(t time.Time) time.Time {
	if p.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}

// find returns a document of the set. The error is errNotFound if there is no
// such document.
func (s *set) find(doc docName) (r *resource, err error) {
	seq := queuefs.Seq(doc.n)
	switch doc.kind {
	case capabilityList:
		r = s.capabilities()
	case resourceList:
		r = s.resourceList()
	case resourcePage:
		if l, ok := s.listing(doc.n); ok {
			r = l.resource()
		}
	case openList:
		r, err = s.openList()
	case changeIndex:
		r, err = s.changeIndex()
	case closedList:
		r = s.closedList(seq)
	case changeDump:
		r, err = s.changeDump()
	case changePackage, changeManifest:
		if sp, ok := s.packageOf(seq); ok {
			r = s.packaged(doc, changePackageFile(sp.first), sp.until, sp.length, sp.sha256)
		}
	case resourceDump, formerDump:
		r = s.resourceDump(seq)
	case dumpPart:
		r = s.dumpPart(doc)
	case resourcePackage, resourceManifest:
		if p, ok := s.portion(doc); ok {
			r = s.packaged(doc, p.name().String(), later(p.at, p.completed), p.length, p.sha256)
		}
	case formerList:
		r = s.formerList(seq)
	case formerPage:
		r = s.formerPage(doc)
	case formerChanges:
		r = s.formerChanges(seq)
	default:
		r = s.archive(doc)
	}
	if err == nil && r == nil {
		err = errNotFound
	}
	return r, err
}

// capabilities returns the Capability List (Z39.99-2017, 9). It names a
// Resource Dump and archives once there are any.
func (s *set) capabilities() *resource {
	s.mu.Lock()
	dumped, archived := s.current() != nil, s.archives()
	s.mu.Unlock()
	tag := fmt.Sprintf("c-%t", dumped)
	for _, a := range archived {
		tag += fmt.Sprintf("-%d", a.whole)
	}
	if n := s.p.notifier.Load(); n != nil {
		tag += "-" + n.tag
	}
	return fixedText(tag, func() []byte {
		links := append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: s.names.info}}, aboutLinks(s.names.docs[s.kind])...)
		links = append(links, sitemap.Link{Rel: sitemap.RelUp, Href: s.p.site.description()})
		return s.p.text(sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: links}, s.offered(dumped, archived))
	})
}

// offered yields the entries of the Capability List.
func (s *set) offered(dumped bool, archived []*archive) iter.Seq[sitemap.Entry] {
	type offer struct {
		doc        docKind
		capability sitemap.Capability
	}
	return func(yield func(sitemap.Entry) bool) {
		offers := []offer{{resourceList, sitemap.ResourceList}, {changeIndex, sitemap.ChangeList}, {changeDump, sitemap.ChangeDump}}
		if dumped {
			offers = append(offers, offer{resourceDump, sitemap.ResourceDump})
		}
		for _, a := range archived {
			offers = append(offers, offer{a.whole, a.capability})
		}
		var topics []sitemap.Entry
		if n := s.p.notifier.Load(); n != nil {
			topics = n.Entries(s.q.ID(), s.kind)
		}
		for _, o := range offers {
			if !yield(sitemap.Entry{Loc: s.uri(docName{kind: o.doc}), Capability: o.capability, Length: -1}) {
				return
			}
		}
		for _, e := range topics {
			if !yield(e) {
				return
			}
		}
	}
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s *set) changeIndex() (*resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	from, until := st.from, s.p.oldUntil(st.at)
	if len(st.lists) > 0 {
		from = st.lists[0].from
	}
	links := s.up(s.archiveLink(changeIndex)...)
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.first, len(st.lists), len(links), until.UnixMicro())
	head := sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: links}
	return s.p.list(tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for _, sp := range st.lists {
			if !yield(sitemap.Entry{Loc: s.uri(docName{kind: closedList, n: uint64(sp.first)}), From: sp.from, Until: sp.until, Length: -1}) {
				return
			}
		}
		yield(sitemap.Entry{Loc: s.uri(docName{kind: openList}), From: st.from, Until: until, Length: -1})
	}), nil
}

// changeDump returns changedump.xml: the packages in place, oldest first.
func (s *set) changeDump() (*resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	from, last := st.next, queuefs.Seq(0)
	if n := len(st.packages); n > 0 {
		from, last = st.packages[0].from, st.packages[n-1].last
	}
	links := s.up(s.archiveLink(changeDump)...)
	tag := fmt.Sprintf("d%d-%d-%d-%d", last, len(st.packages), st.next.UnixMicro(), len(links))
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: from, Until: s.p.oldUntil(st.next), Links: links}
	return s.p.list(tag, sitemap.URLSet, head, each(st.packages, s.packageEntry)), nil
}

// description returns the Source Description (Z39.99-2017, 8) with both sets of
// each queue, or an index of its parts.
func (p *Publisher) description() *resource {
	ids, tag := p.queueIDs()
	head := sitemap.Head{Capability: sitemap.Description, Links: aboutLinks(p.site.description() + "/")}
	per := p.perPart(ids)
	if len(ids) <= per {
		return p.list("s-"+tag, sitemap.URLSet, head, p.described(ids))
	}
	return p.list("si-"+tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for n := 1; (n-1)*per < len(ids); n++ {
			if !yield(sitemap.Entry{Loc: p.site.description() + "/" + partName(n), Length: -1}) {
				return
			}
		}
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
	head := sitemap.Head{Capability: sitemap.Description, Links: []sitemap.Link{{Rel: sitemap.RelIndex, Href: p.site.description()}}}
	return p.list(fmt.Sprintf("s-%d-%s", n, tag), sitemap.URLSet, head, p.described(ids[:min(len(ids), per)]))
}

// described yields the entries of the sets of queues.
func (p *Publisher) described(ids []string) iter.Seq[sitemap.Entry] {
	return func(yield func(sitemap.Entry) bool) {
		for _, id := range ids {
			n := p.site.queue(id)
			for _, docs := range n.docs {
				if !yield(sitemap.Entry{Loc: docs + docName{kind: capabilityList}.String(), Capability: sitemap.CapabilityList, Length: -1,
					Links: append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: n.info}}, aboutLinks(docs)...)}) {
					return
				}
			}
		}
	}
}

// perPart is how many queues a part of the Source Description has. An entry has
// four references below the names of the longest queue.
func (p *Publisher) perPart(ids []string) int {
	longest := 0
	for _, id := range ids {
		longest = max(longest, len(id))
	}
	const spelled = 5 // bytes at most for one in an escaped reference
	size := 4*(len(p.site)+spelled*longest+64) + 512
	return max(1, min(p.MaxEntries, int(p.MaxBytes-4096)/size)/numSets)
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
