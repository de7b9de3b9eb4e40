package destination

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A plan knows the last change of each resource before any resource is asked for: none
// is fetched only to be replaced or deleted by a later list.
type plan struct {
	last    map[uint64]planned // by hash of the URI
	batches []source.Batch     // all changes, unless they are too many
	changes int
	files   int   // resources to have afterwards
	octets  int64 // of these, as far as lengths are given
}

// planned is the last change of a resource.
type planned struct {
	n       int // its number among all changes
	version uint64
	length  int64 // 0: deleted, or not given
	deleted bool
}

// maxPlanned is how many changes stay in memory. The lists of more of them are read a second
// time.
const maxPlanned = 50_000

// add notes the changes of a batch.
func (p *plan) add(b source.Batch) {
	for i := range b.Entries {
		e := &b.Entries[i]
		key := maphash.String(seed, e.Loc)
		if old, ok := p.last[key]; ok && !old.deleted {
			p.files--
			p.octets -= old.length
		}
		now := planned{n: p.changes, deleted: e.Change == sitemap.Deleted}
		if !now.deleted {
			now.version, now.length = versionOf(e), max(e.Length, 0)
			p.files++
			p.octets += now.length
		}
		p.last[key] = now
		p.changes++
	}
	if p.batches = append(p.batches, b); p.changes > maxPlanned {
		p.batches = nil
	}
}

// final reports whether change n, of a resource, is the last one.
func (p *plan) final(n int, uri string) bool {
	last, ok := p.last[maphash.String(seed, uri)]
	return !ok || last.n <= n
}

// wants reports whether the file of an entry is the one to have after all changes.
func (p *plan) wants(e *sitemap.Entry) bool {
	last, ok := p.last[maphash.String(seed, e.Loc)]
	return ok && !last.deleted && last.version == versionOf(e)
}

// versionOf identifies the contents described by an entry: by a digest, or else the time.
func versionOf(e *sitemap.Entry) uint64 {
	if len(e.Hashes) == 0 {
		return maphash.Comparable(seed, e.LastMod.UnixNano())
	}
	h := e.Hashes[0]
	for _, other := range e.Hashes[1:] {
		if other.Alg == "sha-256" {
			h = other
		}
	}
	return maphash.Comparable(seed, h)
}

// follow applies the changes after the cursor of a set, and returns their number. With
// wait the Source may answer as soon as there is one.
func (c *Copy) follow(ctx context.Context, set *source.Set, s *setState, wait time.Duration) (n int, err error) {
	p := &plan{last: map[uint64]planned{}}
	since := c.cursor(s)
	if err := set.Changes(ctx, since, wait, func(b source.Batch) error { p.add(b); return nil }); err != nil {
		return 0, err
	}
	if err := c.byChangeDump(ctx, set, s, p, &since); err != nil {
		return 0, err
	}
	apply := func(b source.Batch) error {
		err := c.apply(ctx, s, b, p, n)
		n += len(b.Entries)
		return err
	}
	if p.changes > maxPlanned {
		err = set.Changes(ctx, since, 0, apply)
	}
	for i := 0; i < len(p.batches) && err == nil; i++ {
		err = apply(p.batches[i])
	}
	c.mu.Lock()
	if err == nil && s.Baseline {
		s.Packages = nil
	}
	c.mu.Unlock()
	return n, err
}

// Change Dumps are looked at for this many files, and a request counts as these octets.
const (
	leastByDump = 100
	perRequest  = 4 << 10
)

// byChangeDump makes files of a plan from the packages of the Change Dump (Z39.99-2017, 13),
// if they have fewer octets than the answers to single requests. The lists say afterwards
// what is right, so packages may have more, less, or former files.
func (c *Copy) byChangeDump(ctx context.Context, set *source.Set, s *setState, p *plan, since *source.Cursor) error {
	if p.files < leastByDump || c.o.DryRun || c.filtered() || set.Documents[sitemap.ChangeDump] == "" {
		return nil
	}
	packages, err := set.ChangePackages(ctx, since)
	if err != nil {
		c.o.Tell(fmt.Sprintf("Change Dump: %v", err))
		return ctx.Err()
	}
	cost := int64(len(packages)) * perRequest
	for i := range packages {
		if packages[i].Length < 0 {
			return nil // nobody knows
		}
		cost += packages[i].Length
	}
	if cost >= p.octets+int64(p.files)*perRequest {
		return nil
	}
	for i := range packages {
		e := &packages[i]
		if s.unpacked(e) {
			continue
		}
		err := c.unpack(ctx, s, e, sitemap.ChangeDumpManifest, p.wants)
		if ctx.Err() != nil || fatal(err) {
			return err
		}
		if err != nil {
			c.o.Tell(fmt.Sprintf("%s: %v; its files are asked for", e.Loc, err))
		}
	}
	return nil
}

