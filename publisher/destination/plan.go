package destination

import (
	"context"
	"fmt"
	"hash/maphash"
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

func newPlan() *plan { return &plan{last: map[uint64]planned{}} }

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
	if p.changes > maxPlanned {
		p.batches = nil
		return
	}
	p.batches = append(p.batches, b)
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
	p := newPlan()
	since := c.cursor(s)
	if err := set.Changes(ctx, since, wait, func(b source.Batch) error { p.add(b); return nil }); err != nil {
		return 0, err
	}
	if err := c.byChangeDump(ctx, set, s, p, &since); err != nil {
		return 0, err
	}
	if p.changes <= maxPlanned {
		for _, b := range p.batches {
			if err := c.apply(ctx, s, b, p, n); err != nil {
				return n, err
			}
			n += len(b.Entries)
		}
	} else {
		err = set.Changes(ctx, since, 0, func(b source.Batch) error {
			err := c.apply(ctx, s, b, p, n)
			n += len(b.Entries)
			return err
		})
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
	if p.files < leastByDump || c.o.DryRun || len(c.o.Include)+len(c.o.Exclude) > 0 || set.Documents[sitemap.ChangeDump] == "" {
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
		if c.unpacked(s, e) {
			continue
		}
		err := c.unpack(ctx, s, e, sitemap.ChangeDumpManifest, p.wants)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case fatal(err):
			return err
		case err != nil:
			c.o.Tell(fmt.Sprintf("%s: %v; its files are asked for", e.Loc, err))
		}
		if err == nil {
			err = c.keepPackage(s, e)
		}
		if fatal(err) {
			return err
		}
	}
	return nil
}
