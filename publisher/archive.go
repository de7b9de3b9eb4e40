package publisher

import (
	"fmt"
	"io"

	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// An archive names the documents of one kind that are no longer current, the
// oldest first (ResourceSync Archives 1.0). Change Lists and Change Dumps get
// there when the index or the dump no longer names them, Resource Lists and
// Resource Dumps when there is a later Resource Dump. An archive without
// entries does not exist.
type archive struct {
	capability  sitemap.Capability
	whole, part docKind
	of          docKind // documents that link to it
}

var archives = [...]archive{
	{sitemap.ResourceListArchive, resourceListArchive, resourceListArchivePart, resourceList},
	{sitemap.ResourceDumpArchive, resourceDumpArchive, resourceDumpArchivePart, resourceDump},
	{sitemap.ChangeListArchive, changeListArchive, changeListArchivePart, changeIndex},
	{sitemap.ChangeDumpArchive, changeDumpArchive, changeDumpArchivePart, changeDump},
}

// archived returns what the archive of a kind of document has; f.mu is held.
// Loc is still without the directory.
func (f *feed) archived(c *changes, of docKind) (entries []sitemap.Entry) {
	add := func(name docName, e sitemap.Entry) {
		e.Loc, e.Length = name.String(), -1
		entries = append(entries, e)
	}
	switch of {
	case changeIndex:
		for _, sp := range c.lists.all[:len(c.lists.all)-len(f.indexed(c))] {
			add(docName{kind: closedList, n: uint64(sp.first)}, sitemap.Entry{From: sp.from, Until: sp.until})
		}
	case changeDump:
		now, _ := f.dumped(c)
		for _, sp := range c.packages.all[:len(c.packages.all)-len(now)] {
			add(docName{kind: formerChanges, n: uint64(sp.first)}, sitemap.Entry{From: sp.from, Until: sp.until})
		}
	case resourceList, resourceDump:
		kind := formerDump
		if of == resourceList {
			kind = formerList
		}
		for i := range len(c.kept) - 1 {
			d := c.kept[i]
			add(docName{kind: kind, n: uint64(d.seq)}, sitemap.Entry{At: d.at, Completed: d.completed()})
		}
	}
	return entries
}

// archive returns an archive, which is an index if one document has no room
// for it, or part n of it; nil if there is no such.
func (f *feed) archive(s Set, a *archive, n uint64) *resource {
	f.mu.Lock()
	entries := f.archived(&f.sets[s], a.of)
	f.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	docs := f.names.docs[s]
	per := f.perDocument(s)
	parts := (len(entries) + per - 1) / per
	head := sitemap.Head{Capability: a.capability,
		Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}}
	root := sitemap.URLSet
	switch {
	case n == 0 && parts > 1:
		root, entries = sitemap.SitemapIndex, nil
		for i := range parts {
			entries = append(entries, sitemap.Entry{Loc: docName{kind: a.part, n: uint64(i + 1)}.String(), Length: -1})
		}
	case n > 0 && (parts == 1 || n > uint64(parts)):
		return nil
	case n > 0:
		entries = entries[int(n-1)*per : min(int(n)*per, len(entries))]
		head.Links = append(head.Links, sitemap.Link{Rel: sitemap.RelIndex, Href: docs + docName{kind: a.whole}.String()})
	}
	if f.p.Dialect == sitemap.V09 { // archives had times
		first, last := entries[0], entries[len(entries)-1]
		head.From, head.Until = later(first.At, first.From), last.Until
	}
	text := f.p.Dialect.AppendHead(nil, root, head)
	for i := range entries {
		e := &entries[i]
		e.Loc = docs + e.Loc
		text = f.p.Dialect.AppendEntry(text, root, e)
	}
	text = sitemap.AppendFoot(text, root)
	return fixedText("a-"+salt(string(text)), func() []byte { return text })
}

// perDocument returns how many entries about documents one document may have.
func (f *feed) perDocument(s Set) int {
	// An entry has two references at most, times, a length and a digest.
	size := 2*(len(f.names.docs[s])+64) + 512
	return max(2, min(sitemap.MaxEntries, int(f.room())/size))
}

