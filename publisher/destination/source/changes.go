package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cutie/sitemap"
)

// ErrGap says that the Source does not list all changes since a point: a follower has to
// begin anew.
var ErrGap = errors.New("the Source no longer lists all changes since then")

// A Cursor is a point in the changes of a set. The zero Cursor is before all of them.
type Cursor struct {
	Time time.Time `json:"time"`           // all changes before it are known
	Seq  uint64    `json:"seq,omitempty"`  // number of the last event known, where a Source counts them
	Seen []string  `json:"seen,omitempty"` // resources with a known change at Time itself
	Open tail      `json:"open,omitzero"`  // the list with the newest changes
}

// after reports whether a change comes after the cursor.
func (c *Cursor) after(e *sitemap.Entry) bool {
	if e.Seq > 0 && c.Seq > 0 {
		return e.Seq > c.Seq
	}
	switch t := e.Changed(); {
	case t.IsZero(), t.After(c.Time):
		return true
	case t.Before(c.Time):
		return false
	}
	return !slices.Contains(c.Seen, e.Loc)
}

// maxSeen bounds the resources of one instant; with more of them some changes are applied
// twice, which does no harm.
const maxSeen = 1000

// pass moves the cursor behind a change.
func (c *Cursor) pass(e *sitemap.Entry) {
	if e.Seq > 0 {
		c.Seq = e.Seq
	}
	switch t := e.Changed(); {
	case t.After(c.Time):
		c.Time, c.Seen = t, []string{e.Loc}
	case t.Equal(c.Time) && !t.IsZero() && len(c.Seen) < maxSeen:
		c.Seen = append(c.Seen, e.Loc)
	}
}

// A Batch is changes of one Change List after a cursor, oldest first, and the cursor after
// them.
type Batch struct {
	Entries []sitemap.Entry
	Next    Cursor
	Newest  uint64 // number of the last event in the list, where a Source counts them
}

// Part returns the cursor after the first n changes, from the one before the batch. In a
// list not in the order of time it may be the one before.
func (b *Batch) Part(since Cursor, n int) Cursor {
	next := since.clone()
	for i := range b.Entries[:n] {
		next.pass(&b.Entries[i])
	}
	for i := range b.Entries[n:] {
		if !next.after(&b.Entries[n+i]) {
			return since
		}
	}
	return next
}

// Changes gives the changes after a cursor to visit, list by list. If the Source does not
// list all of them the error is [ErrGap]. With wait the Source may answer as soon as there
// is a change; without one visit is not called.
func (set *Set) Changes(ctx context.Context, since Cursor, wait time.Duration, visit func(Batch) error) error {
	reached, before := since.Time, time.Time{}
	for {
		err := set.changes(ctx, &since, &reached, wait, visit)
		if !errors.Is(err, errClosed) {
			return err
		}
		if reached.Equal(before) { // no list leads up to the open one
			reached = longAfter
		}
		before, since.Open = reached, tail{}
	}
}

var longAfter = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// errClosed says that the open list was closed, and another one begun, after an index had
// named it: the closed one is to be read before.
var errClosed = errors.New("the open Change List was closed meanwhile")

