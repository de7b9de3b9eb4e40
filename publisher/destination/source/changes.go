package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cutie/sitemap"
)

// ErrGap says that the Source does not list all changes since a point: a follower has to
// begin anew.
var ErrGap = errors.New("the Source no longer lists all changes since then")

// Changes gives the changes after a cursor to visit, list by list. If the Source does not
// list all of them the error is [ErrGap]. With wait the Source may answer as soon as there
// is a change; without one visit is not called.
func (set *Set) Changes(ctx context.Context, since Cursor, wait time.Duration, visit func(Batch) error) error {
	reached, before := since.Time, time.Time{}
	r := newReading(since)
	for {
		err := set.changes(ctx, r, &since, &reached, wait, func(b Batch) error {
			err := visit(b)
			r.refused = err != nil
			return err
		})
		if !errors.Is(err, errClosed) {
			return err
		}
		if reached.Equal(before) { // no list leads up to the open one
			reached = longAfter
		}
		before, since.Open = reached, version{}
	}
}

var longAfter = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// errClosed says that the open list was closed, and another one begun, after an index had
// named it: the closed one is to be read before.
var errClosed = errors.New("the open Change List was closed meanwhile")

// changes is Changes, unless a list is closed meanwhile. It moves since behind the closed
// lists it has read, and reached to the time up to which they have all changes.
func (set *Set) changes(ctx context.Context, r *reading, since *Cursor, reached *time.Time, wait time.Duration, visit func(Batch) error) error {
	if since.Open.URI != "" {
		next := since.clone()
		d, err := set.source.openList(ctx, since.Open.URI, &next.Open, wait)
		switch {
		case err != nil && !IsGone(err):
			return err
		case err == nil && d == nil:
			return nil
		case err == nil && d.Root == sitemap.URLSet && !d.Head.From.After(since.Time) && !d.Head.From.IsZero() && d.Head.Until.IsZero():
			return r.read(d, since, next, visit)
		}
		since.Open = version{} // another list took its place
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
			r.open = 1
			return set.readOpen(ctx, r, uri, since, *reached, visit)
		}
		index := d.Link(sitemap.RelIndex)
		if index == "" {
			return fmt.Errorf("%w: %s begins with %s, and %s is wanted", ErrGap, uri, when(d.Head.From), when(since.Time))
		}
		if d, err = set.source.Document(ctx, index); err != nil {
			return err
		}
	}
	parts, err := set.parts(ctx, r, d, since)
	if err != nil {
		return err
	}
	r.open = 0
	for i := range parts {
		if growing(&parts[i]) {
			r.open++
		}
	}
	bad := 0
	for _, p := range parts {
		err := set.readPart(ctx, r, &p, since, reached, 1, visit)
		if err == nil {
			continue
		}
		whole := errors.Is(err, ErrGap) || errors.Is(err, errClosed) || r.refused
		// Where events are counted, those of a list that is passed over would be lost.
		if bad++; whole || since.Seq > 0 || bad == len(parts) || !set.source.skips(ctx, err) {
			return err
		}
		r.open = 2 // the next reading begins with the index, and asks again
	}
	return nil
}

func when(t time.Time) string {
	if t.IsZero() {
		return "the beginning"
	}
	return t.Format(time.RFC3339Nano)
}

// parts returns the lists of an index with changes after a cursor, oldest first.
func (set *Set) parts(ctx context.Context, r *reading, d *Document, since *Cursor) ([]sitemap.Entry, error) {
	var all []sitemap.Entry
	for e, err := range d.Entries() {
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
	return slices.DeleteFunc(all, func(e sitemap.Entry) bool { return !r.wants(&e, since) }), nil
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
	for e, err := range d.Entries() {
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
	for e, err := range d.Entries() {
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
func (set *Set) readPart(ctx context.Context, r *reading, p *sitemap.Entry, since *Cursor, reached *time.Time, depth int, visit func(Batch) error) error {
	if growing(p) {
		return set.readOpen(ctx, r, p.Loc, since, *reached, visit)
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
		r.open = 2 // the next reading begins with the indexes, too
		for e, err := range d.Entries() {
			if err == nil {
				err = set.readPart(ctx, r, &e, since, reached, depth+1, visit)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	r.list = keyOfList(p)
	err = r.read(d, since, since.clone(), func(b Batch) error {
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

// growing reports whether a list named by an index is one that may get more changes.
func growing(p *sitemap.Entry) bool { return p.Until.IsZero() && !p.From.IsZero() }

func (set *Set) readOpen(ctx context.Context, r *reading, uri string, since *Cursor, reached time.Time, visit func(Batch) error) error {
	next := since.clone()
	d, err := set.source.openList(ctx, uri, &next.Open, 0)
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
	if !d.Head.Until.IsZero() || r.open > 1 {
		next.Open = version{} // it never changes again, or is not the only one that does
	}
	return r.read(d, since, next, func(b Batch) error {
		if r.open > 1 {
			*since = b.Next.clone()
		}
		return visit(b)
	})
}

// maxBatch is how many changes are given at a time.
const maxBatch = 2000

// read gives the entries of a list after a cursor to visit.
func (r *reading) read(d *Document, since *Cursor, next Cursor, visit func(Batch) error) error {
	var entries []sitemap.Entry
	for e, err := range d.Entries() {
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
	entries, keys, err := r.unknown(d.URI, entries, since)
	if err != nil {
		return err
	}
	last, list := next.Open, r.list
	r.list = key{}
	switch {
	case d.skipped > 0:
		last, r.open = version{}, 2 // it is read again until all of it can be
	case list != key{} && since.Seq == 0:
		next.know(list)
		r.known[list] = true
	}
	// In parts, so that an end in between costs little. Until the last one the list
	// is read again from where it was.
	for next.Open = since.Open; len(entries) > maxBatch; {
		n := wholeEvents(entries, maxBatch)
		for i := range entries[:n] {
			next.pass(&entries[i], keys[i])
		}
		if err := visit(Batch{Entries: entries[:n], Next: next.clone(), Newest: newest, Partial: d.skipped > 0, keys: keys[:n]}); err != nil {
			return err
		}
		entries, keys = entries[n:], keys[n:]
	}
	for i := range entries {
		next.pass(&entries[i], keys[i])
	}
	next.Open = last
	return visit(Batch{Entries: entries, Next: next, Newest: newest, Partial: d.skipped > 0, keys: keys})
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
