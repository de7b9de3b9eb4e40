package publisher

import (
	"fmt"
	"slices"

	"cutie/publisher/answer"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/sitemap"
)

// An archive names the former documents of one kind, oldest first (ResourceSync Archives 1.0): Change Lists and packages of changes after
// the index or dump has dropped them, Resource Lists and Resource Dumps after a
// later Resource Dump. An archive without entries does not exist.
type archive struct {
	capability  sitemap.Capability
	whole, part names.Kind
	of          names.Kind // the document with a link to it
}

var archives = [...]archive{
	{sitemap.ResourceListArchive, names.ResourceListArchive, names.ResourceListArchivePart, names.ResourceList},
	{sitemap.ResourceDumpArchive, names.ResourceDumpArchive, names.ResourceDumpArchivePart, names.ResourceDump},
	{sitemap.ChangeListArchive, names.ChangeListArchive, names.ChangeListArchivePart, names.ChangeIndex},
	{sitemap.ChangeDumpArchive, names.ChangeDumpArchive, names.ChangeDumpArchivePart, names.ChangeDump},
}

// archived returns how many documents the archive of a kind names: the oldest
// closed lists, packages of changes, or Resource Dumps. mu is held.
func (s *set) archived(of names.Kind) int {
	switch of {
	case names.ChangeIndex:
		return len(s.Lists.All) - len(s.indexed())
	case names.ChangeDump:
		now, _ := s.dumped()
		return len(s.Packages.All) - len(now)
	}
	return max(0, len(s.Dumps)-1)
}

// archives returns the archives with entries. mu is held.
func (s *set) archives() (all []*archive) {
	for i := range archives {
		if s.archived(archives[i].of) > 0 {
			all = append(all, &archives[i])
		}
	}
	return all
}

// archiveLink returns the link of a document to its archive, none without one.
func (s *set) archiveLink(of names.Kind) []sitemap.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(archives[:], func(a archive) bool { return a.of == of })
	if s.archived(of) == 0 {
		return nil
	}
	return []sitemap.Link{{Rel: sitemap.RelArchives, Href: s.uri(archives[i].whole)}}
}

// archiveEntries returns the entries of an archive.
func (s *set) archiveEntries(of names.Kind) (entries []sitemap.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.archived(of) {
		var e sitemap.Entry
		switch of {
		case names.ChangeIndex:
			sp := &s.Lists.All[i]
			e = sitemap.Entry{Loc: s.refer(s.listDoc(sp)), From: sp.From, Until: sp.Until}
		case names.ChangeDump:
			sp := &s.Packages.All[i]
			e = sitemap.Entry{Loc: s.refer(sp.Doc(names.FormerChanges)), From: sp.From, Until: sp.Until}
		default:
			d, kind := s.Dumps[i], names.FormerDump
			if of == names.ResourceList {
				kind = names.FormerList
			}
			e = sitemap.Entry{Loc: s.refer(s.dumpDoc(d, kind.Of(uint64(d.Seq)))), At: d.At, Completed: d.Completed()}
		}
		e.Length = -1
		entries = append(entries, e)
	}
	return entries
}

// archive returns an archive, or a part of one; nil if there is none. An archive
// too large for one document is an index of its parts.
func (s *set) archive(doc names.Doc) *answer.Resource {
	i := slices.IndexFunc(archives[:], func(a archive) bool { return doc.Kind == a.whole || doc.Kind == a.part })
	if i < 0 {
		return nil
	}
	a, n := &archives[i], int(doc.N)
	entries := s.archiveEntries(a.of)
	per := s.perDocument()
	parts := (len(entries) + per - 1) / per
	root, head := sitemap.URLSet, sitemap.Head{Capability: a.capability, Links: s.up()}
	switch {
	case parts == 0, n > 0 && (parts == 1 || n > parts):
		return nil
	case n == 0 && parts > 1:
		root, entries = sitemap.SitemapIndex, nil
		for i := range parts {
			entries = append(entries, sitemap.Entry{Loc: s.uri(a.part, uint64(i+1)), Length: -1})
		}
	case n > 0:
		entries = entries[(n-1)*per : min(n*per, len(entries))]
		head.Links = s.up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.uri(a.whole)})
	}
	if s.p.Dialect == sitemap.V09 { // there archives had times
		first, last := entries[0], entries[len(entries)-1]
		head.From, head.Until = store.Later(first.At, first.From), last.Until
	}
	text := s.p.text(root, head, slices.Values(entries))
	return answer.Text(fmt.Sprintf("a-%s", answer.Salt(string(text))), func() []byte { return text })
}