// changes is Changes, unless a list is closed meanwhile. It moves since behind the closed
// lists it has read, and reached to the time up to which they have all changes.
func (set *Set) changes(ctx context.Context, since *Cursor, reached *time.Time, wait time.Duration, visit func(Batch) error) error {
	if since.Open.URI != "" {
		next := since.clone()
		d, part, err := set.source.openTail(ctx, since.Open.URI, &next.Open, wait)
		switch {
		case err != nil && !isGone(err):
			return err
		case err == nil && d == nil:
			return nil
		case err == nil && (part || !d.Head.From.After(since.Time) && !d.Head.From.IsZero() && d.Head.Until.IsZero()):
			return read(d, since, next, visit)
		}
		since.Open = tail{} // another list took its place
	}
	uri := set.Documents[sitemap.ChangeList]
	if uri == "" {
		return fmt.Errorf("set %s has no Change List", set.Name)
	}
	d, err := set.source.Document(ctx, uri)
	if err != nil {
		return err
	}
	if err := d.kind(sitemap.ChangeList); err != nil {
		return err
	}
	if d.Root == sitemap.URLSet {
		if !d.Head.From.After(since.Time) {
			return set.readOpen(ctx, uri, since, *reached, visit)
		}
		index := d.Link(sitemap.RelIndex)
		if index == "" {
			return fmt.Errorf("%w: %s begins with %s, and %s is wanted", ErrGap, uri, when(d.Head.From), when(since.Time))
		}
		if d, err = set.source.Document(ctx, index); err != nil {
			return err
		}
	}
	parts, err := set.parts(ctx, d, since)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := set.readPart(ctx, &p, since, reached, 1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cursor) clone() Cursor {
	next := *c
	next.Seen = slices.Clone(c.Seen)
	return next
}

func when(t time.Time) string {
	if t.IsZero() {
		return "the beginning"
	}
	return t.Format(time.RFC3339Nano)
}

// parts returns the lists of an index with changes after a cursor, oldest first.
func (set *Set) parts(ctx context.Context, d *Document, since *Cursor) ([]sitemap.Entry, error) {
	var all []sitemap.Entry
	for {
		e, err := d.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(all) == maxDocuments {
			return nil, fmt.Errorf("%s: more than %d lists", d.URI, maxDocuments)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, nil
	}
	first := all[0].From
	if first.IsZero() {
		first = d.Head.From
	}
	if first.After(since.Time) {
		older, err := set.archived(ctx, first, since)
		if err != nil {
			return nil, err
		}
		all = append(older, all...)
	}
	return slices.DeleteFunc(all, func(e sitemap.Entry) bool {
		end := e.Until
		if end.IsZero() && e.From.IsZero() {
			end = e.LastMod // version 0.9
		}
		return !end.IsZero() && end.Before(since.Time)
	}), nil
}

// Reach returns the time after which the open Change List and up to so many closed ones
// before it have all changes.
func (set *Set) Reach(ctx context.Context, closed int) (from time.Time, err error) {
	d, err := set.source.Document(ctx, set.Documents[sitemap.ChangeList])
	if err != nil {
		return from, err
	}
	from = d.Head.From
	if index := d.Link(sitemap.RelIndex); d.Root == sitemap.URLSet && index != "" {
		if d, err = set.source.Document(ctx, index); err != nil {
			return from, err
		}
	}
	if d.Root == sitemap.URLSet {
		return from, nil
	}
	var all []sitemap.Entry
	for {
		e, err := d.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return from, err
		}
		all = append(all, e)
		all = all[max(0, len(all)-closed-1):]
	}
	if len(all) > 0 {
		from = all[0].From
	}
	return from, nil
}

// archived returns lists of the archive that reach from the cursor up to a time, without a
// gap. The archive has lists from before a gap, too.
func (set *Set) archived(ctx context.Context, before time.Time, since *Cursor) (all []sitemap.Entry, err error) {
	gap := fmt.Errorf("%w: the first one begins with %s, and %s is wanted", ErrGap, when(before), when(since.Time))
	uri := set.Documents[sitemap.ChangeListArchive]
	if uri == "" {
		return nil, gap
	}
	d, err := set.source.Document(ctx, uri)
	if err != nil {
		return nil, errors.Join(gap, err)
	}
	for {
		e, err := d.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if e.From.Before(before) && len(all) < maxDocuments {
			all = append(all, e)
		}
	}
	whole := len(all)
	for next := before; whole > 0; whole-- {
		e := &all[whole-1]
		if !e.Until.IsZero() && e.Until.Before(next) {
			break
		}
		next = e.From
	}
	all = all[whole:]
	if len(all) == 0 || all[0].From.After(since.Time) {
		return nil, gap
	}
	return all, nil
}

// readPart reads a list named by an index, in so many others.
func (set *Set) readPart(ctx context.Context, p *sitemap.Entry, since *Cursor, reached *time.Time, depth int, visit func(Batch) error) error {
	if p.Until.IsZero() && !p.From.IsZero() {
		return set.readOpen(ctx, p.Loc, since, *reached, visit)
	}
	d, err := set.source.Document(ctx, p.Loc)
	if err != nil {
		return err
	}
	if err := d.kind(sitemap.ChangeList); err != nil {
		return err
	}
	if d.Root == sitemap.SitemapIndex {
		if depth == maxNesting {
			return fmt.Errorf("%s: an index in more than %d others", d.URI, maxNesting)
		}
		for {
			e, err := d.Read()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = set.readPart(ctx, &e, since, reached, depth+1, visit)
			}
			if err != nil {
				return err
			}
		}
	}
	err = read(d, since, since.clone(), func(b Batch) error {
		*since = b.Next.clone()
		return visit(b)
	})
	if until := p.Until; err == nil {
		if until.IsZero() {
			until = d.Head.Until
		}
		if until.After(*reached) {
			*reached = until
		}
		if since.Time.After(*reached) {
			*reached = since.Time
		}
	}
	return err
}