// archives returns the archives of a set that exist; f.mu is held.
func (f *feed) archives(c *changes) (all []*archive) {
	for i := range archives {
		if f.hasArchive(c, archives[i].of) {
			all = append(all, &archives[i])
		}
	}
	return all
}

// hasArchive reports whether archived returns anything; f.mu is held.
func (f *feed) hasArchive(c *changes, of docKind) bool {
	switch of {
	case changeIndex:
		return len(c.lists.all) > len(f.indexed(c))
	case changeDump:
		now, _ := f.dumped(c)
		return len(c.packages.all) > len(now)
	}
	return len(c.kept) > 1
}

// archiveLink adds the link to the archive of a kind of document to a head, if
// there is that archive.
func (f *feed) archiveLink(s Set, of docKind, links []sitemap.Link) []sitemap.Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasArchive(&f.sets[s], of) {
		return links
	}
	for _, a := range archives {
		if a.of == of {
			links = append(links, sitemap.Link{Rel: sitemap.RelArchives, Href: f.names.docs[s] + docName{kind: a.whole}.String()})
		}
	}
	return links
}

// formerList returns the Resource List that was dumped with a Resource Dump:
// an index of a list for each package.
func (f *feed) formerList(s Set, seq queuefs.Seq) *resource {
	d := f.dumpOf(s, seq)
	if d == nil {
		return nil
	}
	r := fixedText(fmt.Sprintf("fl%d-%s", d.seq, d.sum), func() []byte {
		docs := f.names.docs[s]
		dst := f.p.Dialect.AppendHead(nil, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ResourceList, At: d.at, Completed: d.completed(),
			Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}})
		for i := range d.packages {
			p := &d.packages[i]
			page := p.name()
			page.kind = formerPage
			dst = f.p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: docs + page.String(), At: p.at, Completed: p.completed, Length: -1})
		}
		return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
	})
	r.cache = cacheClosed
	return r
}

// formerPage returns the list of what a package of a Resource Dump has: its
// manifest without paths.
func (f *feed) formerPage(s Set, doc docName) *resource {
	p, ok := f.portion(s, doc)
	if !ok {
		return nil
	}
	tag := fmt.Sprintf("fp%d-%d-%.16s", doc.n, doc.version, p.sha256)
	return &resource{tag: tag, cache: cacheClosed, compose: func(c coding) (*document, error) {
		d := &document{tag: tag}
		head := f.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ResourceList, At: p.at, Completed: p.completed,
			Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: f.names.docs[s] + docName{kind: capabilityList}.String()}}})
		return d, f.copied(d, s, c, func() (io.ReadCloser, error) {
			r, err := f.openManifest(s, p.name().String())
			if err != nil {
				return nil, err
			}
			return dump.AsResourceList(r, head), nil
		})
	}}
}

// formerChanges returns a Change Dump that is closed: one package.
func (f *feed) formerChanges(s Set, first queuefs.Seq) *resource {
	f.mu.Lock()
	sp, ok := f.sets[s].packages.find(first)
	f.mu.Unlock()
	if !ok {
		return nil
	}
	r := fixedText(fmt.Sprintf("fd%d-%.16s", sp.first, sp.sha256), func() []byte {
		docs := f.names.docs[s]
		dst := f.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDump, From: sp.from, Until: sp.until,
			Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}})
		return sitemap.AppendFoot(f.appendPackage(dst, s, &sp), sitemap.URLSet)
	})
	r.cache = cacheClosed
	return r
}

// appendPackage appends the entry of a package of changes.
func (f *feed) appendPackage(dst []byte, s Set, sp *span) []byte {
	docs := f.names.docs[s]
	return f.p.Dialect.AppendEntry(dst, sitemap.URLSet, &sitemap.Entry{
		Loc: docs + changePackageFile(sp.first), From: sp.from, Until: sp.until,
		Length: sp.length, Type: packageType, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: sp.sha256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Type: documentType,
			Href: docs + docName{kind: changeManifest, n: uint64(sp.first)}.String()}}})
}
