package publisher

import (
	"fmt"
	"io/fs"
	"os"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/sitemap"
)

// standing is a set at one instant, as it is published.
type standing struct {
	store.OpenList
	lists    []store.Span // closed lists in the index
	packages []store.Span // in the Change Dump
	next     time.Time    // from when on there is no package
}

// standing brings the lists up to date and returns how they stand.
func (s *set) standing() (standing, error) {
	if err := s.catchUp(); err != nil {
		return standing{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := standing{OpenList: s.at, lists: s.indexed()}
	st.packages, st.next = s.dumped()
	return st, nil
}

// indexed returns the closed lists in the index: they follow each other without
// a gap up to the open one, and are no older than Current. mu is held.
func (s *set) indexed() []store.Span {
	return s.recent(s.Lists.Current(s.at.First, s.perDocument()-1))
}

// dumped returns the packages in the Change Dump, and from when on there is
// none. mu is held.
func (s *set) dumped() ([]store.Span, time.Time) {
	next := s.at.From
	if lists := s.unpacked(); len(lists) > 0 {
		next = lists[0].From
	}
	packages := s.Packages.Current(s.made.packed+1, s.perDocument())
	if n := len(packages); n > 0 {
		next = packages[n-1].Until
	}
	return s.recent(packages), next
}

// recent leaves out spans with an end longer ago than Current.
func (s *set) recent(all []store.Span) []store.Span {
	if s.p.Current == 0 {
		return all
	}
	oldest := s.p.Now().Add(-s.p.Current)
	for len(all) > 0 && all[0].Until.Before(oldest) {
		all = all[1:]
	}
	return all
}

// openList returns changelist.xml. First event and length make its entity tag; with
// the base URI they make the bytes.
func (s *set) openList() (*answer.Resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	sp, kind := store.Span{First: st.First, From: st.From, Length: st.Length}, "o"
	if sp.Until = s.p.oldUntil(st.Until); !sp.Until.IsZero() {
		kind = fmt.Sprintf("o%d-", sp.Until.UnixMicro())
	}
	r := s.changeList(sp, kind)
	r.Modified = st.Changed // zero while it is empty: a period may end at any time
	return r, nil
}

// closedList returns a closed list, nil if there is none.
func (s *set) closedList(first queuefs.Seq) *answer.Resource {
	s.mu.Lock()
	sp, ok := s.Lists.Find(first)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	r := s.changeList(sp, "l")
	r.Modified = sp.Until
	return r.AsFinal()
}

func (s *set) changeList(sp store.Span, kind string) *answer.Resource {
	r := &answer.Resource{Tag: fmt.Sprintf("%s%d-%d", kind, sp.First, sp.Length)}
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: r.Tag, Modified: r.Modified}
		head := s.p.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: sp.From, Until: sp.Until,
			Links: s.up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.uri(names.ChangeIndex)})})
		foot := sitemap.AppendFoot(nil, sitemap.URLSet)
		if c != compose.Identity {
			return d, s.composePacked(d, sp, head, foot, c)
		}
		d.Text(head)
		err := addFile(d, func() (*os.File, error) { return s.entriesOf(sp.First, sp.Length) }, sp.Length)
		d.Text(foot)
		return d, err
	}
	return r
}

// composePacked composes the compressed form of a Change List: of a closed one
// from its file in gzip, otherwise of members.
func (s *set) composePacked(d *compose.Document, sp store.Span, head, foot []byte, c compose.Coding) error {
	b := d.Build(c)
	b.Text(head)
	defer func() {
		b.Text(foot)
		b.End()
	}()
	if sp.Length == 0 {
		return nil
	}
	if sp.Last != 0 && c == compose.Gzip {
		size, check, err := s.compressed(sp)
		if err == nil {
			b.GzipFile(func() (*os.File, error) { return s.openGzip(sp) }, size, check)
			return nil
		}
		if !store.Unusable(err) {
			return err
		}
	}
	file, err := s.entriesOf(sp.First, sp.Length)
	if err != nil {
		return err
	}
	defer file.Close()
	members, err := s.p.cache.Lines(s.key(sp), sp.Length, file)
	b.Members(members)
	return err
}

// key returns the key of the beginning of a Change List.
func (s *set) key(sp store.Span) compose.Key { return compose.Key{Of: s.path, N: uint64(sp.First)} }

// addFile adds a file to a document. It is opened now, and again when it is read: after
// an error nothing is answered.
func addFile(d *compose.Document, open compose.Opener, length int64) error {
	if length == 0 {
		return nil
	}
	file, err := open()
	if err != nil {
		return err
	}
	d.File(open, 0, length)
	return file.Close()
}

// compressed returns size and check of the file of a closed list in gzip. The
// error is [fs.ErrNotExist] if there is none, or one of a former version.
func (s *set) compressed(sp store.Span) (size int64, c compose.Check, err error) {
	file, err := s.openFile(names.GzipFile(sp.First))
	if err != nil {
		return 0, c, err
	}
	defer file.Close()
	size, c, err = compose.ReadCheck(file)
	if err == nil && c.Len != uint32(sp.Length) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = s.p.store.VerifyGzip(file, sp)
	}
	if err != nil && store.Unusable(err) && !store.Absent(err) {
		s.mu.Lock()
		s.note(names.GzipFile(sp.First), err)
		s.mu.Unlock()
	}
	return size, c, err
}
