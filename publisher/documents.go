package publisher

import (
	"fmt"
	"iter"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/names"
	"cutie/publisher/store"
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

// list returns a document of entries, made when it is asked for.
func (p *Publisher) list(tag string, root sitemap.Root, head sitemap.Head, entries iter.Seq[sitemap.Entry]) *answer.Resource {
	return answer.Text(tag, func() []byte { return p.text(root, head, entries) })
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
	size := 2*(len(s.refs.Docs[s.kind])+64) + 512
	return max(2, min(sitemap.MaxEntries, int(s.limit())/size))
}

// perIndex returns how many entries the Change List Index and the Change Dump may
// have; archives have the rest.
func (s *set) perIndex() int { return min(s.p.MaxEntries, s.perDocument()) }

// oldUntil returns t in version 0.9, where open documents have an until too.
func (p *Publisher) oldUntil(t time.Time) time.Time {
	if p.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}

// find returns a document of the set, nil if there is none.
func (s *set) find(doc names.Doc) (r *answer.Resource, err error) {
	if doc.Sum != "" && s.digested(doc).Sum != doc.Sum {
		return nil, nil // of another history
	}
	defer func() {
		if r != nil {
			r.Named = doc.Sum != ""
		}
	}()
	seq := queuefs.Seq(doc.N)
	switch doc.Kind {
	case names.CapabilityList:
		r = s.capabilities()
	case names.ResourceList:
		r = s.resourceList(false)
	case names.Sitemap:
		r = s.resourceList(true)
	case names.ResourcePage, names.SitemapPage:
		if l, ok := s.listing(doc.N, doc.Kind == names.SitemapPage); ok {
			r = l.resource()
		}
	case names.OpenList:
		r, err = s.openList()
	case names.ChangeIndex:
		r, err = s.changeIndex()
	case names.ClosedList:
		r = s.closedList(seq)
	case names.ChangeDump:
		r, err = s.changeDump()
	case names.ChangePackage, names.ChangeManifest:
		if sp, ok := s.packageOf(seq); ok {
			r = s.packaged(doc, sp.Package(), sp.Until)
		}
	case names.ResourceDump, names.FormerDump:
		r = s.resourceDump(seq)
	case names.DumpPart:
		r = s.dumpPart(doc)
	case names.ResourcePackage, names.ResourceManifest:
		if p, ok := s.portion(doc); ok {
			r = s.packaged(doc, p.Piece(), store.Later(p.At, p.Completed))
		}
	case names.FormerList:
		r = s.formerList(seq)
	case names.FormerPage:
		r = s.formerPage(doc)
	case names.FormerChanges:
		r = s.formerChanges(seq)
	default:
		r = s.archive(doc)
	}
	if r == nil && err == nil && s.lost(doc) {
		err = answer.Gone(doc.String(), "its file was damaged and could not be made again; "+s.again())
	}
	return r, err
}

// digested returns the name of a document that never changes with the digest it has
// now; without one if there is no such document.
func (s *set) digested(doc names.Doc) names.Doc {
	doc.Sum = ""
	switch seq := queuefs.Seq(doc.N); doc.Kind {
	case names.ClosedList:
		s.mu.Lock()
		defer s.mu.Unlock()
		if sp, ok := s.Lists.Find(seq); ok {
			return s.listDoc(&sp)
		}
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		if sp, ok := s.packageOf(seq); ok {
			return sp.Doc(doc.Kind)
		}
	case names.ResourcePackage, names.ResourceManifest, names.FormerPage:
		if p, ok := s.portion(doc); ok {
			return p.Doc(doc.Kind)
		}
	case names.DumpPart:
		if d := s.dumpOf(queuefs.Seq(doc.Version)); d != nil {
			return s.dumpDoc(d, doc)
		}
	case names.FormerDump, names.FormerList:
		if d := s.dumpOf(seq); d != nil {
			return s.dumpDoc(d, doc)
		}
	}
	return doc
}

// capabilities returns the Capability List (Z39.99-2017, 9). It names a Change
// Dump, a Resource Dump and archives once there are any.
func (s *set) capabilities() *answer.Resource {
	s.mu.Lock()
	has := s.offers()
	archived := s.archives()
	s.mu.Unlock()
	tag := fmt.Sprintf("c-%t", has.dump)
	if !has.packages {
		tag += "-0"
	}
	for _, a := range archived {
		tag += fmt.Sprintf("-%d", a.whole)
	}
	if t := s.p.topics.Load(); t != nil {
		tag += "-" + t.Tag
	}
	return answer.Text(tag, func() []byte {
		links := append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: s.refs.Info}}, s.p.Page.Links(s.refs.Docs[s.kind])...)
		links = append(links, sitemap.Link{Rel: sitemap.RelUp, Href: s.p.Base.Description()})
		return s.p.text(sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: links}, s.offered(has, archived))
	})
}

// offers are the documents that a set may lack.
type offers struct{ packages, dump bool }

