package source

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"cutie/sitemap"
)

// A Cursor is how far the changes of a set are known. The zero Cursor is before all of them.
//
// Where a Source counts its events, their number is all there is to know. Elsewhere the time
// of a change does not suffice: many changes have the same second or day, and lists get
// entries late or out of order. So a cursor also knows the last changes themselves, and lists
// are read again from somewhat before it.
type Cursor struct {
	Time  time.Time `json:"time"`           // of the newest change known
	Seq   uint64    `json:"seq,omitempty"`  // number of the last event known, where a Source counts them
	Known known     `json:"known,omitzero"` // the last changes, where it does not
	Open  version   `json:"open,omitzero"`  // the list with the newest changes
}

// known are changes and closed lists that were read.
type known struct {
	From time.Time `json:"from,omitzero"` // all that were read and end after it are here
	Keys []byte    `json:"keys,omitempty"`
}

// Limits of what is known: beyond the first, the older half is forgotten.
const (
	maxKnown = 100_000
	keyBytes = 8
)

// A key identifies a change by all that its entry says of it, or a closed list.
type key [keyBytes]byte

// keyOf is the key of the entry of a change, the n-th one of a list that says the same.
func keyOf(e *sitemap.Entry, n int) (k key) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d %d\n%v\n%d %d", e.Loc, e.Change, e.Changed().UnixMicro(), e.LastMod.UnixMicro(), e.Hashes, e.Length, n))
	copy(k[:], sum[:])
	return k
}

// keyOfList is the key of a closed list named by an index.
func keyOfList(p *sitemap.Entry) (k key) {
	sum := sha256.Sum256(fmt.Appendf(nil, "list\n%s\n%d", p.Loc, p.Until.UnixMicro()))
	copy(k[:], sum[:])
	return k
}

// set returns the keys.
func (c *Cursor) set() map[key]bool {
	all := make(map[key]bool, len(c.Known.Keys)/keyBytes)
	for some := range slices.Chunk(c.Known.Keys[:len(c.Known.Keys)/keyBytes*keyBytes], keyBytes) {
		all[key(some)] = true
	}
	return all
}

// know adds a key.
func (c *Cursor) know(k key) {
	if c.Known.From.IsZero() {
		c.Known.From = c.Time
	}
	if len(c.Known.Keys) >= maxKnown*keyBytes {
		c.Known.Keys = slices.Clone(c.Known.Keys[maxKnown/2*keyBytes:])
		c.Known.From = ends(c.Time)
	}
	c.Known.Keys = append(c.Known.Keys, k[:]...)
}

// Forget forgets the changes themselves: their resources have other URIs now.
func (c *Cursor) Forget() {
	if len(c.Known.Keys) > 0 {
		c.Known = known{From: ends(c.Time)}
	}
}

// since returns the time from which on what is not known was not read.
func (c *Cursor) since() time.Time {
	if c.Known.From.IsZero() {
		return c.Time
	}
	return c.Known.From
}

// pass moves the cursor behind a change.
func (c *Cursor) pass(e *sitemap.Entry, k key) {
	if e.Seq > 0 {
		c.Seq = e.Seq
	} else {
		c.know(k)
	}
	if t := e.Changed(); t.After(c.Time) {
		c.Time = t
	}
}

func (c *Cursor) clone() Cursor {
	next := *c
	next.Known.Keys = slices.Clone(c.Known.Keys)
	return next
}

// ends returns the end of what a time may stand for: a whole day, a second, or a microsecond.
func ends(t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Add(24 * time.Hour)
	case t.Nanosecond() == 0:
		return t.Add(time.Second)
	}
	return t.Add(time.Microsecond)
}

// A LateError says that a list got a change with an older time than others that were read
// before: more may be missing, and whole lists are to be compared. It is an [ErrGap].
type LateError struct {
	List, URI string
	Time      time.Time // the oldest one of such changes
	Known     time.Time
}

func (e *LateError) Error() string {
	return fmt.Sprintf("%s: the change of %s at %s was listed late: changes up to %s were known", e.List, e.URI, when(e.Time), when(e.Known))
}

// Unwrap returns [ErrGap].
func (e *LateError) Unwrap() error { return ErrGap }

