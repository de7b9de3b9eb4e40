package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"cutie/publisher/compose"
	"cutie/queuefs"
	"cutie/sitemap"
)

// standing is what is published of a set at one instant.
type standing struct {
	mark
	lists    []span    // closed lists in the index
	packages []span    // in the Change Dump
	next     time.Time // from when on there is no package
}

// standing brings the lists up to date and returns how they stand.
func (s *set) standing() (standing, error) {
	if err := s.catchUp(); err != nil {
		return standing{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := standing{mark: s.mark, lists: s.indexed()}
	st.packages, st.next = s.dumped()
	return st, nil
}

// indexed returns the closed lists in the index: they follow each other without
// a gap up to the open one, and are no older than Current. mu is held.
func (s *set) indexed() []span {
	return s.recent(s.lists.current(s.mark.first, s.perDocument()-1))
}

// dumped returns the packages in the Change Dump, and from when on there is
// none. mu is held.
func (s *set) dumped() ([]span, time.Time) {
	next := s.mark.from
	if lists := s.unpacked(); len(lists) > 0 {
		next = lists[0].from
	}
	packages := s.packages.current(s.made.packed+1, s.perDocument())
	if n := len(packages); n > 0 {
		next = packages[n-1].until
	}
	return s.recent(packages), next
}

// recent leaves out spans that ended longer ago than Current.
func (s *set) recent(all []span) []span {
	if s.p.Current == 0 {
		return all
	}
	oldest := s.p.Now().Add(-s.p.Current)
	for len(all) > 0 && all[0].until.Before(oldest) {
		all = all[1:]
	}
	return all
}

// openList returns changelist.xml. Its entity tag is that of first event and
// length; with the base URI they make the bytes.
func (s *set) openList() (*resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	m := st.mark
	sp, kind := span{first: m.first, from: m.from, length: m.length}, "o"
	if sp.until = s.p.oldUntil(m.at); !sp.until.IsZero() {
		kind = fmt.Sprintf("o%d-", sp.until.UnixMicro())
	}
	r := s.changeList(sp, kind)
	r.modified = m.last // zero while it is empty: a period may end at any time
	return r, nil
}

// closedList returns a list that never changes, nil if there is none.
func (s *set) closedList(first queuefs.Seq) *resource {
	s.mu.Lock()
	sp, ok := s.lists.find(first)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	r := s.changeList(sp, "l")
	r.modified = sp.until
	return r.final()
}

func (s *set) changeList(sp span, kind string) *resource {
	r := &resource{tag: fmt.Sprintf("%s%d-%d", kind, sp.first, sp.length), cache: cacheOpen}
	r.compose = func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: r.tag, Modified: r.modified}
		head := s.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: sp.from, Until: sp.until,
			Links: s.up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.uri(docName{kind: changeIndex})})})
		foot := sitemap.AppendFoot(nil, sitemap.URLSet)
		if c != compose.Identity {
			return d, s.composePacked(d, sp, head, foot, c)
		}
		d.Text(head)
		d.File(s.opener(entriesFile(sp.first)), 0, sp.length)
		d.Text(foot)
		return d, nil
	}
	return r
}

