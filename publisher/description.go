package publisher

import (
	"fmt"
	"iter"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/sitemap"
	"cutie/wellknown"
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

// about returns the parts common to the Source and its sets.
func (p *Publisher) about() *names.About {
	terms := p.src.Terms()
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	return &names.About{
		Home: string(p.src.Base) + "/", Version: p.src.Dialect.String(), Software: home.Scheme,
		Hashes: []string{digest.SHA256.Token()}, Mirrors: p.src.MirrorURIs, Via: p.src.ViaURI,
		Retention: names.AboutRetention{Period: seconds(terms.Period), DumpPeriod: seconds(terms.DumpPeriod),
			Current: seconds(terms.Current), Keep: seconds(terms.Keep), KeepOctets: terms.KeepOctets},
		Limits: names.AboutLimits{Entries: p.src.MaxEntries, Octets: p.src.MaxBytes, Package: p.src.MaxPackage},
	}
}

// aboutQueues is how many queues the document about the Source names; all of
// them stand in the Source Description.
const aboutQueues = 500

// aboutSource describes the Source in a document with a name.
func (p *Publisher) aboutSource(name string) *names.About {
	queues := p.svc.queues()
	n := len(queues)
	a := p.about()
	a.About, a.Queues = p.src.Base.Description(), &n
	a.Title, a.Description = "What "+string(p.src.Base)+"/ publishes", names.SourceText
	a.Follow = names.ChooseSet(wellknown.Path, wellknown.Rel)
	for _, q := range queues[:min(n, aboutQueues)] {
		refs := p.src.Base.Queue(q.ID())
		for s := range names.Set(names.Sets) {
			a.Sets = append(a.Sets, names.AboutDocument{URI: refs.Doc(s, names.CapabilityList.Of()),
				Text: names.SetTitle(s, q.State().Info), About: refs.Docs[s] + name})
		}
	}
	return a
}

// about describes the set.
func (s documents) about() (*names.About, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	now := s.Queue.State()
	has := s.Holding()

	a := s.p.about()
	a.About, a.Title, a.Description = s.URI(names.CapabilityList), names.SetTitle(s.Kind, now.Info), names.SetText(s.Kind)
	if now.Info.Digests.Has(digest.MD5) {
		a.Hashes = append(a.Hashes, digest.MD5.Token())
	}
	a.AboutSet = &names.AboutSet{Set: s.Kind.String(), Octets: has.Octets,
		Resources: int64(s.Kind.Size(int(now.Pending), int(now.Pending+now.Consumed+now.Deleted))),
		Queue: names.AboutQueue{ID: now.Info.ID, Name: now.Info.Name, Description: now.Info.Description, State: s.Refs.State, Info: s.Refs.Info,
			Created: now.Info.Created.UTC(), LastEvent: s.OrCreated(now.LastEvent), Events: uint64(now.Seq - now.Before),
			Pending: now.Pending, Consumed: now.Consumed, Deleted: now.Deleted},
		Changes: names.AboutChanges{From: st.From, OpenFrom: st.From, Open: st.Entries, Closed: len(st.Lists), Packages: len(st.Packages)}}
	if s.Kind == names.Replica {
		a.Resources++ // queue-info.txt
	}
	if len(st.Lists) > 0 {
		a.Changes.From = st.Lists[0].From
	}
	if dump := has.Dump; dump != nil {
		a.Dump = &names.AboutDump{At: dump.At, Made: dump.Made.Truncate(time.Microsecond), Packages: len(dump.Packages)}
	}
	a.Documents = []names.AboutDocument{{URI: s.URI(names.OpenList), Capability: string(sitemap.ChangeList), Text: names.OpenListText}}
	for e := range s.offered(&has) {
		a.Documents = append(a.Documents, names.AboutDocument{URI: e.Loc, Capability: string(e.Capability), Text: names.DocumentText(e.Capability)})
	}
	a.Follow = names.FollowSet(s.Dialect, has.Dump != nil, has.Packages, len(has.Former.Lists) > 0, len(has.Former.Packages) > 0)
	return a, nil
}

// aboutDocument returns the document with a name.
func (p *Publisher) aboutDocument(a *names.About, name string) *resource {
	a.Clean()
	data := a.JSON()
	tag := "ab-" + names.Salt(name, string(data), p.src.Page.Policy)
	if name == names.AboutDataName {
		r := textDocument(tag, func() []byte { return data })
		r.Type, r.About = typeJSON, a
		return r
	}
	r := textDocument(tag, func() []byte { return p.src.Page.Print(a) })
	r.Type, r.Policy, r.About = typeHTML, p.src.Page.Policy, a
	return r
}
