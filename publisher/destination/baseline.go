package destination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// baseline copies all resources of a set (Z39.99-2017, 5.2).
func (c *Copy) baseline(ctx context.Context, set *source.Set, s *setState) (By, error) {
	by := c.o.By
	if by == ByBest {
		by = ByList
		if set.Documents[sitemap.ResourceList] == "" && set.Documents[sitemap.ResourceDump] != "" {
			by = ByDump
		} else if set.Documents[sitemap.ResourceDump] != "" {
			empty, err := c.dir.Empty()
			if err != nil {
				return by, err
			}
			if empty && len(c.o.Include)+len(c.o.Exclude) == 0 || len(s.Packages) > 0 {
				by = ByDump
			}
		}
	}
	by, err := c.baselineBy(ctx, set, s, by)
	// A package is gone once another one has taken its place, and at another daemon of the
	// same Source behind one name. One that is there may be broken.
	if by == ByDump && c.o.By == ByBest && err != nil && ctx.Err() == nil && !fatal(err) && !source.Passes(err) && set.Documents[sitemap.ResourceList] != "" {
		if !errors.Is(err, errNoPackages) && !source.IsGone(err) {
			c.o.Tell(fmt.Sprintf("set %s: the Resource List is used, for a package cannot be: %v", set.Name, err))
		}
		c.mu.Lock()
		s.Packages = nil
		c.mu.Unlock()
		return c.baselineBy(ctx, set, s, ByList)
	}
	return by, err
}

func (c *Copy) baselineBy(ctx context.Context, set *source.Set, s *setState, by By) (By, error) {
	var at time.Time
	var err error
	c.pass++
	skipped := c.counts.Skipped.Load()
	if len(s.Packages) == 0 {
		c.mu.Lock()
		s.Transit, s.Held = nil, nil // the lists name them again
		c.mu.Unlock()
	}
	switch by {
	case ByDump:
		at, err = c.byDump(ctx, set, s)
	case ByList:
		c.source.Listed = c.estimate()
		w := c.newWorkers(ctx, s, nil)
		at, err = set.Resources(w.ctx, func(e *sitemap.Entry, at time.Time) error {
			if err := c.began(s, at); err != nil {
				return err
			}
			if !w.addListed(e) {
				return context.Cause(w.ctx)
			}
			return nil
		})
		if e := w.wait(); err == nil || e != nil {
			err = e
		}
	default:
		err = fmt.Errorf("baseline by %q: list, or dump", by)
	}
	if err == nil {
		at, err = listTime(ctx, set, at)
	}
	if err != nil {
		return by, err
	}
	c.mu.Lock()
	if !s.Began.IsZero() && s.Began.Before(at) {
		at = s.Began
	}
	s.Cursor = source.Cursor{Time: at}
	s.Baseline, s.Packages, s.Began = true, nil, time.Time{}
	s.Partial = c.counts.Skipped.Load() > skipped
	c.mu.Unlock()
	if err := c.beginHistory(ctx, set, s); err != nil {
		return by, err
	}
	return by, c.save()
}

// allLists is more Change Lists than a set has.
const allLists = 1 << 20

// listTime returns the time at which a list of resources is true, or where it gives none, that
// of the first change listed: to apply changes from before a list again does no harm.
func listTime(ctx context.Context, set *source.Set, at time.Time) (time.Time, error) {
	if !at.IsZero() || set.Documents[sitemap.ChangeList] == "" {
		return at, nil
	}
	return set.Reach(ctx, allLists)
}

// estimate adds the octets of the lists of a set to the total, as they become known.
func (c *Copy) estimate() func(octets int64, n, of int) {
	before, sum := c.counts.Total.Load(), int64(0)
	return func(octets int64, n, of int) {
		sum += octets
		c.counts.Total.Store(before + sum/int64(n)*int64(of))
	}
}

// anew begins a set anew. The changes since the former cursor are applied after the
// baseline: they tell deletions.
func (s *setState) anew() {
	began := s.Began
	if s.Baseline {
		began = s.Cursor.Time
	}
	*s = setState{URI: s.URI, Began: began, Synced: s.Synced}
}

// began notes the time of the first lists of a baseline, before it makes a file. If
// the baseline is cut off and made of later lists, the changes between them are applied,
// too: files made before may have been deleted since.
func (c *Copy) began(s *setState, at time.Time) error {
	c.mu.Lock()
	known := c.o.DryRun || s.Baseline || at.IsZero() || !s.Began.IsZero()
	if !known {
		s.Began = at
	}
	c.mu.Unlock()
	if known {
		return nil
	}
	text, err := c.stateText()
	if err != nil {
		return err
	}
	return c.dir.WriteState(stateFile, text)
}
