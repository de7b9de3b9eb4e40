package publisher

import (
	"fmt"
	"slices"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/sitemap"
)

// An archive names the former documents of one kind, oldest first (ResourceSync Archives
// 1.0): Change Lists and packages of changes after the index or dump has dropped them,
// Resource Lists and Resource Dumps after a later Resource Dump. An archive without entries
// does not exist.
type archive struct {
	capability  sitemap.Capability
	whole, part names.Kind
	of          names.Kind // the document with a link to it
}

// size returns how many documents the archive names.
func (a *archive) size(f *set.Former) int {
	switch a.of {
	case names.ChangeIndex:
		return len(f.Lists)
	case names.ChangeDump:
		return len(f.Packages)
	}
	return len(f.Dumps)
}

var archives = [...]archive{
	{sitemap.ResourceListArchive, names.ResourceListArchive, names.ResourceListArchivePart, names.ResourceList},
	{sitemap.ResourceDumpArchive, names.ResourceDumpArchive, names.ResourceDumpArchivePart, names.ResourceDump},
	{sitemap.ChangeListArchive, names.ChangeListArchive, names.ChangeListArchivePart, names.ChangeIndex},
	{sitemap.ChangeDumpArchive, names.ChangeDumpArchive, names.ChangeDumpArchivePart, names.ChangeDump},
}

// archived returns the archives with entries.
func archived(f *set.Former) (all []*archive) {
	for i := range archives {
		if archives[i].size(f) > 0 {
			all = append(all, &archives[i])
		}
	}
	return all
}

// archiveLink returns the link of a document to its archive, none without one.
func (s documents) archiveLink(of names.Kind) []sitemap.Link {
	f := s.Holding().Former
	i := slices.IndexFunc(archives[:], func(a archive) bool { return a.of == of })
	if archives[i].size(&f) == 0 {
		return nil
	}
	return []sitemap.Link{{Rel: sitemap.RelArchives, Href: s.URI(archives[i].whole)}}
}

// archiveEntries returns the entries of an archive.
func (s documents) archiveEntries(of names.Kind) (entries []sitemap.Entry) {
	f := s.Holding().Former
	span := func(doc names.Doc, sp *store.Span) {
		entries = append(entries, sitemap.Entry{Loc: s.refer(doc), From: sp.From, Until: sp.Until, Length: -1})
	}
	dump := func(k names.Kind, d *store.Edition) {
		entries = append(entries, sitemap.Entry{Loc: s.refer(s.dumpDoc(d, k.Of(uint64(d.Seq)))), At: d.At, Completed: d.Completed(), Length: -1})
	}
	switch of {
	case names.ChangeIndex:
		for i := range f.Lists {
			span(s.listDoc(&f.Lists[i]), &f.Lists[i])
		}
	case names.ChangeDump:
		for i := range f.Packages {
			span(f.Packages[i].Doc(names.FormerChanges), &f.Packages[i])
		}
	case names.ResourceList:
		for _, d := range f.Dumps {
			dump(names.FormerList, d)
		}
	case names.ResourceDump:
		for _, d := range f.Dumps {
			dump(names.FormerDump, d)
		}
	}
	return entries
}

// archive returns an archive, or a part of one; nil if there is none. An archive
// too large for one document is an index of its parts.
func (s documents) archive(doc names.Doc) *resource {
	i := slices.IndexFunc(archives[:], func(a archive) bool { return doc.Kind == a.whole || doc.Kind == a.part })
	if i < 0 {
		return nil
	}
	a, n := &archives[i], int(doc.N)
	entries := s.archiveEntries(a.of)
	per := s.PerDocument()
	parts := (len(entries) + per - 1) / per
	root, head := sitemap.URLSet, sitemap.Head{Capability: a.capability, Links: s.Up()}
	switch {
	case parts == 0, n > 0 && (parts == 1 || n > parts):
		return nil
	case n == 0 && parts > 1:
		root, entries = sitemap.SitemapIndex, nil
		for i := range parts {
			entries = append(entries, sitemap.Entry{Loc: s.URI(a.part, uint64(i+1)), Length: -1})
		}
	case n > 0:
		entries = entries[(n-1)*per : min(n*per, len(entries))]
		head.Links = s.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.URI(a.whole)})
	}
	if s.Dialect == sitemap.V09 { // there archives had times
		first, last := entries[0], entries[len(entries)-1]
		head.From, head.Until = store.Later(first.At, first.From), last.Until
	}
	text := s.p.text(root, head, slices.Values(entries))
	return textDocument(fmt.Sprintf("a-%s", names.Salt(string(text))), func() []byte { return text })
}
