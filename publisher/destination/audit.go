package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A Difference is one between the Source and the copy.
type Difference struct {
	URI  string `json:"uri"`
	File string `json:"file,omitempty"`
	What What   `json:"what"`
	Why  string `json:"why,omitempty"`
}

// What is the kind of a difference.
type What string

// The kinds of differences (Z39.99-2017, 5.2.3: coverage and accuracy).
const (
	IsMissing   What = "missing"
	IsDifferent What = "different"
	IsExtra     What = "extra"      // no list names it
	InTransit   What = "in transit" // a change not yet followed explains it
	IsUnsure    What = "unverified" // nothing shows it to be different, and no digest to be the same
)

// An AuditReport is the result of an audit.
type AuditReport struct {
	Source      string       `json:"source"`
	Resources   int64        `json:"resources"`
	Same        int64        `json:"same"`            // by all digests
	Alike       int64        `json:"alike,omitempty"` // by length and time, with Options.Quick
	Missing     int64        `json:"missing"`
	Different   int64        `json:"different"`
	Extra       int64        `json:"extra"`
	InTransit   int64        `json:"inTransit"`
	Unexplained int64        `json:"unexplained,omitempty"` // of these: asked for in vain, and no change says why
	Unverified  int64        `json:"unverified"`
	Skipped     int64        `json:"skipped,omitempty"`     // times that a set, a list or an entry could not be read
	Quick       bool         `json:"quick,omitempty"`       // no digest was asked of a file of the right length and time
	Differences []Difference `json:"differences,omitempty"` // the first ones
	Octets      int64        `json:"octets"`                // received
	Seconds     float64      `json:"seconds"`
}

// Clean reports whether the copy is true: nothing is missing, different or extra, changes
// explain all that is in transit, and all of the Source could be read.
func (r *AuditReport) Clean() bool {
	return r.Missing+r.Different+r.Extra+r.Unexplained+r.Skipped == 0
}

// maxDifferences is how many differences a report names.
const maxDifferences = 10_000

// Audit compares the copy with what its Source has now, which is its Resource Lists and all
// changes since: each file by its digests, or by its length and time if Options.Quick is set.
// It changes nothing. While another process follows the Source, what it changes meanwhile is
// in transit.
func (c *Copy) Audit(ctx context.Context) (*AuditReport, error) {
	began := time.Now()
	a := &audit{c: c, r: &AuditReport{Source: c.source.Base, Quick: c.o.Quick},
		seen: map[uint64]bool{}, differ: map[uint64]Difference{}, later: map[string]later{}}
	skipped := c.counts.Skipped.Load()
	c.newSkips()
	bad := 0
	for _, set := range c.sets {
		if err := a.set(ctx, set); err != nil {
			if bad++; bad == len(c.sets) || ctx.Err() != nil {
				return nil, fmt.Errorf("set %s: %w", set.Name, err)
			}
			c.skipSet(set, err)
		}
	}
	a.r.Skipped = c.counts.Skipped.Load() - skipped
	if c.whole() {
		if err := a.extras(ctx); err != nil {
			return nil, err
		}
	}
	a.report()
	_, a.r.Octets = c.client.Counts()
	a.r.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return a.r, nil
}

// An audit compares resources as their lists say first, and then those with a change since as
// that says: the last comparison counts. Files are known by the hash of their path.
type audit struct {
	c *Copy
	r *AuditReport

	mu     sync.Mutex
	seen   map[uint64]bool       // files of resources; false: of one deleted, or changed after the cursor
	differ map[uint64]Difference // of these
	later  map[string]later      // by URI, changes after the cursor
}

// later is why a resource may be another one in the copy.
type later struct {
	why  string
	vain bool // it was asked for, and no change explains why it is not there
}

// set compares the resources of a set.
func (a *audit) set(ctx context.Context, set *source.Set) error {
	s := a.c.of(set)
	if !s.Baseline {
		return fmt.Errorf("%w: no baseline was made", ErrNoCopy)
	}
	w := a.c.newWorkers(ctx, a.compare)
	at, err := set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error {
		w.give(&task{entry: *e})
		return nil
	})
	if err = errors.Join(err, w.wait()); err != nil {
		return err
	}
	last, err := a.changes(ctx, set, at)
	if err != nil {
		return err
	}
	w = a.c.newWorkers(ctx, a.compare)
	for _, e := range last {
		w.give(&task{entry: e})
	}
	return errors.Join(w.wait(), a.explain(ctx, set, s))
}

// changes returns the last change of each resource that changed since the Resource List.
func (a *audit) changes(ctx context.Context, set *source.Set, at time.Time) (map[string]sitemap.Entry, error) {
	last := map[string]sitemap.Entry{}
	if set.Documents[sitemap.ChangeList] == "" {
		return last, nil
	}
	at, err := listTime(ctx, set, at)
	if err != nil {
		return nil, err
	}
	err = set.Changes(ctx, source.Cursor{Time: at}, 0, func(b source.Batch) error {
		for _, e := range b.Entries {
			e.Links = nil
			last[e.Loc] = e
		}
		return nil
	})
	if errors.Is(err, source.ErrGap) {
		a.c.o.Tell(fmt.Sprintf("set %s: the changes since its Resource List are not all listed: %v", set.Name, err))
		err = nil
	}
	return last, err
}

