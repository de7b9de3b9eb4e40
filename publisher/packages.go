package publisher

import (
	"fmt"
	"io"
	"time"

	"cutie/publisher/compose"
	"cutie/publisher/dump"
	"cutie/queuefs"
	"cutie/sitemap"
)

// packageEntry returns the entry of a package of changes.
func (s *set) packageEntry(sp *span) sitemap.Entry {
	return sitemap.Entry{Loc: s.uri(docName{kind: changePackage, n: uint64(sp.first)}), From: sp.from, Until: sp.until,
		Length: sp.length, Type: packageType, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: sp.sha256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Type: documentType, Href: s.uri(docName{kind: changeManifest, n: uint64(sp.first)})}}}
}

// portionEntry returns the entry of a package of a Resource Dump.
func (s *set) portionEntry(p *portion) sitemap.Entry {
	manifest := p.name()
	manifest.kind = resourceManifest
	return sitemap.Entry{Loc: s.uri(p.name()), At: p.at, Completed: p.completed,
		Length: p.length, Type: packageType, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: p.sha256}},
		Links: []sitemap.Link{{Rel: sitemap.RelContents, Href: s.uri(manifest), Type: documentType}}}
}

// packageOf returns the package of changes that begins with an event.
func (s *set) packageOf(first queuefs.Seq) (span, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.packages.find(first)
}

// formerChanges returns a closed Change Dump: one package.
func (s *set) formerChanges(first queuefs.Seq) *resource {
	sp, ok := s.packageOf(first)
	if !ok {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ChangeDump, From: sp.from, Until: sp.until, Links: s.up()}
	return s.p.list(fmt.Sprintf("fd%d-%.16s", sp.first, sp.sha256), sitemap.URLSet, head, each([]span{sp}, s.packageEntry)).final()
}

// resourceDump returns resourcedump.xml for 0, or the dump of an event: its
// packages, or an index of its parts if one document cannot have all.
func (s *set) resourceDump(seq queuefs.Seq) *resource {
	d := s.dumpOf(seq)
	if d == nil {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceDump, At: d.at, Completed: d.completed(), Links: s.up()}
	tag := "rf"
	if seq == 0 {
		head.Links = s.up(s.archiveLink(resourceDump)...)
		tag = fmt.Sprintf("rd%d-", len(head.Links))
	}
	root, entries := sitemap.URLSet, each(d.packages, s.portionEntry)
	if per := s.perDocument(); len(d.packages) > per {
		root, entries = sitemap.SitemapIndex, func(yield func(sitemap.Entry) bool) {
			for n := 1; (n-1)*per < len(d.packages); n++ {
				part := docName{kind: dumpPart, n: uint64(n), version: uint64(d.seq)}
				if !yield(sitemap.Entry{Loc: s.uri(part), At: d.at, Length: -1}) {
					return
				}
			}
		}
	}
	r := s.p.list(fmt.Sprintf("%s%d-%s", tag, d.seq, d.sum), root, head, entries)
	if seq != 0 {
		r.final()
	}
	return r
}

// dumpPart returns a part of a dump with too many packages for one document.
func (s *set) dumpPart(doc docName) *resource {
	d := s.dumpOf(queuefs.Seq(doc.version))
	per := s.perDocument()
	if d == nil || len(d.packages) <= per || int(doc.n-1)*per >= len(d.packages) {
		return nil
	}
	packages := d.packages[int(doc.n-1)*per:]
	head := sitemap.Head{Capability: sitemap.ResourceDump, At: d.at, Completed: d.completed(),
		Links: s.up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.uri(docName{kind: formerDump, n: uint64(d.seq)})})}
	return s.p.list(fmt.Sprintf("rp%d-%d-%s", doc.n, d.seq, d.sum), sitemap.URLSet, head,
		each(packages[:min(per, len(packages))], s.portionEntry)).final()
}

// formerList returns the Resource List as of a Resource Dump: an index of a list
// for each package.
func (s *set) formerList(seq queuefs.Seq) *resource {
	d := s.dumpOf(seq)
	if d == nil {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceList, At: d.at, Completed: d.completed(), Links: s.up()}
	return s.p.list(fmt.Sprintf("fl%d-%s", d.seq, d.sum), sitemap.SitemapIndex, head, each(d.packages, func(p *portion) sitemap.Entry {
		page := p.name()
		page.kind = formerPage
		return sitemap.Entry{Loc: s.uri(page), At: p.at, Completed: p.completed, Length: -1}
	})).final()
}

// formerPage returns the list of the files in a package of a Resource Dump.
func (s *set) formerPage(doc docName) *resource {
	p, ok := s.portion(doc)
	if !ok {
		return nil
	}
	head := sitemap.Head{Capability: sitemap.ResourceList, At: p.at, Completed: p.completed, Links: s.up()}
	return s.copied(fmt.Sprintf("fp%d-%d-%.16s", doc.n, doc.version, p.sha256), time.Time{}, func() (io.ReadCloser, error) {
		r, err := s.openManifest(p.name().String())
		if err != nil {
			return nil, err
		}
		return dump.AsResourceList(r, s.p.Dialect.AppendHead(nil, sitemap.URLSet, head)), nil
	})
}

// packaged returns a package in a file, or its manifest (Z39.99-2017, 11 and
// 13), read out of the package.
func (s *set) packaged(doc docName, name string, at time.Time, length int64, sum string) *resource {
	if doc.kind == changeManifest || doc.kind == resourceManifest {
		return s.copied(fmt.Sprintf("m%d-%d-%.16s", doc.n, doc.version, sum), at, func() (io.ReadCloser, error) { return s.openManifest(name) })
	}
	tag := fmt.Sprintf("z%d-%.16s", doc.n, sum)
	return &resource{zip: true, tag: tag, modified: at, cache: cacheClosed, compose: func(compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: tag, Modified: at}
		d.File(s.opener(name), 0, length)
		return d, nil
	}}
}

// openManifest opens the manifest in a package.
func (s *set) openManifest(name string) (io.ReadCloser, error) {
	file, err := s.open(name)
	if err != nil {
		return nil, err
	}
	r, err := dump.OpenManifest(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// copied returns a document with the text that open reads. Its tag tells it from
// all other documents of the set.
func (s *set) copied(tag string, at time.Time, open func() (io.ReadCloser, error)) *resource {
	return &resource{tag: tag, modified: at, cache: cacheClosed, compose: func(c compose.Coding) (*compose.Document, error) {
		members, err := s.p.cache.copies(memberKey{queue: s.q.ID(), set: s.kind, copy: tag}, open)
		if err != nil {
			return nil, err
		}
		d := &compose.Document{Tag: tag, Modified: at}
		b := d.Build(c)
		for _, m := range members {
			b.Member(m.Member)
		}
		b.End()
		return d, nil
	}}
}
