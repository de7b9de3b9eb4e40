package publisher

import (
	"fmt"
	"io"
	"slices"
	"time"

	"cutie/publisher/entries"
	"cutie/publisher/store"
)

// An Excerpt is a part of the Change Lists: the entries of successive events.
type Excerpt struct {
	From    time.Time // of the event before, or of the creation of the queue
	Upto    entries.Position
	Entries []byte
	More    bool // there are later entries
}

// history returns the Change Lists without a gap between them, oldest first, the
// open one last.
func (s documents) history() ([]store.Span, error) {
	st, err := s.Standing()
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(st.Lists), st.Span()), nil
}

// excerpt is [View.Excerpt].
func (s documents) excerpt(after entries.Position, max int) (Excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return Excerpt{}, err
	}
	open := lists[len(lists)-1]
	if after.Seq > open.Last || after.At.Before(s.Since()) {
		after = entries.Position{At: lists[0].From}
	}
	if lists[0].First > after.Seq+1 {
		after.At = lists[0].From
	}
	for _, l := range lists {
		if l.Last <= after.Seq || l.Length == 0 {
			continue
		}
		x := Excerpt{From: after.At, Upto: entries.Position{Seq: l.Last, At: l.Until}, More: l.Last < open.Last}
		text, last, err := s.readList(l, func(r io.ReaderAt) ([]byte, entries.Position, error) {
			_, forwards := r.(*store.Packed)
			return entries.After(r, l.Length, forwards, after.Seq, max)
		})
		if err != nil {
			return Excerpt{}, err
		}
		if x.Entries = text; last.Seq != 0 {
			x.Upto, x.More = last, true
		}
		if len(text) > 0 {
			return x, nil
		}
	}
	return Excerpt{Upto: entries.Position{Seq: open.Last, At: after.At}}, nil
}

// newest is [View.Newest].
func (s documents) newest(max int) (Excerpt, error) {
	lists, err := s.history()
	if err != nil {
		return Excerpt{}, err
	}
	open := lists[len(lists)-1]
	l := open
	for i := len(lists) - 1; i >= 0 && l.Length == 0; i-- {
		if lists[i].Length > 0 {
			l = lists[i]
		}
	}
	x := Excerpt{From: l.From, Upto: entries.Position{Seq: open.Last, At: open.Until}}
	if l.Length == 0 {
		return x, nil
	}
	text, before, err := s.readList(l, func(r io.ReaderAt) ([]byte, entries.Position, error) { return entries.Last(r, l.Length, max) })
	if x.Entries = text; before.Seq != 0 {
		x.From = before.At
	}
	return x, err
}

// readList reads entries of a list.
func (s documents) readList(l store.Span, read func(io.ReaderAt) ([]byte, entries.Position, error)) ([]byte, entries.Position, error) {
	file, err := s.EntriesOf(l.First, l.Length)
	if err != nil {
		return nil, entries.Position{}, err
	}
	defer file.Close()
	text, at, err := read(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", file.Name(), err)
	}
	return text, at, err
}
