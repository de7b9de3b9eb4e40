package publisher

import "cutie/queuefs"

// published is the feed of a queue with all documents that are made of it.
type published struct{ *feed }

// find returns a document of a set: one that is made of packages or about
// them, one that is no longer current, or any other.
func (p published) find(s Set, doc docName) (*resource, error) {
	if r := p.findPackaged(s, doc); r != nil {
		return r, nil
	}
	return p.feed.find(s, doc)
}

// findPackaged returns nil if there is no such document, or it is another's.
func (f *feed) findPackaged(s Set, doc docName) *resource {
	seq := queuefs.Seq(doc.n)
	switch doc.kind {
	case resourceDump, formerDump:
		return f.resourceDump(s, seq)
	case dumpPart:
		return f.dumpPart(s, doc)
	case resourcePackage, resourceManifest:
		return f.resourcePackage(s, doc)
	case changeManifest:
		return f.changeManifest(s, doc)
	case formerList:
		return f.formerList(s, seq)
	case formerPage:
		return f.formerPage(s, doc)
	case formerChanges:
		return f.formerChanges(s, seq)
	}
	for i := range archives {
		if a := &archives[i]; a.whole == doc.kind || a.part == doc.kind {
			return f.archive(s, a, doc.n)
		}
	}
	return nil
}
