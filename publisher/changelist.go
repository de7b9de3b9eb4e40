package publisher

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"cutie/publisher/answer"
	"cutie/publisher/compose"
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/publisher/options"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/sitemap"
)

// openList returns changelist.xml.
func (s documents) openList() (*answer.Resource, error) {
	s.p.reading()
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	sp := store.Span{First: st.First, From: st.From, Until: s.p.oldUntil(st.Until), Length: st.Length}
	tag := openTag{uint64(st.First), micro(st.From), micro(sp.Until), st.Length, micro(st.Changed)}
	r := s.changeList(sp, tag.String())
	r.Modified = st.Changed // zero while it is empty: a period may end at any time
	r.Grown = func(earlier string) int64 { return s.grown(sp, tag, earlier) }
	return r, nil
}

// An openTag is the state of an open list in its entity tag. First event and from
// are its identity, which stays while it grows.
type openTag struct {
	First             uint64
	From, Until       int64 // microseconds; 0 for none
	Length, LastEntry int64 // bytes of the entries, and the time of the last one
}

const openTagFormat = "o%d-%d-%d-%d-%d"

func (t openTag) String() string {
	return fmt.Sprintf(openTagFormat, t.First, t.From, t.Until, t.Length, t.LastEntry)
}

func parseOpenTag(text string) (t openTag, ok bool) {
	_, err := fmt.Sscanf(text, openTagFormat, &t.First, &t.From, &t.Until, &t.Length, &t.LastEntry)
	return t, err == nil && t.String() == text
}

// micro returns the microseconds of a time, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// grown returns how many bytes an earlier state of the open list has in common
// with this one, -1 if it was another list. The last entry of the earlier state
// must still end where it did: an older copy of the home may have grown again with
// other events.
func (s documents) grown(sp store.Span, now openTag, earlier string) int64 {
	was, ok := parseOpenTag(earlier)
	if !ok || was.First != now.First || was.From != now.From || was.Until != now.Until || was.Length > now.Length {
		return -1
	}
	if was.Length > 0 {
		at, err := s.lastEntry(sp, was.Length)
		if err != nil || micro(at) != was.LastEntry {
			return -1
		}
	}
	return int64(len(s.listHead(sp))) + was.Length
}

// lastEntry returns the time of the entry that ends at a byte of the entries.
func (s documents) lastEntry(sp store.Span, end int64) (at time.Time, err error) {
	text, _, err := s.readList(sp, func(r io.ReaderAt) ([]byte, entries.Position, error) {
		return entries.Last(r, end, 2*entries.MaxEntry)
	})
	if err != nil {
		return at, err
	}
	for r := sitemap.NewLines(bytes.NewReader(text)); ; {
		e, err := r.Read()
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = e.Changed()
	}
}

// closedList returns a closed list, nil if there is none.
func (s documents) closedList(first queuefs.Seq) *answer.Resource {
	sp, ok := s.List(first)
	if !ok {
		return nil
	}
	r := s.changeList(sp, fmt.Sprintf("l%d-%s", sp.First, s.listDoc(&sp).Sum))
	r.Modified = sp.Until
	return r.AsFinal()
}

// listDoc returns the name of a closed list. The digest of the entries is not in it: they
// follow from the events and the form.
func (s documents) listDoc(sp *store.Span) names.Doc {
	return names.ClosedList.Of(uint64(sp.First)).As(answer.Salt(s.Stamp(), options.Form,
		sp.Last, micro(sp.From), micro(sp.Until), sp.Length, store.Unknown))
}

// listHead returns the beginning of a Change List, up to its entries.
func (s documents) listHead(sp store.Span) []byte {
	return s.Dialect.AppendHead(nil, sitemap.URLSet, sitemap.Head{Capability: sitemap.ChangeList, From: sp.From, Until: sp.Until,
		Links: s.Up(sitemap.Link{Rel: sitemap.RelIndex, Href: s.URI(names.ChangeIndex)})})
}

func (s documents) changeList(sp store.Span, tag string) *answer.Resource {
	r := &answer.Resource{Tag: tag}
	r.Compose = func(c compose.Coding) (*compose.Document, error) {
		d := &compose.Document{Tag: r.Tag, Modified: r.Modified}
		head, foot := s.listHead(sp), sitemap.AppendFoot(nil, sitemap.URLSet)
		if c != compose.Identity {
			return d, s.composePacked(d, sp, head, foot, c)
		}
		d.Text(head)
		err := addContent(d, func() (compose.Content, error) { return s.EntriesOf(sp.First, sp.Length) }, sp.Length)
		d.Text(foot)
		return d, err
	}
	return r
}

// composePacked composes the compressed form of a Change List: of a closed one
// from its file in gzip, otherwise of members.
func (s documents) composePacked(d *compose.Document, sp store.Span, head, foot []byte, c compose.Coding) error {
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
		p, err := s.Packed(sp)
		if err == nil {
			b.Packed(p, func() (compose.Content, error) { return s.OpenGzip(sp) })
			return p.Close()
		}
		if !store.Unusable(err) {
			return err
		}
	}
	file, err := s.EntriesOf(sp.First, sp.Length)
	if err != nil {
		return err
	}
	defer file.Close()
	members, err := s.Cache.Lines(s.Key(sp), sp.Length, file)
	b.Members(members)
	return err
}

// addContent adds a content to a document. It is opened now, and again when it is read:
// after an error nothing is answered.
func addContent(d *compose.Document, open compose.Opener, length int64) error {
	if length == 0 {
		return nil
	}
	file, err := open()
	if err != nil {
		return err
	}
	d.Content(open, 0, length)
	return file.Close()
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s documents) changeIndex() (*answer.Resource, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	from, until := st.From, s.p.oldUntil(st.Until)
	if len(st.Lists) > 0 {
		from = st.Lists[0].From
	}
	links := s.Up(s.archiveLink(names.ChangeIndex)...)
	tag := fmt.Sprintf("i%d-%d-%d-%d", st.First, len(st.Lists), len(links), until.UnixMicro())
	head := sitemap.Head{Capability: sitemap.ChangeList, From: from, Until: until, Links: links}
	return s.p.list(tag, sitemap.SitemapIndex, head, func(yield func(sitemap.Entry) bool) {
		for _, sp := range st.Lists {
			if !yield(sitemap.Entry{Loc: s.refer(s.listDoc(&sp)), From: sp.From, Until: sp.Until, Length: -1}) {
				return
			}
		}
		yield(sitemap.Entry{Loc: s.URI(names.OpenList), From: st.From, Until: until, Length: -1})
	}), nil
}
