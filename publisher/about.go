package publisher

import (
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/sitemap"
	"cutie/wellknown"
)

// about returns the parts common to the Source and its sets.
func (p *Publisher) about() *names.About {
	terms := p.src.Terms()
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	return &names.About{
		Home: string(p.src.Base) + "/", Version: p.src.Dialect.String(), Software: queuefs.Scheme,
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

// hasAbout reports whether the documents about the Source and the sets have one of
// this name.
func (p *Publisher) hasAbout(name string) bool {
	return name == names.AboutDataName || name == names.AboutPageName && p.src.Page.Print != nil
}

// aboutDocument returns the document with a name, after an edit that may be nil.
func (p *Publisher) aboutDocument(a *names.About, name string, edit func(*names.About)) *resource {
	if edit != nil {
		edit(a)
	}
	a.Clean()
	data := a.JSON()
	tag := "ab-" + names.Salt(name, string(data), p.src.Page.Policy)
	if name == names.AboutDataName {
		r := textDocument(tag, func() []byte { return data })
		r.Type = typeJSON
		return r
	}
	r := textDocument(tag, func() []byte { return p.src.Page.Print(a) })
	r.Type, r.Policy = typeHTML, p.src.Page.Policy
	return r
}
