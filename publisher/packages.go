package publisher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
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
func (s documents) packageEntry(sp *store.Span) sitemap.Entry {
	return sitemap.Entry{Loc: s.refer(sp.Doc(names.ChangePackage)), From: sp.From, Until: sp.Until,
		Length: sp.Length, Type: typeZIP, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: sp.SHA256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Type: typeXML, Href: s.refer(sp.Doc(names.ChangeManifest))}}}
}

// portionEntry returns the entry of a package of a Resource Dump.
func (s documents) portionEntry(p *store.Portion) sitemap.Entry {
	return sitemap.Entry{Loc: s.refer(p.Doc(names.ResourcePackage)), At: p.At, Completed: p.Completed,
		Length: p.Length, Type: typeZIP, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: p.SHA256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Href: s.refer(p.Doc(names.ResourceManifest)), Type: typeXML}}}
}

// dumpDoc gives a document about a dump its digest. How many packages a document has
// hangs on the options.
func (s documents) dumpDoc(d *store.Edition, doc names.Doc) names.Doc {
	return doc.As(names.Salt(d.Sum, s.PerDocument()))
}

// formerChanges returns a closed Change Dump: one package.
func (s documents) formerChanges(first queuefs.Seq) *resource {
	sp, ok := s.Package(first)
	if !ok {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: sp.From, Until: sp.Until, Links: s.Up()}
	return s.p.list(fmt.Sprintf("fd%d-%.16s", sp.First, sp.SHA256), sitemap.URLSet, head, each([]store.Span{sp}, s.packageEntry)).asFinal()
}

// resourceDump returns resourcedump.xml for 0, or the dump of an event: its
// packages, or an index of its parts if one document cannot have all.
func (s documents) resourceDump(seq queuefs.Seq) *resource {
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
	d := s.Dump(queuefs.Seq(doc.Version))
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
func (s documents) formerList(seq queuefs.Seq) *resource {
	d := s.Dump(seq)
	if d == nil {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceList, At: d.At, Completed: d.Completed(), Links: s.Up()}
	return s.p.list(fmt.Sprintf("fl%d-%s", d.Seq, d.Sum), sitemap.SitemapIndex, head, each(d.Packages, func(p *store.Portion) sitemap.Entry {
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
		return dump.AsResourceList(r, s.Dialect.AppendHead(nil, sitemap.URLSet, head)), nil
	})
}

// packaged returns a package in a file, or its manifest (Z39.99-2017, 11 and
// 13), read out of the package.
func (s documents) packaged(doc names.Doc, p store.Piece, at time.Time) *resource {
	sum := hex.EncodeToString(p.Sum[:])
	if doc.Kind == names.ChangeManifest || doc.Kind == names.ResourceManifest {
		return copied(fmt.Sprintf("m%d-%d-%.16s", doc.N, doc.Version, sum), at, func() (io.ReadCloser, error) { return s.OpenManifest(p) })
	}
	tag := fmt.Sprintf("z%d-%.16s", doc.N, sum)
	open := func() (store.Content, error) { return s.OpenPiece(p) }
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