// apply applies a batch of changes, the first of them with a number in the plan: of each
// resource the last one. Deletions wait until all else in it is there.
func (c *Copy) apply(ctx context.Context, s *setState, b source.Batch, p *plan, first int) error {
	last := make(map[string]int, len(b.Entries))
	for i := range b.Entries {
		last[b.Entries[i].Loc] = i
	}
	changed := func(uri string) bool { _, ok := last[uri]; return ok }
	c.mu.Lock()
	s.Transit = slices.DeleteFunc(s.Transit, func(t transit) bool { return changed(t.Entry.Loc) })
	for i := range s.Held {
		h := &s.Held[i]
		h.Entries = slices.DeleteFunc(h.Entries, func(e sitemap.Entry) bool { return changed(e.Loc) })
	}
	before := len(s.Transit)
	c.mu.Unlock()
	made := make([]bool, len(b.Entries))
	var deletions held
	w := c.makers(ctx, s, nil)
	for i := range b.Entries {
		e := &b.Entries[i]
		// The plan does not know changes of lists that are read a second time.
		if made[i] = last[e.Loc] != i || !p.final(first+i, e.Loc); made[i] {
			continue
		}
		if e.Change != sitemap.Deleted {
			if !w.add(e, &made[i]) {
				break
			}
			continue
		}
		if b.Partial && !c.o.DryRun {
			gone, err := c.gone(w.ctx, e.Loc)
			if err != nil {
				w.cancel(err)
				break
			}
			if made[i] = !gone; !gone {
				continue
			}
		}
		deletions.Entries = append(deletions.Entries, *e)
	}
	err := w.wait()
	if err == nil {
		c.mu.Lock()
		for _, t := range s.Transit[before:] {
			deletions.After = append(deletions.After, t.Entry.Loc)
		}
		if len(deletions.Entries) > 0 {
			s.Held = append(s.Held, deletions)
		}
		c.mu.Unlock()
		err = c.release(ctx, s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		s.Cursor = b.Next
	} else if n := slices.Index(made, false); n > 0 {
		s.Cursor = b.Part(s.Cursor, n) // the files of these are there
	}
	c.remember(s, b.Entries, min(s.Cursor.Seq, b.Next.Seq))
	return err
}

// gone reports whether the Source says that it has a resource no more. Its deletion stands in a
// list of which an entry was skipped, and this may be its return.
func (c *Copy) gone(ctx context.Context, uri string) (bool, error) {
	err := c.client.Get(ctx, source.Request{URI: uri}, func(*source.Answer) error { return nil })
	if source.IsGone(err) {
		return true, nil
	}
	if ctx.Err() != nil || source.Passes(err) {
		return false, err
	}
	c.o.Tell(fmt.Sprintf("%s is not removed: its Source still answers, and a change that could not be read may be its return", uri))
	return false, nil
}

// release makes held deletions that wait for nothing any more.
func (c *Copy) release(ctx context.Context, s *setState) error {
	c.mu.Lock()
	waiting := map[string]bool{}
	for _, t := range s.Transit {
		waiting[t.Entry.Loc] = true
	}
	var due, stay []held
	for _, h := range s.Held {
		if slices.ContainsFunc(h.After, func(uri string) bool { return waiting[uri] }) {
			stay = append(stay, h)
		} else {
			due = append(due, h)
		}
	}
	c.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	w := c.makers(ctx, s, nil)
	for _, h := range due {
		for i := range h.Entries {
			w.add(&h.Entries[i], nil)
		}
	}
	if err := w.wait(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Held = stay
	return nil
}

// retry asks again for resources in transit. Until all were asked for they stay in the
// state, which may be written at any time.
func (c *Copy) retry(ctx context.Context, s *setState) error {
	c.mu.Lock()
	waiting := slices.Clip(s.Transit)
	c.mu.Unlock()
	w := c.makers(ctx, s, nil)
	for i := range waiting {
		w.add(&waiting[i].Entry, nil)
	}
	err := w.wait()
	c.mu.Lock()
	if err != nil {
		s.Transit = waiting
	} else {
		s.Transit = s.Transit[len(waiting):]
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.release(ctx, s)
}

// Explain makes those changes after the cursor that explain resources in transit, and no
// others: changes of resources with the kin of one in transit. So it ends under any load.
// The cursor stays, and the next Sync makes all changes after it. It returns the resources
// still in transit; more changes may explain these.
func (c *Copy) Explain(ctx context.Context, kin func(uri string) string) (left []string, err error) {
	for _, set := range c.sets {
		s := c.of(set)
		if len(s.Transit) == 0 {
			continue
		}
		if err := c.explain(ctx, set, s, kin); err != nil {
			return nil, fmt.Errorf("set %s: %w", set.Name, err)
		}
		for _, t := range s.Transit {
			left = append(left, t.Entry.Loc+": "+t.Why)
		}
	}
	return left, c.save()
}

func (c *Copy) explain(ctx context.Context, set *source.Set, s *setState, kin func(uri string) string) error {
	wanted := map[string]bool{}
	for _, t := range s.Transit {
		wanted[kin(t.Entry.Loc)] = true
	}
	since := c.cursor(s)
	later := source.Batch{Next: since}
	err := set.Changes(ctx, since, 0, func(b source.Batch) error {
		for i := range b.Entries {
			if wanted[kin(b.Entries[i].Loc)] {
				later.Entries = append(later.Entries, b.Entries[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(later.Entries) == 0 {
		return c.retry(ctx, s)
	}
	err = c.apply(ctx, s, later, &plan{}, 0)
	c.mu.Lock()
	s.Cursor = since // also after an error
	c.mu.Unlock()
	return err
}
