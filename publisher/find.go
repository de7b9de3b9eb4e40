package publisher

import (
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// find returns a document of the set, nil if there is none.
func (s documents) find(doc names.Doc) (r *resource, err error) {
	if doc.Sum != "" && s.digested(doc).Sum != doc.Sum {
		return nil, nil // of another history
	}
	defer func() {
		if r != nil {
			r.Named = doc.Sum != ""
		}
	}()
	seq := queuefs.Seq(doc.N)
	switch doc.Kind {
	case names.CapabilityList:
		r = s.capabilities()
	case names.ResourceList:
		r = s.resourceList(false)
	case names.Sitemap:
		r = s.resourceList(true)
	case names.ResourcePage, names.SitemapPage:
		if l, ok := s.listing(doc.N, doc.Kind == names.SitemapPage); ok {
			r = l.resource()
		}
	case names.OpenList:
		r, err = s.openList()
	case names.ChangeIndex:
		r, err = s.changeIndex()
	case names.ClosedList:
		r = s.closedList(seq)
	case names.ChangeDump:
		r, err = s.changeDump()
	case names.ChangePackage, names.ChangeManifest:
		if sp, ok := s.Package(seq); ok {
			r = s.packaged(doc, sp.Package(), sp.Until)
		}
	case names.ResourceDump, names.FormerDump:
		r = s.resourceDump(seq)
	case names.DumpPart:
		r = s.dumpPart(doc)
	case names.ResourcePackage, names.ResourceManifest:
		if p, ok := s.Portion(doc); ok {
			r = s.packaged(doc, p.Piece(), store.Later(p.At, p.Completed))
		}
	case names.FormerList:
		r = s.formerList(seq)
	case names.FormerPage:
		r = s.formerPage(doc)
	case names.FormerChanges:
		r = s.formerChanges(seq)
	default:
		r = s.archive(doc)
	}
	return r, err
}

// digested returns the name of a document that never changes with the digest it has
// now; without one if there is no such document.
func (s documents) digested(doc names.Doc) names.Doc {
	doc.Sum = ""
	switch seq := queuefs.Seq(doc.N); doc.Kind {
	case names.ClosedList:
		if sp, ok := s.List(seq); ok {
			return s.listDoc(&sp)
		}
	case names.ChangePackage, names.ChangeManifest, names.FormerChanges:
		if sp, ok := s.Package(seq); ok {
			return sp.Doc(doc.Kind)
		}
	case names.ResourcePackage, names.ResourceManifest, names.FormerPage:
		if p, ok := s.Portion(doc); ok {
			return p.Doc(doc.Kind)
		}
	case names.DumpPart:
		if d := s.Dump(queuefs.Seq(doc.Version)); d != nil {
			return s.dumpDoc(d, doc)
		}
	case names.FormerDump, names.FormerList:
		if d := s.Dump(seq); d != nil {
			return s.dumpDoc(d, doc)
		}
	}
	return doc
}
