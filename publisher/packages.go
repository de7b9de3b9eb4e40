package publisher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// changeDump returns changedump.xml: the packages in place, oldest first; nil while there
// is none.
func (s documents) changeDump() (*resource, error) {
	st, err := s.Standing()
	n := len(st.Packages)
	if err != nil || n == 0 {
		return nil, err
	}
	from, last := st.Packages[0].From, st.Packages[n-1].Last
	links := s.Up(s.archiveLink(names.ChangeDump)...)
	tag := fmt.Sprintf("d%d-%d-%d-%d", last, n, st.Next.UnixMicro(), len(links))
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: from, Until: s.p.oldUntil(st.Next), Links: links}
	return s.p.list(tag, sitemap.URLSet, head, each(st.Packages, s.packageEntry)), nil
}

// packageEntry returns the entry of a package of changes.
func (s documents) packageEntry(sp *set.Span) sitemap.Entry {
	return sitemap.Entry{Loc: s.refer(sp.Doc(names.ChangePackage)), From: sp.From, Until: sp.Until,
		Length: sp.Length, Type: typeZIP, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: sp.SHA256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Type: typeXML, Href: s.refer(sp.Doc(names.ChangeManifest))}}}
}

// portionEntry returns the entry of a package of a Resource Dump.
func (s documents) portionEntry(p *set.Portion) sitemap.Entry {
	return sitemap.Entry{Loc: s.refer(p.Doc(names.ResourcePackage)), At: p.At, Completed: p.Completed,
		Length: p.Length, Type: typeZIP, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: p.SHA256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Href: s.refer(p.Doc(names.ResourceManifest)), Type: typeXML}}}
}

// dumpDoc gives a document about a dump its digest. How many packages a document has
// hangs on the options.
func (s documents) dumpDoc(d *set.Edition, doc names.Doc) names.Doc {
	return doc.As(names.Salt(d.Sum, s.PerDocument()))
}

// formerChanges returns a closed Change Dump: one package.
func (s documents) formerChanges(first job.Seq) *resource {
	sp, ok := s.Package(first)
	if !ok {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: sp.From, Until: sp.Until, Links: s.Up()}
	return s.p.list(fmt.Sprintf("fd%d-%.16s", sp.First, sp.SHA256), sitemap.URLSet, head, each([]set.Span{sp}, s.packageEntry)).asFinal()
}

// resourceDump returns resourcedump.xml for 0, or the dump of an event: its
// packages, or an index of its parts if one document cannot have all.
func (s documents) resourceDump(seq job.Seq) *resource {
	d := s.Dump(seq)
	if d == nil {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceDump, At: d.At, Completed: d.Completed(), Links: s.Up()}
	tag := "rf"
	if seq == 0 {
		head.Links = s.Up(s.archiveLink(names.ResourceDump)...)
		tag = fmt.Sprintf("rd%d-", len(head.Links))
	}
	root, entries := sitemap.URLSet, each(d.Packages, s.portionEntry)
	if per := s.PerDocument(); len(d.Packages) > per {
		root, entries = sitemap.SitemapIndex, func(yield func(sitemap.Entry) bool) {
			for n := 1; (n-1)*per < len(d.Packages); n++ {
				if !yield(sitemap.Entry{Loc: s.refer(s.dumpDoc(d, names.DumpPart.Of(uint64(n), uint64(d.Seq)))), At: d.At, Length: -1}) {
					return
				}
			}
		}
	}
	r := s.p.list(fmt.Sprintf("%s%d-%s", tag, d.Seq, d.Sum), root, head, entries)
	if seq != 0 {
		r.asFinal()
	}
	return r
}

// dumpPart returns a part of a dump with too many packages for one document.
func (s documents) dumpPart(doc names.Doc) *resource {
	d := s.Dump(job.Seq(doc.Version))
	per := s.PerDocument()
	if d == nil || len(d.Packages) <= per || int(doc.N-1)*per >= len(d.Packages) {
		return nil
	}
	packages := d.Packages[int(doc.N-1)*per:]
	head := sitemap.Head{Capability: sitemap.ResourceDump, At: d.At, Completed: d.Completed(),
		Links: s.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.refer(s.dumpDoc(d, names.FormerDump.Of(uint64(d.Seq))))})}
	return s.p.list(fmt.Sprintf("rp%d-%d-%s", doc.N, d.Seq, d.Sum), sitemap.URLSet, head,
		each(packages[:min(per, len(packages))], s.portionEntry)).asFinal()
}

// formerList returns the Resource List as of a Resource Dump: an index of a list
// for each package.
func (s documents) formerList(seq job.Seq) *resource {
	d := s.Dump(seq)
	if d == nil {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceList, At: d.At, Completed: d.Completed(), Links: s.Up()}
	return s.p.list(fmt.Sprintf("fl%d-%s", d.Seq, d.Sum), sitemap.SitemapIndex, head, each(d.Packages, func(p *set.Portion) sitemap.Entry {
		return sitemap.Entry{Loc: s.refer(p.Doc(names.FormerPage)), At: p.At, Completed: p.Completed, Length: -1}
	})).asFinal()
}

// formerPage returns the list of the files in a package of a Resource Dump.
func (s documents) formerPage(doc names.Doc) *resource {
	p, ok := s.Portion(doc)
	if !ok {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceList, At: p.At, Completed: p.Completed, Links: s.Up()}
	return copied(fmt.Sprintf("fp%d-%d-%.16s", doc.N, doc.Version, p.SHA256), time.Time{}, func() (io.ReadCloser, error) {
		r, err := s.OpenManifest(p.Piece())
		if err != nil {
			return nil, err
		}
		return set.AsResourceList(r, s.Dialect.AppendHead(nil, sitemap.URLSet, head)), nil
	})
}

// packaged returns a package in a file, or its manifest (Z39.99-2017, 11 and
// 13), read out of the package.
func (s documents) packaged(doc names.Doc, p set.Piece, at time.Time) *resource {
	sum := hex.EncodeToString(p.Sum[:])
	if doc.Kind == names.ChangeManifest || doc.Kind == names.ResourceManifest {
		return copied(fmt.Sprintf("m%d-%d-%.16s", doc.N, doc.Version, sum), at, func() (io.ReadCloser, error) { return s.OpenManifest(p) })
	}
	tag := fmt.Sprintf("z%d-%.16s", doc.N, sum)
	open := func() (set.Content, error) { return s.OpenPiece(p) }
	r := &resource{Type: typeZIP, Tag: tag, Modified: at, Final: true, File: open}
	r.Open = func() (*document, error) {
		d := r.document()
		return d, addContent(d, open, p.Length)
	}
	return r
}

// copied returns a document with the text of open.
func copied(tag string, at time.Time, open func() (io.ReadCloser, error)) *resource {
	r := &resource{Tag: tag, Modified: at, Final: true}
	r.Render = func(w io.Writer) (docState, error) {
		in, err := open()
		if err != nil {
			return docState{}, err
		}
		_, err = io.Copy(w, in)
		return docState{Tag: tag, Modified: at}, errors.Join(err, in.Close())
	}
	return r
}

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
	span := func(doc names.Doc, sp *set.Span) {
		entries = append(entries, sitemap.Entry{Loc: s.refer(doc), From: sp.From, Until: sp.Until, Length: -1})
	}
	dump := func(k names.Kind, d *set.Edition) {
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
		head.From, head.Until = set.Later(first.At, first.From), last.Until
	}
	text := s.p.text(root, head, slices.Values(entries))
	return textDocument(fmt.Sprintf("a-%s", names.Salt(string(text))), func() []byte { return text })
}
