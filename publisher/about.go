package publisher

import (
	"slices"
	"time"

	"cutie/publisher/about"
	"cutie/publisher/answer"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/sitemap"
	"cutie/wellknown"
)

// about returns the parts common to the Source and its sets.
func (p *Publisher) about() *about.About {
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	return &about.About{
		Version: p.Dialect.String(), Software: queuefs.Scheme,
		Hashes: []string{digest.SHA256.Token()}, Mirrors: p.MirrorURIs, Via: p.ViaURI,
		Retention: about.Retention{Period: seconds(p.Period), DumpPeriod: seconds(p.DumpPeriod),
			Current: seconds(p.Current), Keep: seconds(p.Keep), KeepOctets: p.KeepOctets},
		Limits: about.Limits{Entries: p.MaxEntries, Octets: p.MaxBytes, Package: p.MaxPackage},
	}
}

// aboutQueues is how many queues the document about the Source names; all of
// them stand in the Source Description.
const aboutQueues = 500

// aboutSource returns the document about the Source with a name.
func (p *Publisher) aboutSource(name string) *answer.Resource {
	queues := p.svc.queues()
	n := len(queues)
	a := p.about()
	a.About, a.Queues = p.Base.Description(), &n
	a.Title, a.Description = "What "+string(p.Base)+"/ publishes", about.SourceText
	a.Follow = about.ChooseSet(wellknown.Path, wellknown.Rel)
	for _, q := range queues[:min(n, aboutQueues)] {
		refs := p.Base.Queue(q.ID())
		for s := range names.Set(names.Sets) {
			a.Sets = append(a.Sets, about.Document{URI: refs.Doc(s, names.CapabilityList.Of()),
				Text: about.Title(s, q.State().Info), About: refs.Docs[s] + name})
		}
	}
	return p.aboutDocument(a, name)
}

// about returns the document about the set, as aboutSource does.
func (s *set) about(name string) (*answer.Resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	now := s.q.State()
	s.mu.Lock()
	dump, archived, octets := s.Dump(0), s.archives(), s.Octets()+s.at.Length
	has := s.offers()
	s.mu.Unlock()

	a := s.p.about()
	a.About, a.Title, a.Description = s.uri(names.CapabilityList), about.Title(s.kind, now.Info), about.SetText(s.kind)
	if now.Info.Digests.Has(digest.MD5) {
		a.Hashes = append(a.Hashes, digest.MD5.Token())
	}
	a.OfSet = &about.OfSet{Set: s.kind.String(), Octets: octets,
		Resources: int64(s.kind.Size(int(now.Pending), int(now.Pending+now.Consumed+now.Deleted))),
		Queue: about.Queue{ID: now.Info.ID, Name: now.Info.Name, Description: now.Info.Description, State: s.refs.State, Info: s.refs.Info,
			Created: now.Info.Created.UTC(), LastEvent: s.orCreated(now.LastEvent), Events: uint64(now.Seq - now.Before),
			Pending: now.Pending, Consumed: now.Consumed, Deleted: now.Deleted},
		Changes: about.Changes{From: st.From, OpenFrom: st.From, Open: st.Entries, Closed: len(st.lists), Packages: len(st.packages)}}
	if s.kind == names.Replica {
		a.Resources++ // queue-info.txt
	}
	if len(st.lists) > 0 {
		a.Changes.From = st.lists[0].From
	}
	if dump != nil {
		a.Dump = &about.Dump{At: dump.At, Made: dump.Made.Truncate(time.Microsecond), Packages: len(dump.Packages)}
	}
	a.Documents = []about.Document{{URI: s.uri(names.OpenList), Capability: string(sitemap.ChangeList), Text: about.OpenListText}}
	for e := range s.offered(has, archived) {
		a.Documents = append(a.Documents, about.Document{URI: e.Loc, Capability: string(e.Capability), Text: about.Text(e.Capability)})
	}
	a.Follow = about.FollowSet(s.p.Dialect, dump != nil,
		slices.ContainsFunc(archived, func(a *archive) bool { return a.of == names.ChangeIndex }))
	return s.p.aboutDocument(a, name), nil
}

// hasAbout reports whether the documents about the Source and the sets have one of
// this name.
func (p *Publisher) hasAbout(name string) bool {
	return name == about.DataName || name == about.PageName && p.Page.Print != nil
}

// aboutDocument returns the document with a name.
func (p *Publisher) aboutDocument(a *about.About, name string) *answer.Resource {
	a.Clean()
	data := a.JSON()
	tag := "ab-" + answer.Salt(name, string(data), p.Page.Policy)
	if name == about.DataName {
		r := answer.Text(tag, func() []byte { return data })
		r.Type = answer.JSON
		return r
	}
	r := answer.Text(tag, func() []byte { return p.Page.Print(a) })
	r.Type, r.Policy = answer.HTML, p.Page.Policy
	return r
}