// compare compares a file with its entry.
func (a *audit) compare(_ context.Context, t *task) error {
	e := &t.entry
	if !a.c.wanted(e.Loc) {
		return nil
	}
	d, gone := Difference{URI: e.Loc}, e.Change == sitemap.Deleted
	key, err := a.c.dir.Path(e.Loc)
	if d.File = key; err != nil {
		key, d.What, d.Why = e.Loc, IsMissing, err.Error()
	} else {
		want := e
		if gone {
			want = nil
		}
		m, _, err := a.c.dir.Compare(d.File, want, !a.c.o.Quick)
		switch {
		case gone && err == nil && m == local.Missing:
		case gone:
			d.What, d.Why = IsExtra, "deleted at the Source "+e.Changed().Format(time.RFC3339Nano)
		case err != nil:
			d.What, d.Why = IsDifferent, err.Error()
		case m == local.Missing:
			d.What = IsMissing
		case m == local.Different:
			d.What, d.Why = IsDifferent, "length or digest"
		case m == local.Unsure, !a.c.o.Quick && !local.NewSums(e).Proves():
			d.What, d.Why = IsUnsure, "the Source gives no digest"
		}
	}
	h := maphash.String(seed, key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[h] = !gone
	if delete(a.differ, h); d.What != "" {
		a.differ[h] = d
	}
	return nil
}

// explain looks for changes after the cursor of the copy: they explain differences, and the
// copy may have a file of their resources, or none.
func (a *audit) explain(ctx context.Context, set *source.Set, s *setState) error {
	why := later{why: "changed since " + s.Cursor.Time.Format(time.RFC3339Nano)}
	changed := map[string]bool{}
	if set.Documents[sitemap.ChangeList] != "" {
		err := set.Changes(ctx, s.Cursor, 0, func(b source.Batch) error {
			for _, e := range b.Entries {
				a.later[e.Loc], changed[e.Loc] = why, true
			}
			return nil
		})
		if err != nil && !errors.Is(err, source.ErrGap) {
			return err
		}
	}
	for _, t := range s.Transit {
		if a.later[t.Entry.Loc] = why; !changed[t.Entry.Loc] && a.c.dir.Alone() { // else the other process asks again
			a.later[t.Entry.Loc] = later{t.Why + ", and no change explains it", true}
		}
	}
	for _, h := range s.Held {
		for i := range h.Entries {
			a.later[h.Entries[i].Loc] = why
		}
	}
	for uri := range a.later {
		if file, err := a.c.dir.Path(uri); err == nil {
			if h := maphash.String(seed, file); !a.seen[h] {
				a.seen[h] = false // its place counts, too
			}
		}
	}
	return nil
}

// extras finds files without an entry in a list. Those that another process has made
// meanwhile are named by a change since then.
func (a *audit) extras(ctx context.Context) error {
	extra := map[uint64]Difference{}
	err := a.c.dir.Walk(".", func(file string) error {
		plain := plainPath(file)
		h := maphash.String(seed, plain)
		if _, ok := a.seen[h]; !ok {
			extra[h] = Difference{URI: a.c.dir.URI(plain), File: file, What: IsExtra}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(extra) > 0 && !a.c.dir.Alone() {
		for _, set := range a.c.sets {
			if err := a.explain(ctx, set, a.c.of(set)); err != nil {
				return err
			}
		}
	}
	for h, d := range extra {
		if _, ok := a.seen[h]; ok {
			continue
		}
		if a.r.Skipped > 0 {
			d.What, d.Why = IsUnsure, "no list that could be read names it"
		}
		a.differ[h] = d
	}
	return nil
}

// report counts what was found.
func (a *audit) report() {
	n := map[What]int64{}
	for h, d := range a.differ {
		if l, ok := a.later[d.URI]; ok && d.What != IsUnsure {
			if d.What, d.Why = InTransit, l.why; l.vain {
				a.r.Unexplained++
			}
		}
		if n[d.What]++; a.seen[h] {
			n[""]--
		}
		a.r.Differences = append(a.r.Differences, d)
	}
	for _, is := range a.seen {
		if is {
			a.r.Resources++
		}
	}
	if n[""] += a.r.Resources; a.r.Quick {
		a.r.Alike = n[""]
	} else {
		a.r.Same = n[""]
	}
	a.r.Missing, a.r.Different, a.r.Extra, a.r.InTransit, a.r.Unverified = n[IsMissing], n[IsDifferent], n[IsExtra], n[InTransit], n[IsUnsure]
	slices.SortFunc(a.r.Differences, func(a, b Difference) int { return strings.Compare(a.URI, b.URI) })
	a.r.Differences = a.r.Differences[:min(len(a.r.Differences), maxDifferences)]
}