// A Batch is changes of one Change List after a cursor, oldest first, and the cursor after
// them.
type Batch struct {
	Entries []sitemap.Entry
	Next    Cursor
	Newest  uint64 // number of the last event in the list, where a Source counts them
	Partial bool   // entries of the list were passed over: they may be later changes of these resources

	keys []key
}

// Part returns the cursor after the first n changes, from the one before the batch. In a
// list not in the order of time it may be the one before.
func (b *Batch) Part(since Cursor, n int) Cursor {
	if len(b.keys) < n {
		return since
	}
	next := since.clone()
	for i := range b.Entries[:n] {
		next.pass(&b.Entries[i], b.keys[i])
	}
	for i := range b.Entries[n:] {
		e := &b.Entries[n+i]
		if t := e.Changed(); e.Seq > 0 && e.Seq <= next.Seq || e.Seq == 0 && !t.IsZero() && t.Before(next.Time) {
			return since
		}
	}
	return next
}

// A reading finds in lists what a cursor does not know.
type reading struct {
	from  Cursor       // where it began
	known map[key]bool // then, and what was read since
	open  int          // lists of an index that may still grow
	list  key          // of the closed one that is read

	refused bool // a visit returned an error
}

func newReading(from Cursor) *reading { return &reading{from: from, known: from.set()} }

// unknown returns the changes of a list, oldest first, that are not known, with their keys.
// Events that a Source counts are known up to a cursor. part says that the list was read
// before, up to these entries.
func (r *reading) unknown(uri string, entries []sitemap.Entry, since *Cursor) (some []sitemap.Entry, keys []key, err error) {
	if newestFirst(entries) {
		slices.Reverse(entries)
	}
	all := make([]key, len(entries))
	alike := map[key]int{}
	last := map[string]int{} // the last known change of a resource
	for i := range entries {
		e := &entries[i]
		if e.Seq > 0 {
			continue
		}
		first := keyOf(e, 0)
		n := alike[first]
		if all[i] = first; n > 0 {
			all[i] = keyOf(e, n)
		}
		if alike[first] = n + 1; r.known[all[i]] {
			last[e.Loc] = i
		}
	}
	moved := slices.ContainsFunc(entries, func(e sitemap.Entry) bool { return e.Seq == 0 && e.Changed().After(r.from.Time) })
	var late *LateError
	for i := range entries {
		e := &entries[i]
		// One that gives no digest may stand for another change of the same day or second,
		// made after it was read.
		again := moved && e.Seq == 0 && len(e.Hashes) == 0 && e.Change != sitemap.Deleted && e.Changed().Equal(r.from.Time)
		if !again && !r.after(e, all[i], since) {
			n, replaced := last[e.Loc]
			if t := e.Changed(); e.Seq > 0 || r.known[all[i]] || !ends(t).After(r.from.since()) || replaced && n > i {
				continue
			} else if late == nil || t.Before(late.Time) {
				late = &LateError{List: uri, URI: e.Loc, Time: t, Known: r.from.Time}
			}
			continue
		}
		some, keys = append(some, *e), append(keys, all[i])
	}
	if late != nil {
		return nil, nil, late
	}
	for _, k := range keys {
		r.known[k] = true
	}
	return some, keys, nil
}

// after reports whether a change comes after where the reading began.
func (r *reading) after(e *sitemap.Entry, k key, since *Cursor) bool {
	t := e.Changed()
	switch {
	case e.Seq > 0 && since.Seq > 0:
		return e.Seq > since.Seq
	case e.Seq > 0:
		return !t.Before(since.Time)
	case r.known[k]:
		return false
	}
	return t.IsZero() || ends(t).After(r.from.Time)
}

// wants reports whether a list named by an index may have changes that are not known.
func (r *reading) wants(p *sitemap.Entry, since *Cursor) bool {
	end := p.Until
	if end.IsZero() && p.From.IsZero() {
		end = p.LastMod // version 0.9
	}
	if end.IsZero() || !end.Before(since.Time) {
		return true
	}
	return since.Seq == 0 && ends(end).After(r.from.since()) && !r.known[keyOfList(p)]
}

// newestFirst reports whether the times of a list go down from entry to entry, and never up.
func newestFirst(entries []sitemap.Entry) bool {
	down := false
	for i := range entries[min(1, len(entries)):] {
		a, b := entries[i].Changed(), entries[i+1].Changed()
		if entries[i].Seq > 0 || b.After(a) {
			return false
		}
		down = down || b.Before(a)
	}
	return down
}