// offers returns what there is. mu is held.
func (s *set) offers() offers {
	packages, _ := s.dumped()
	return offers{len(packages) > 0, s.Dump(0) != nil}
}

// offered yields the entries of the Capability List.
func (s *set) offered(has offers, archived []*archive) iter.Seq[sitemap.Entry] {
	type offer struct {
		doc        names.Kind
		capability sitemap.Capability
	}
	return func(yield func(sitemap.Entry) bool) {
		offers := []offer{{names.ResourceList, sitemap.ResourceList}, {names.ChangeIndex, sitemap.ChangeList}}
		if has.packages {
			offers = append(offers, offer{names.ChangeDump, sitemap.ChangeDump})
		}
		if has.dump {
			offers = append(offers, offer{names.ResourceDump, sitemap.ResourceDump})
		}
		for _, a := range archived {
			offers = append(offers, offer{a.whole, a.capability})
		}
		for _, o := range offers {
			if !yield(sitemap.Entry{Loc: s.uri(o.doc), Capability: o.capability, Length: -1}) {
				return
			}
		}
		if t := s.p.topics.Load(); t != nil {
			for _, e := range t.Entries(s.q.ID(), s.kind) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s *set) changeIndex() (*answer.Resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	from, until := st.From, s.p.oldUntil(st.Until)
	if len(st.lists) > 0 {
		from = st.lists[0].From
	}
	links := s.up(s.archiveLink(names.ChangeIndex)...)
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.First, len(st.lists), len(links), until.UnixMicro())
	head := sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: links}
	return s.p.list(tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for _, sp := range st.lists {
			if !yield(sitemap.Entry{Loc: s.refer(s.listDoc(&sp)), From: sp.From, Until: sp.Until, Length: -1}) {
				return
			}
		}
		yield(sitemap.Entry{Loc: s.uri(names.OpenList), From: st.From, Until: until, Length: -1})
	}), nil
}

// changeDump returns changedump.xml: the packages in place, oldest first.
func (s *set) changeDump() (*answer.Resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	from, last := st.next, queuefs.Seq(0)
	if n := len(st.packages); n > 0 {
		from, last = st.packages[0].From, st.packages[n-1].Last
	}
	links := s.up(s.archiveLink(names.ChangeDump)...)
	tag := fmt.Sprintf("d%d-%d-%d-%d", last, len(st.packages), st.next.UnixMicro(), len(links))
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: from, Until: s.p.oldUntil(st.next), Links: links}
	return s.p.list(tag, sitemap.URLSet, head, each(st.packages, s.packageEntry)), nil
}

// description returns the Source Description (Z39.99-2017, 8) with both sets of
// each queue, or an index of its parts.
func (p *Publisher) description() *answer.Resource {
	ids, tag := p.queueIDs()
	head := sitemap.Head{Capability: sitemap.Description, Links: p.Page.Links(p.Base.Description() + "/")}
	per := p.perPart(ids)
	if len(ids) <= per {
		return p.list("s-"+tag, sitemap.URLSet, head, p.described(ids))
	}
	return p.list("si-"+tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for n := 1; (n-1)*per < len(ids); n++ {
			if !yield(sitemap.Entry{Loc: p.Base.Description() + "/" + names.Part(n), Length: -1}) {
				return
			}
		}
	})
}

// descriptionPart returns part n of the Source Description, nil if there is
// none.
func (p *Publisher) descriptionPart(n int) *answer.Resource {
	ids, tag := p.queueIDs()
	per := p.perPart(ids)
	if (n-1)*per >= len(ids) {
		return nil
	}
	ids = ids[(n-1)*per:]
	head := sitemap.Head{Capability: sitemap.Description, Links: []sitemap.Link{{Rel: sitemap.RelIndex, Href: p.Base.Description()}}}
	return p.list(fmt.Sprintf("s-%d-%s", n, tag), sitemap.URLSet, head, p.described(ids[:min(len(ids), per)]))
}

// described yields the entries of the sets of queues.
func (p *Publisher) described(ids []string) iter.Seq[sitemap.Entry] {
	return func(yield func(sitemap.Entry) bool) {
		for _, id := range ids {
			n := p.Base.Queue(id)
			for _, docs := range n.Docs {
				if !yield(sitemap.Entry{Loc: docs + names.CapabilityList.Of().String(), Capability: sitemap.CapabilityList, Length: -1,
					Links: append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: n.Info}}, p.Page.Links(docs)...)}) {
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
	size := 4*(len(p.Base)+spelled*longest+64) + 512
	return max(1, min(p.MaxEntries, int(p.MaxBytes-4096)/size)/names.Sets)
}

// queueIDs returns the identifiers of all queues and a digest of them.
func (p *Publisher) queueIDs() ([]string, string) {
	queues := p.svc.queues()
	ids := make([]string, len(queues))
	for i, q := range queues {
		ids[i] = q.ID()
	}
	return ids, answer.Salt(ids)
}