func (set *Set) readOpen(ctx context.Context, uri string, since *Cursor, reached time.Time, visit func(Batch) error) error {
	next := since.clone()
	d, _, err := set.source.openTail(ctx, uri, &next.Open, 0)
	if err != nil || d == nil {
		return err
	}
	if err := d.kind(sitemap.ChangeList); err != nil {
		return err
	}
	if d.Root == sitemap.SitemapIndex {
		return fmt.Errorf("%s: an index in place of the open list", uri)
	}
	if d.Head.From.After(reached) {
		return errClosed
	}
	if !d.Head.Until.IsZero() {
		next.Open = tail{} // it never changes again
	}
	return read(d, since, next, visit)
}

// maxBatch is how many changes are given at a time.
const maxBatch = 2000

// read gives the entries of a list after a cursor to visit.
func read(d *Document, since *Cursor, next Cursor, visit func(Batch) error) error {
	var entries []sitemap.Entry
	for {
		e, err := d.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if d.Dialect == sitemap.Jan2013 {
		slices.Reverse(entries)
	}
	for i := range entries {
		if e := &entries[i]; e.Seq > 0 && e.Seq <= since.Seq && e.Changed().After(since.Time) {
			return fmt.Errorf("%w: event %d of %s comes after event %d of %s", ErrGap, e.Seq, when(e.Changed()), since.Seq, when(since.Time))
		}
	}
	newest := uint64(0)
	if n := len(entries); n > 0 {
		newest = entries[n-1].Seq
	}
	entries = slices.DeleteFunc(entries, func(e sitemap.Entry) bool { return !since.after(&e) })
	// In parts, so that an end in between costs little. Until the last one the list
	// is read again from where it was.
	last := next.Open
	for next.Open = since.Open; len(entries) > maxBatch; {
		n := wholeEvents(entries, maxBatch)
		for i := range entries[:n] {
			next.pass(&entries[i])
		}
		if err := visit(Batch{Entries: entries[:n], Next: next.clone(), Newest: newest}); err != nil {
			return err
		}
		entries = entries[n:]
	}
	for i := range entries {
		next.pass(&entries[i])
	}
	next.Open = last
	return visit(Batch{Entries: entries, Next: next, Newest: newest})
}

// wholeEvents returns how many of the first n changes to give, n at most unless one event has
// more: a cursor within an event would pass over the rest of it.
func wholeEvents(entries []sitemap.Entry, n int) int {
	same := func(i int) bool { return entries[i].Seq > 0 && entries[i].Seq == entries[i-1].Seq }
	whole := n
	for whole > 0 && same(whole) {
		whole--
	}
	if whole > 0 {
		return whole
	}
	for n < len(entries) && same(n) {
		n++
	}
	return n
}
