package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// standing is what is published of a set at one instant.
type standing struct {
	mark
	lists    []span // closed lists that an index may name
	packages []span
	next     time.Time // from when on there is no package
}

// standing brings the lists up to date and returns how they stand.
func (f *feed) standing(s Set) (standing, error) {
	if err := f.catchUp(); err != nil {
		return standing{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.sets[s]
	st := standing{mark: c.mark, lists: c.lists.current(c.mark.first, sitemap.MaxEntries-1)}
	st.packages, st.next = c.dumps(sitemap.MaxEntries)
	return st, nil
}

// closed returns the closed list that begins with the event first.
func (f *feed) closed(s Set, first queuefs.Seq) (span, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets[s].lists.find(first)
}

// openList returns changelist.xml. The entity tag is that of first event and
// length: together with the base URI they make the octets.
func (f *feed) openList(s Set) (*resource, error) {
	st, err := f.standing(s)
	if err != nil {
		return nil, err
	}
	m := st.mark
	r := f.changeList(s, span{first: m.first, from: m.from, length: m.length}, "o")
	r.modified = m.last // none while it is empty: a period may end at any time
	return r, nil
}

// closedList returns a list that never changes.
func (f *feed) closedList(s Set, sp span) *resource {
	r := f.changeList(s, sp, "l")
	r.modified, r.cache = sp.until, cacheClosed
	return r
}

func (f *feed) changeList(s Set, sp span, kind string) *resource {
	r := &resource{tag: fmt.Sprintf("%s%d-%d", kind, sp.first, sp.length), cache: cacheOpen}
	r.compose = func(gz bool) (*document, error) {
		d := &document{tag: r.tag, modified: r.modified}
		head := sitemap.AppendHead(nil, sitemap.URLSet, f.head(s, sp.from, sp.until))
		foot := sitemap.AppendFoot(nil, sitemap.URLSet)
		if gz {
			return d, f.packedList(d, s, sp, head, foot)
		}
		d.text(head)
		d.file(f, s, entriesFile(sp.first), sp.length)
		d.text(foot)
		return d, nil
	}
	return r
}

// packedList composes the compressed form of a Change List: from the file of
// a closed one, else of members.
func (f *feed) packedList(d *document, s Set, sp span, head, foot []byte) error {
	if sp.length == 0 {
		d.wrap(head, foot, nil, true)
		return nil
	}
	if sp.last != 0 {
		size, err := f.size(s, gzipFile(sp.first))
		if err == nil {
			d.text(compress(nil, head))
			d.file(f, s, gzipFile(sp.first), size)
			d.text(compress(nil, foot))
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	file, err := f.open(s, entriesFile(sp.first))
	if err != nil {
		return err
	}
	defer file.Close()
	members, err := f.p.members(memberKey{queue: f.q.ID(), set: s, list: uint64(sp.first)}, sp.length, file)
	d.wrap(head, foot, members, true)
	return err
}

// size returns the size of a file of a set.
func (f *feed) size(s Set, name string) (int64, error) {
	d, err := f.dir(s, false)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	st, err := d.Stat(name)
	return st.Size, err
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first,
// and the open one.
func (f *feed) changeIndex(s Set) (*resource, error) {
	st, err := f.standing(s)
	if err != nil {
		return nil, err
	}
	from := st.from
	if len(st.lists) > 0 {
		from = st.lists[0].from
	}
	tag := fmt.Sprintf("i%d-%d", st.first, len(st.lists))
	return fixedText(tag, func() []byte {
		docs := f.names.docs[s]
		dst := sitemap.AppendHead(nil, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: from,
			Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}})
		for _, sp := range st.lists {
			dst = sitemap.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: docs + docName{closedList, uint64(sp.first)}.String(), From: sp.from, Until: sp.until, Length: -1})
		}
		dst = sitemap.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
			Loc: docs + docName{kind: openList}.String(), From: st.from, Length: -1})
		return sitemap.AppendFoot(dst, sitemap.SitemapIndex)
	}), nil
}

// changeDump returns changedump.xml: the packages in place, oldest first.
func (f *feed) changeDump(s Set) (*resource, error) {
	st, err := f.standing(s)
	if err != nil {
		return nil, err
	}
	from, last := st.next, queuefs.Seq(0)
	if n := len(st.packages); n > 0 {
		from, last = st.packages[0].from, st.packages[n-1].last
	}
	tag := fmt.Sprintf("d%d-%d-%d", last, len(st.packages), st.next.UnixMicro())
	return fixedText(tag, func() []byte {
		docs := f.names.docs[s]
		dst := sitemap.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDump, From: from,
			Links: []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}}})
		for _, sp := range st.packages {
			dst = sitemap.AppendEntry(dst, sitemap.URLSet, &sitemap.Entry{
				Loc: docs + docName{changePackage, uint64(sp.first)}.String(), From: sp.from, Until: sp.until,
				Length: sp.length, Type: packageType, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: sp.sha256}}})
		}
		return sitemap.AppendFoot(dst, sitemap.URLSet)
	}), nil
}

// dumps returns the packages that follow each other without a gap up to the
// present, and from when on there is none. The caller holds the lock.
func (c *changes) dumps(max int) ([]span, time.Time) {
	from := c.mark.from
	for i := len(c.lists.all) - 1; i >= 0 && c.lists.all[i].last > c.dumped; i-- {
		from = c.lists.all[i].from
	}
	packages := c.packages.current(c.dumped+1, max)
	if n := len(packages); n > 0 {
		from = packages[n-1].until
	}
	return packages, from
}
