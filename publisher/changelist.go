package publisher

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// openList returns changelist.xml.
func (s documents) openList() (*resource, error) {
	s.p.reading()
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	sp := set.Span{First: st.First, From: st.From, Until: s.p.oldUntil(st.Until), Length: st.Length}
	r := s.changeList(sp, fmt.Sprintf("o%d-%d-%d-%d-%d", st.First, micro(st.From), micro(sp.Until), st.Length, micro(st.Changed)))
	r.Modified = st.Changed // zero while it is empty: a period may end at any time
	return r, nil
}

// micro returns the microseconds of a time, 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// closedList returns a closed list, nil if there is none.
func (s documents) closedList(first job.Seq) *resource {
	sp, ok := s.List(first)
	if !ok {
		return nil
	}
	r := s.changeList(sp, fmt.Sprintf("l%d-%s", sp.First, s.listDoc(&sp).Sum))
	r.Modified = sp.Until
	return r.asFinal()
}

// listDoc returns the name of a closed list. The digest of the entries is not in it: they
// follow from the events and the form.
func (s documents) listDoc(sp *set.Span) names.Doc {
	return names.ClosedList.Of(uint64(sp.First)).As(names.Salt(s.Stamp(), names.Form,
		sp.Last, micro(sp.From), micro(sp.Until), sp.Length, set.Unknown))
}

func (s documents) changeList(sp set.Span, tag string) *resource {
	r := &resource{Tag: tag}
	r.Open = func() (*document, error) {
		d := r.document()
		d.Text(s.ListHead(&sp))
		err := addContent(d, func() (set.Content, error) { return s.EntriesOf(sp.First, sp.Length) }, sp.Length)
		d.Text(sitemap.AppendFoot(nil, sitemap.URLSet))
		return d, err
	}
	if sp.Packed > 0 {
		r.Gzip = func() (*document, error) {
			d := r.document()
			return d, addContent(d, func() (set.Content, error) { return s.OpenPiece(sp.List()) }, sp.Packed)
		}
	}
	return r
}

// addContent adds a content to a document. It is opened now, and again when it is read:
// after an error nothing is answered.
func addContent(d *document, open set.Opener, length int64) error {
	if length == 0 {
		return nil
	}
	file, err := open()
	if err != nil {
		return err
	}
	d.Content(open, length)
	return file.Close()
}

// changeIndex returns changelist-index.xml: the closed lists, oldest first, and
// the open one.
func (s documents) changeIndex() (*resource, error) {
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

// An excerpt is a part of the Change Lists: the entries of successive events.
type excerpt struct {
	From    time.Time // of the event before, or of the creation of the queue
	Upto    names.Position
	Entries []byte
	More    bool // there are later entries
}

// history returns the Change Lists without a gap between them, oldest first, the
// open one last.
func (s documents) history() ([]set.Span, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(st.Lists), st.Span()), nil
}

// excerpt returns the entries after a position, at most max bytes of them. It
// begins with the oldest if the lists do not reach back so far, or if the queue
// does not have the position: it is of a former queue of the name, or of a newer
// copy of the home.
//
// Events without entries move the position and not its time: the From of the next
// excerpt is the time of the position of this one.
func (s documents) excerpt(after names.Position, max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	if after.Seq > open.Last || after.At.Before(s.Since()) {
		after = names.Position{At: lists[0].From}
	}
	if lists[0].First > after.Seq+1 {
		after.At = lists[0].From
	}
	for _, l := range lists {
		if l.Last <= after.Seq || l.Length == 0 {
			continue
		}
		x := excerpt{From: after.At, Upto: names.Position{Seq: l.Last, At: l.Until}, More: l.Last < open.Last}
		text, last, err := s.readList(l, func(r io.ReaderAt) ([]byte, names.Position, error) {
			_, plain := r.(*os.File)
			return names.After(r, l.Length, !plain, after.Seq, max)
		})
		if err != nil {
			return excerpt{}, err
		}
		if x.Entries = text; last.Seq != 0 {
			x.Upto, x.More = last, true
		}
		if len(text) > 0 {
			return x, nil
		}
	}
	return excerpt{Upto: names.Position{Seq: open.Last, At: after.At}}, nil
}

// newest returns the last entries, at most max bytes of them.
func (s documents) newest(max int) (excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return excerpt{}, err
	}
	open := lists[len(lists)-1]
	l := open
	for i := len(lists) - 1; i >= 0 && l.Length == 0; i-- {
		if lists[i].Length > 0 {
			l = lists[i]
		}
	}
	x := excerpt{From: l.From, Upto: names.Position{Seq: open.Last, At: open.Until}}
	if l.Length == 0 {
		return x, nil
	}
	text, before, err := s.readList(l, func(r io.ReaderAt) ([]byte, names.Position, error) { return names.Last(r, l.Length, max) })
	if x.Entries = text; before.Seq != 0 {
		x.From = before.At
	}
	return x, err
}

// readList reads entries of a list.
func (s documents) readList(l set.Span, read func(io.ReaderAt) ([]byte, names.Position, error)) ([]byte, names.Position, error) {
	file, err := s.EntriesOf(l.First, l.Length)
	if err != nil {
		return nil, names.Position{}, err
	}
	defer file.Close()
	text, at, err := read(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", file.Name(), err)
	}
	return text, at, err
}
