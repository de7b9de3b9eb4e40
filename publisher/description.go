package publisher

import (
	"fmt"
	"iter"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/sitemap"
)

// description returns the Source Description (Z39.99-2017, 8) with both sets of
// each queue, or an index of its parts.
func (p *Publisher) description() *resource {
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
func (p *Publisher) descriptionPart(n int) *resource {
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
	return ids, names.Salt(ids)
}

// capabilities returns the Capability List (Z39.99-2017, 9). It names a Change
// Dump, a Resource Dump and archives once there are any.
func (s documents) capabilities() *resource {
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
	return textDocument(tag, func() []byte {
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
