package publisher

import (
	"fmt"
	"iter"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/sitemap"
)

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

// oldUntil returns t in version 0.9, where open documents have an until too.
func (p *Publisher) oldUntil(t time.Time) time.Time {
	if p.src.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}

// find returns a document of the set, nil if there is none.
func (s documents) find(doc names.Doc) (r *answer.Resource, err error) {
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
		if sp, ok := s.Package(seq); ok {
			r = s.packaged(doc, sp.Package(), sp.Until)
		}
	case names.ResourceDump, names.FormerDump:
		r = s.resourceDump(seq)
	case names.DumpPart:
		r = s.dumpPart(doc)
	case names.ResourcePackage, names.ResourceManifest:
		if p, ok := s.Portion(doc); ok {
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
	if r == nil && err == nil && s.Lost(doc) {
		err = answer.Gone(doc.String(), "its file was damaged and could not be made again; "+s.again())
	}
	return r, err
}

// digested returns the name of a document that never changes with the digest it has
// now; without one if there is no such document.
func (s documents) digested(doc names.Doc) names.Doc {
	doc.Sum = ""
	switch seq := queuefs.Seq(doc.N); doc.Kind {
	case names.ClosedList:
		if sp, ok := s.List(seq); ok {
			return s.listDoc(&sp)
		}
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		if sp, ok := s.Package(seq); ok {
			return sp.Doc(doc.Kind)
		}
	case names.ResourcePackage, names.ResourceManifest, names.FormerPage:
		if p, ok := s.Portion(doc); ok {
			return p.Doc(doc.Kind)
		}
	case names.DumpPart:
		if d := s.Dump(queuefs.Seq(doc.Version)); d != nil {
			return s.dumpDoc(d, doc)
		}
	case names.FormerDump, names.FormerList:
		if d := s.Dump(seq); d != nil {
			return s.dumpDoc(d, doc)
		}
	}
	return doc
}

// capabilities returns the Capability List (Z39.99-2017, 9). It names a Change
// Dump, a Resource Dump and archives once there are any.
func (s documents) capabilities() *answer.Resource {
	has := s.Holding()
	tag := fmt.Sprintf("c-%t", has.Dump != nil)
	if !has.Packages {
		tag += "-0"
	}
	for _, a := range archived(&has.Former) {
		tag += fmt.Sprintf("-%d", a.whole)
	}
	if t := s.p.topics.Load(); t != nil {
		tag += "-" + t.Tag
	}
	return answer.Text(tag, func() []byte {
		links := append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: s.Refs.Info}}, s.Page.Links(s.Refs.Docs[s.Kind])...)
		links = append(links, sitemap.Link{Rel: sitemap.RelUp, Href: s.Base.Description()})
		return s.p.text(sitemap.URLSet, sitemap.Head{Capability: sitemap.CapabilityList, Links: links}, s.offered(&has))
	})
}

// offered yields the entries of the Capability List.
func (s documents) offered(has *set.Holding) iter.Seq[sitemap.Entry] {
	type offer struct {
		doc        names.Kind
		capability sitemap.Capability
	}
	return func(yield func(sitemap.Entry) bool) {
		offers := []offer{{names.ResourceList, sitemap.ResourceList}, {names.ChangeIndex, sitemap.ChangeList}}
		if has.Packages {
			offers = append(offers, offer{names.ChangeDump, sitemap.ChangeDump})
		}
		if has.Dump != nil {
			offers = append(offers, offer{names.ResourceDump, sitemap.ResourceDump})
		}
		for _, a := range archived(&has.Former) {
			offers = append(offers, offer{a.whole, a.capability})
		}
		for _, o := range offers {
			if !yield(sitemap.Entry{Loc: s.URI(o.doc), Capability: o.capability, Length: -1}) {
				return
			}
		}
		if t := s.p.topics.Load(); t != nil {
			for _, e := range t.Entries(s.Queue.ID(), s.Kind) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s documents) changeIndex() (*answer.Resource, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	from, until := st.From, s.p.oldUntil(st.Until)
	if len(st.Lists) > 0 {
		from = st.Lists[0].From
	}
	links := s.Up(s.archiveLink(names.ChangeIndex)...)
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.First, len(st.Lists), len(links), until.UnixMicro())
	head := sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: links}
	return s.p.list(tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for _, sp := range st.Lists {
			if !yield(sitemap.Entry{Loc: s.refer(s.listDoc(&sp)), From: sp.From, Until: sp.Until, Length: -1}) {
				return
			}
		}
		yield(sitemap.Entry{Loc: s.URI(names.OpenList), From: st.From, Until: until, Length: -1})
	}), nil
}

// changeDump returns changedump.xml: the packages in place, oldest first.
func (s documents) changeDump() (*answer.Resource, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	from, last := st.Next, queuefs.Seq(0)
	if n := len(st.Packages); n > 0 {
		from, last = st.Packages[0].From, st.Packages[n-1].Last
	}
	links := s.Up(s.archiveLink(names.ChangeDump)...)
	tag := fmt.Sprintf("d%d-%d-%d-%d", last, len(st.Packages), st.Next.UnixMicro(), len(links))
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: from, Until: s.p.oldUntil(st.Next), Links: links}
	return s.p.list(tag, sitemap.URLSet, head, each(st.Packages, s.packageEntry)), nil
}

// description returns the Source Description (Z39.99-2017, 8) with both sets of
// each queue, or an index of its parts.
func (p *Publisher) description() *answer.Resource {
	ids, tag := p.queueIDs()
	head := sitemap.Head{Capability: sitemap.Description, Links: p.src.Page.Links(p.src.Base.Description() + "/")}
	per := p.perPart(ids)
	if len(ids) <= per {
		return p.list("s-"+tag, sitemap.URLSet, head, p.described(ids))
	}
	return p.list("si-"+tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for n := 1; (n-1)*per < len(ids); n++ {
			if !yield(sitemap.Entry{Loc: p.src.Base.Description() + "/" + names.Part(n), Length: -1}) {
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
	head := sitemap.Head{Capability: sitemap.Description, Links: []sitemap.Link{{Rel: sitemap.RelIndex, Href: p.src.Base.Description()}}}
	return p.list(fmt.Sprintf("s-%d-%s", n, tag), sitemap.URLSet, head, p.described(ids[:min(len(ids), per)]))
}

// described yields the entries of the sets of queues.
func (p *Publisher) described(ids []string) iter.Seq[sitemap.Entry] {
	return func(yield func(sitemap.Entry) bool) {
		for _, id := range ids {
			n := p.src.Base.Queue(id)
			for _, docs := range n.Docs {
				if !yield(sitemap.Entry{Loc: docs + names.CapabilityList.Of().String(), Capability: sitemap.CapabilityList, Length: -1,
					Links: append([]sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: n.Info}}, p.src.Page.Links(docs)...)}) {
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
	size := 4*(len(p.src.Base)+spelled*longest+64) + 512
	return max(1, min(p.src.MaxEntries, int(p.src.MaxBytes-4096)/size)/names.Sets)
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
