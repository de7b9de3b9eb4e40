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
	st := standing{mark: c.mark, lists: f.indexed(c)}
	st.packages, st.next = f.dumped(c)
	return st, nil
}

// indexed returns the closed lists that the index names: those that follow
// each other without a gap up to the open one, and are no older than Current.
// f.mu is held.
func (f *feed) indexed(c *changes) []span {
	return f.recent(c.lists.current(c.mark.first, f.perDocument(c.set)-1))
}

// dumped returns the packages that the Change Dump names, and from when on
// there is none; f.mu is held.
func (f *feed) dumped(c *changes) ([]span, time.Time) {
	packages, next := c.dumps(f.perDocument(c.set))
	return f.recent(packages), next
}

// oldUntil returns t in version 0.9, where what is open has an until too.
func (f *feed) oldUntil(t time.Time) time.Time {
	if f.p.Dialect != sitemap.V09 {
		return time.Time{}
	}
	return t
}

// recent leaves out spans that ended longer ago than Current.
func (f *feed) recent(all []span) []span {
	if f.p.Current == 0 {
		return all
	}
	oldest := f.p.Now().Add(-f.p.Current)
	for len(all) > 0 && all[0].until.Before(oldest) {
		all = all[1:]
	}
	return all
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
	sp, kind := span{first: m.first, from: m.from, length: m.length}, "o"
	if sp.until = f.oldUntil(m.at); !sp.until.IsZero() {
		kind = fmt.Sprintf("o%d-", sp.until.UnixMicro())
	}
	r := f.changeList(s, sp, kind)
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
	r.compose = func(c coding) (*document, error) {
		d := &document{tag: r.tag, modified: r.modified}
		head := f.p.Dialect.AppendHead(nil, sitemap.URLSet, f.head(s, sp.from, sp.until))
		foot := sitemap.AppendFoot(nil, sitemap.URLSet)
		if c != identity {
			return d, f.packedList(d, s, sp, head, foot, c)
		}
		d.text(head)
		d.file(f, s, entriesFile(sp.first), 0, sp.length)
		d.text(foot)
		return d, nil
	}
	return r
}

// packedList composes the compressed form of a Change List: from the file of
// a closed one, else of members.
func (f *feed) packedList(d *document, s Set, sp span, head, foot []byte, c coding) error {
	if sp.length == 0 {
		d.wrap(head, foot, nil, c)
		return nil
	}
	if sp.last != 0 && c == gzipped {
		size, entries, err := f.compressed(s, sp)
		if err == nil {
			p := d.packing(c)
			p.text(head)
			p.gzipFile(f, s, gzipFile(sp.first), size, entries)
			p.text(foot)
			p.end()
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
	d.wrap(head, foot, members, c)
	return err
}

// compressed returns the size of the file with the entries of a closed list in
// gzip, and their check. The error is [fs.ErrNotExist] if there is none, or one
// of another form: earlier versions wrote several members.
func (f *feed) compressed(s Set, sp span) (size int64, c check, err error) {
	file, err := f.open(s, gzipFile(sp.first))
	if err != nil {
		return 0, c, err
	}
	defer file.Close()
	size, c, err = readEnd(file)
	if err == nil && c.size != uint32(sp.length) {
		err = fs.ErrNotExist
	}
	return size, c, err
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
	docs := f.names.docs[s]
	links := f.archiveLink(s, changeIndex, []sitemap.Link{{Rel: sitemap.RelUp, Href: docs + docName{kind: capabilityList}.String()}})
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.first, len(st.lists), len(links), f.oldUntil(st.at).UnixMicro())
	return fixedText(tag, func() []byte {
		dst := f.p.Dialect.AppendHead(nil, sitemap.SitemapIndex, sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: f.oldUntil(st.at), Links: links})
		for _, sp := range st.lists {
			dst = f.p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
				Loc: docs + docName{kind: closedList, n: uint64(sp.first)}.String(), From: sp.from, Until: sp.until, Length: -1})
		}
		dst = f.p.Dialect.AppendEntry(dst, sitemap.SitemapIndex, &sitemap.Entry{
			Loc: docs + docName{kind: openList}.String(), From: st.from, Until: f.oldUntil(st.at), Length: -1})
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
	links := f.archiveLink(s, changeDump, []sitemap.Link{{Rel: sitemap.RelUp, Href: f.names.docs[s] + docName{kind: capabilityList}.String()}})
	tag := fmt.Sprintf("d%d-%d-%d-%d", last, len(st.packages), st.next.UnixMicro(), len(links))
	return fixedText(tag, func() []byte {
		dst := f.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeDump, From: from, Until: f.oldUntil(st.next), Links: links})
		for i := range st.packages {
			dst = f.appendPackage(dst, s, &st.packages[i])
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
