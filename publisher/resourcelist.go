package publisher

import (
	"fmt"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// pagesOf returns how many engine pages a page of the Resource List covers: as
// many as surely keep it below the limits.
func (f *feed) pagesOf(s Set) int {
	perPage := queuefs.PageJobs * s.perJob()
	const reserve = 1 // for queue-info.txt
	n := min((f.p.MaxEntries-reserve)/perPage, int(f.room())/(queuefs.PageJobs*f.bounds[s]))
	return max(1, n)
}

// room returns how many octets of entries a document may have.
func (f *feed) room() int64 { return f.p.MaxBytes - 4096 - 2*int64(len(f.names.docs[Pending])) }

// A listing is the part of a Resource List that one document shows: the engine
// pages from lo up to hi. The first one also has queue-info.txt.
type listing struct {
	*feed
	set    Set
	lo, hi int
	page   bool // it is one of several, named by an index

	archives []sitemap.Link // to the archive, if there is one; parts have none
}

// whole returns the listing of all jobs, and whether one document may be so
// large.
func (f *feed) whole(s Set) (listing, bool) {
	st := f.q.State()
	n := s.size(int(st.Pending), int(st.Pending+st.Consumed+st.Deleted))
	return listing{feed: f, set: s, hi: f.q.Pages(), archives: f.archiveLink(s, resourceList, nil)}, f.fit(s, n)
}

// fit reports whether one document may have n entries of jobs.
func (f *feed) fit(s Set, n int) bool {
	if s == Replica {
		n++ // queue-info.txt
	}
	return n <= f.p.MaxEntries && int64(n)*int64(f.bounds[s]) <= f.room()*int64(s.perJob())
}

// listing returns page n of the Resource List, from 1. The last page that the
// queue has had, and the first, are there even if they are empty.
func (f *feed) listing(s Set, n uint64) (listing, bool) {
	lo := (n - 1) * uint64(f.pages[s])
	if pages := f.q.Pages(); n > 1 && lo >= uint64(pages) {
		return listing{}, false
	}
	return listing{feed: f, set: s, lo: int(lo), hi: int(lo) + f.pages[s], page: true}, true
}

// latest returns the last event that touched the listing, its time, and how
// many entries there are.
func (l *listing) latest() (version queuefs.Seq, at time.Time, entries int) {
	for p := l.lo; p < l.hi; p++ {
		v, t, pending, total := l.q.PageVersion(p)
		if v > version {
			version, at = v, t
		}
		entries += l.set.size(pending, total)
	}
	return version, l.orCreated(at), entries
}

// orCreated returns when the queue was made if it has had no event.
func (f *feed) orCreated(t time.Time) time.Time {
	if t.IsZero() {
		t = f.q.State().Info.Created
	}
	if t.IsZero() {
		t = time.Unix(0, 0) // a document must say since when
	}
	return t.UTC()
}

// info returns the facts of queue-info.txt if the listing has it.
func (l *listing) info() *queuefs.Facts {
	if l.set != Replica || l.lo > 0 {
		return nil
	}
	_, facts := l.q.InfoFile()
	return &facts
}

// tag returns the entity tag of the listing at a version.
func (l *listing) tag(version queuefs.Seq, info *queuefs.Facts) string {
	t := fmt.Sprintf("l%d-%d", l.lo, version)
	if l.page {
		t += "p"
	}
	if len(l.archives) > 0 {
		t += "a"
	}
	if info != nil {
		t += fmt.Sprintf("-%x-%x", info.SHA256[:6], info.Modified.UnixMicro())
	}
	return t
}

// resource returns the listing as a document to serve.
func (l listing) resource() *resource {
	info := l.info()
	version, at, _ := l.latest()
	r := &resource{tag: l.tag(version, info), cache: cacheOpen}
	if info == nil && len(l.archives) == 0 {
		r.modified = at // queue-info.txt may get any time, the link comes without an event
	}
	r.compose = func(c coding) (*document, error) {
		return l.document(l.snapshot(), c), nil
	}
	return r
}

// document composes what a snapshot shows.
func (l *listing) document(s snapshot, c coding) *document {
	docs := l.names.docs[l.set]
	head := sitemap.Head{Capability: sitemap.ResourceList, At: s.at,
		Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}}
	if l.page {
		head.Links = append(head.Links, sitemap.Link{Rel: sitemap.RelIndex, Href: docs + docName{kind: resourceList}.String()})
	}
	head.Links = append(head.Links, l.archives...)
	d := &document{}
	top := l.p.Dialect.AppendHead(nil, sitemap.URLSet, head)
	info := l.info()
	if info != nil {
		r := l.renderer()
		top = r.info(top, info)
	} else if len(l.archives) == 0 {
		d.modified = s.at
	}
	if s.steady {
		d.tag = l.tag(s.version, info)
	}
	d.wrap(top, sitemap.AppendFoot(nil, sitemap.URLSet), s.members, c)
	return d
}

// wrap makes the document of head, members and foot.
func (d *document) wrap(head, foot []byte, members []*member, c coding) {
	p := d.packing(c)
	p.text(head)
	for _, m := range members {
		if m.raw > 0 {
			p.member(m)
		}
	}
	p.text(foot)
	p.end()
}