// composePacked composes the compressed form of a Change List: of a closed one
// from its file in gzip, otherwise of members.
func (s *set) composePacked(d *compose.Document, sp span, head, foot []byte, c compose.Coding) error {
	b := d.Build(c)
	b.Text(head)
	defer func() {
		b.Text(foot)
		b.End()
	}()
	if sp.length == 0 {
		return nil
	}
	if sp.last != 0 && c == compose.Gzip {
		size, check, err := s.compressed(sp)
		if err == nil {
			b.GzipFile(s.opener(gzipFile(sp.first)), size, check)
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	file, err := s.open(entriesFile(sp.first))
	if err != nil {
		return err
	}
	defer file.Close()
	members, err := s.p.cache.entries(memberKey{queue: s.q.ID(), set: s.kind, list: uint64(sp.first)}, sp.length, file)
	for _, m := range members {
		b.Member(m.Member)
	}
	return err
}

// compressed returns size and check of the file of a closed list in gzip. The
// error is [fs.ErrNotExist] if there is none, or one of a former version.
func (s *set) compressed(sp span) (size int64, c compose.Check, err error) {
	file, err := s.open(gzipFile(sp.first))
	if err != nil {
		return 0, c, err
	}
	defer file.Close()
	size, c, err = compose.ReadCheck(file)
	if err == nil && c.Len != uint32(sp.length) {
		err = fs.ErrNotExist
	}
	return size, c, err
}

// A member is a run of entries, or a part of a text.
type member struct {
	*compose.Member

	// Of an engine page, when it was read:
	entries int
	version queuefs.Seq // last event that touched it
	at      time.Time   // of that event
}

// A memberKey names the text of a member: an engine page, or the part of a
// Change List or of a copied text that begins at byte from.
type memberKey struct {
	queue string
	set   Set
	list  uint64 // first event of the Change List; 0 for a Resource List
	copy  string // entity tag of the copy; "" for a list
	from  int64
	end   int64 // 0 unless it is the last part and may grow
}

// A cache keeps members.
type cache struct {
	compose.Cache[memberKey, *member]
	turns chan struct{} // held while a document is read and compressed
}

// turn waits until few others compress, and returns what ends that.
func (c *cache) turn() (end func()) {
	c.turns <- struct{}{}
	return func() { <-c.turns }
}

// entries returns the first length bytes of the entries of a Change List. k is
// the key of its beginning; r is read where the cache lacks a member.
func (c *cache) entries(k memberKey, length int64, r io.ReaderAt) (all []*member, err error) {
	defer c.turn()()
	for k.from < length {
		m, ok := c.Get(k)
		if !ok || k.from+m.Len > length {
			if m, err = c.part(k, length, r); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
		k.from += m.Len
	}
	return all, nil
}

// part makes the member that begins at k.from: up to the end of the block, or
// of the entries.
func (c *cache) part(k memberKey, length int64, r io.ReaderAt) (*member, error) {
	tail := k
	tail.end = length
	if m, ok := c.Get(tail); ok {
		return m, nil
	}
	m, whole, err := press(k.from, length, r)
	if err != nil {
		return nil, err
	}
	if !whole {
		k = tail
	}
	c.Put(k, m)
	return m, nil
}

const (
	// blockSize is from where on a part of a Change List ends with its line. Parts
	// depend on the entries alone, so that they stay when a list grows.
	blockSize = 64 << 10

	// maxEntry is more than an entry can have: two references, each of a base
	// URI and a queue identifier, a media type, and the rest.
	maxEntry = 32 << 10
)

// press compresses the block that begins at from in entries of a length, or
// their rest; then whole is false.
func press(from, length int64, r io.ReaderAt) (m *member, whole bool, err error) {
	text := make([]byte, min(length-from, blockSize+maxEntry))
	if _, err := r.ReadAt(text, from); err != nil {
		return nil, false, err
	}
	if len(text) >= blockSize {
		if n := bytes.IndexByte(text[blockSize-1:], '\n'); n >= 0 {
			text, whole = text[:blockSize+n], true
		}
	}
	return &member{Member: compose.NewMember(text)}, whole, nil
}

// copyBlock is how much of a copy is compressed at a time.
const copyBlock = 1 << 20

// copies returns the text that open reads. It is opened unless the cache has
// all members: the last one is smaller than copyBlock. k is the key of the
// beginning.
func (c *cache) copies(k memberKey, open func() (io.ReadCloser, error)) (all []*member, err error) {
	defer c.turn()()
	for at := k; ; {
		m, ok := c.Get(at)
		if !ok {
			break
		}
		if all = append(all, m); m.Len < copyBlock {
			return all, nil
		}
		at.from += m.Len
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var block bytes.Buffer
	for all = nil; ; {
		block.Reset()
		n, err := io.CopyN(&block, r, copyBlock)
		if err != nil && err != io.EOF {
			return nil, err
		}
		m := &member{Member: compose.NewMember(block.Bytes())}
		c.Put(k, m)
		if all = append(all, m); n < copyBlock {
			return all, nil
		}
		k.from += n
	}
}
