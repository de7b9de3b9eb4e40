package publisher

import (
	"fmt"
	"slices"

	"cutie/sitemap"
)

// An archive names the documents of one kind that are no longer current, oldest
// first (ResourceSync Archives 1.0): Change Lists and packages of changes after
// the index or dump has dropped them, Resource Lists and Resource Dumps after a
// later Resource Dump. An archive without entries does not exist.
type archive struct {
	capability  sitemap.Capability
	whole, part docKind
	of          docKind // the document that links to it
}

var archives = [...]archive{
	{sitemap.ResourceListArchive, resourceListArchive, resourceListArchivePart, resourceList},
	{sitemap.ResourceDumpArchive, resourceDumpArchive, resourceDumpArchivePart, resourceDump},
	{sitemap.ChangeListArchive, changeListArchive, changeListArchivePart, changeIndex},
	{sitemap.ChangeDumpArchive, changeDumpArchive, changeDumpArchivePart, changeDump},
}

// archived returns how many documents the archive of a kind names: the oldest
// closed lists, packages of changes, or Resource Dumps. mu is held.
func (s *set) archived(of docKind) int {
	switch of {
	case changeIndex:
		return len(s.lists.all) - len(s.indexed())
	case changeDump:
		now, _ := s.dumped()
		return len(s.packages.all) - len(now)
	}
	return max(0, len(s.dumps)-1)
}

// archives returns the archives that exist. mu is held.
func (s *set) archives() (all []*archive) {
	for i := range archives {
		if s.archived(archives[i].of) > 0 {
			all = append(all, &archives[i])
		}
	}
	return all
}

// archiveLink returns the link of a document to its archive, none without one.
func (s *set) archiveLink(of docKind) []sitemap.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(archives[:], func(a archive) bool { return a.of == of })
	if s.archived(of) == 0 {
		return nil
	}
	return []sitemap.Link{{Rel: sitemap.RelArchives, Href: s.uri(docName{kind: archives[i].whole})}}
}

// archiveEntries returns the entries of an archive.
func (s *set) archiveEntries(of docKind) (entries []sitemap.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.archived(of) {
		var e sitemap.Entry
		switch of {
		case changeIndex:
			sp := &s.lists.all[i]
			e = sitemap.Entry{Loc: s.uri(docName{kind: closedList, n: uint64(sp.first)}), From: sp.from, Until: sp.until}
		case changeDump:
			sp := &s.packages.all[i]
			e = sitemap.Entry{Loc: s.uri(docName{kind: formerChanges, n: uint64(sp.first)}), From: sp.from, Until: sp.until}
		default:
			d, kind := s.dumps[i], formerDump
			if of == resourceList {
				kind = formerList
			}
			e = sitemap.Entry{Loc: s.uri(docName{kind: kind, n: uint64(d.seq)}), At: d.at, Completed: d.completed()}
		}
		e.Length = -1
		entries = append(entries, e)
	}
	return entries
}

// archive returns an archive, or a part of one; nil if there is none. An archive
// too large for one document is an index of its parts.
func (s *set) archive(doc docName) *resource {
	i := slices.IndexFunc(archives[:], func(a archive) bool { return doc.kind == a.whole || doc.kind == a.part })
	if i < 0 {
		return nil
	}
	a, n := &archives[i], int(doc.n)
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
			entries = append(entries, sitemap.Entry{Loc: s.uri(docName{kind: a.part, n: uint64(i + 1)}), Length: -1})
		}
	case n > 0:
		entries = entries[(n-1)*per : min(n*per, len(entries))]
		head.Links = s.up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.uri(docName{kind: a.whole})})
	}
	if s.p.Dialect == sitemap.V09 { // there archives had times
		first, last := entries[0], entries[len(entries)-1]
		head.From, head.Until = later(first.At, first.From), last.Until
	}
	text := s.p.text(root, head, slices.Values(entries))
	return fixedText(fmt.Sprintf("a-%s", salt(string(text))), func() []byte { return text })
}
