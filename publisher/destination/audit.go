package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
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
	a := &audit{c: c, r: &AuditReport{Source: c.source.Base, Quick: c.o.Quick}, listed: map[uint64]int{}}
	skipped := c.counts.Skipped.Load()
	c.newSkips()
	bad := 0
	for i, set := range c.sets {
		a.n = i
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
	_, a.r.Octets = c.client.Counts()
	a.r.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return a.r, nil
}

type audit struct {
	c *Copy

	n int // number of the set

	mu     sync.Mutex
	r      *AuditReport
	listed map[uint64]int // hashes of the paths in lists, and the last set with each of them
}

// list notes that a list names a file.
func (a *audit) list(file string) { a.listed[maphash.String(seed, file)] = a.n }

// set compares the resources of a set: those of its Resource List, except the ones that
// changed since then, and these as their last change says.
func (a *audit) set(ctx context.Context, set *source.Set) error {
	s := a.c.of(set)
	if !s.Baseline {
		return fmt.Errorf("%w: no baseline was made", ErrNoCopy)
	}
	var at time.Time
	found, err := a.compareAll(func(compare func(*sitemap.Entry)) (err error) {
		at, err = set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error { compare(e); return nil })
		return err
	})
	if err != nil {
		return err
	}
	last, err := a.changes(ctx, set, at)
	if err != nil {
		return err
	}
	found = a.without(found, last)
	more, _ := a.compareAll(func(compare func(*sitemap.Entry)) error {
		for _, e := range last {
			compare(&e)
		}
		return nil
	})
	return a.explain(ctx, set, s, append(found, more...))
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

// without takes back the comparison of resources with their entries in the list that changes
// replace, and returns the other differences.
func (a *audit) without(found []Difference, last map[string]sitemap.Entry) []Difference {
	differ := map[string]bool{}
	found = slices.DeleteFunc(found, func(d Difference) bool {
		_, ok := last[d.URI]
		differ[d.URI] = ok
		return ok
	})
	for uri := range last {
		file, err := a.c.dir.Path(uri)
		if n, ok := a.listed[maphash.String(seed, file)]; err != nil || !ok || n != a.n {
			continue
		}
		a.r.Resources--
		switch {
		case differ[uri]:
		case a.r.Quick:
			a.r.Alike--
		default:
			a.r.Same--
		}
	}
	return found
}

// compareAll compares the files of the entries that each gives to compare.
func (a *audit) compareAll(each func(compare func(*sitemap.Entry)) error) (found []Difference, err error) {
	todo := make(chan sitemap.Entry, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for e := range todo {
				if d := a.compare(&e); d != nil {
					a.mu.Lock()
					found = append(found, *d)
					a.mu.Unlock()
				}
			}
		})
	}
	err = each(func(e *sitemap.Entry) {
		if a.c.wanted(e.Loc) {
			todo <- *e
		}
	})
	close(todo)
	wg.Wait()
	return found, err
}

// compare compares a file with its entry; nil if they are the same.
func (a *audit) compare(e *sitemap.Entry) *Difference {
	file, err := a.c.dir.Path(e.Loc)
	if err != nil {
		return &Difference{URI: e.Loc, What: IsMissing, Why: err.Error()}
	}
	want := factsOf(e)
	gone := e.Change == sitemap.Deleted
	if gone {
		want = local.Facts{Length: -1}
	}
	m, _, err := a.c.dir.Compare(file, &want, !a.c.o.Quick)
	a.mu.Lock()
	a.list(file)
	if !gone {
		a.r.Resources++
	}
	a.mu.Unlock()
	switch {
	case gone && err == nil && m == local.Missing:
		return nil
	case gone:
		return &Difference{URI: e.Loc, File: file, What: IsExtra, Why: "deleted at the Source " + e.Changed().Format(time.RFC3339Nano)}
	}
	switch {
	case err != nil:
		return &Difference{URI: e.Loc, File: file, What: IsDifferent, Why: err.Error()}
	case m == local.Missing:
		return &Difference{URI: e.Loc, File: file, What: IsMissing}
	case m == local.Different:
		return &Difference{URI: e.Loc, File: file, What: IsDifferent, Why: "length or digest"}
	case m == local.Unsure, !a.c.o.Quick && !want.Prove():
		return &Difference{URI: e.Loc, File: file, What: IsUnsure, Why: "the Source gives no digest"}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.c.o.Quick {
		a.r.Alike++
	} else {
		a.r.Same++
	}
	return nil
}

// explain looks for differences explained by changes after the cursor of the copy.
func (a *audit) explain(ctx context.Context, set *source.Set, s *setState, found []Difference) error {
	later := map[string]bool{} // by resource: it is deleted at the end
	if set.Documents[sitemap.ChangeList] != "" {
		err := set.Changes(ctx, s.Cursor, 0, func(b source.Batch) error {
			for _, e := range b.Entries {
				later[e.Loc] = e.Change == sitemap.Deleted
			}
			return nil
		})
		if err != nil && !errors.Is(err, source.ErrGap) {
			return err
		}
	}
	vain := map[string]string{} // why resources could not be had
	for _, t := range s.Transit {
		if _, explained := later[t.Entry.Loc]; !explained && a.c.dir.Alone() { // else the other process asks again
			vain[t.Entry.Loc] = t.Why
		}
		later[t.Entry.Loc] = false
	}
	for _, h := range s.Held {
		for i := range h.Entries {
			later[h.Entries[i].Loc] = true
		}
	}
	for uri := range later {
		if file, err := a.c.dir.Path(uri); err == nil {
			a.list(file) // the copy may have it, or not
		}
	}
	for _, d := range found {
		if _, ok := later[d.URI]; ok && d.What != IsUnsure {
			d.What, d.Why = InTransit, "changed since "+s.Cursor.Time.Format(time.RFC3339Nano)
			if why, unexplained := vain[d.URI]; unexplained {
				d.Why = why + ", and no change explains it"
				a.r.Unexplained++
			}
		}
		a.add(d)
	}
	return nil
}

func (a *audit) add(d Difference) {
	switch d.What {
	case IsMissing:
		a.r.Missing++
	case IsDifferent:
		a.r.Different++
	case IsExtra:
		a.r.Extra++
	case InTransit:
		a.r.InTransit++
	case IsUnsure:
		a.r.Unverified++
	}
	if len(a.r.Differences) < maxDifferences {
		a.r.Differences = append(a.r.Differences, d)
	}
}

// extras finds files without an entry in a list. Those that another process has made
// meanwhile are named by a change since then.
func (a *audit) extras(ctx context.Context) error {
	var extra []string
	err := a.c.dir.Walk(".", func(file string) error {
		plain := plainPath(file)
		if _, ok := a.listed[maphash.String(seed, plain)]; !ok {
			extra = append(extra, file)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(extra) > 0 && !a.c.dir.Alone() {
		for _, set := range a.c.sets {
			if err := a.explain(ctx, set, a.c.of(set), nil); err != nil {
				return err
			}
		}
	}
	for _, file := range extra {
		plain := plainPath(file)
		if _, ok := a.listed[maphash.String(seed, plain)]; !ok {
			d := Difference{URI: a.c.dir.URI(plain), File: file, What: IsExtra}
			if a.r.Skipped > 0 {
				d.What, d.Why = IsUnsure, "no list that could be read names it"
			}
			a.add(d)
		}
	}
	return nil
}
