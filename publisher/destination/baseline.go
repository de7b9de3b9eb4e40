package destination

import (
	"context"
	"errors"
	"fmt"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// baseline copies all resources of a set (Z39.99-2017, 5.2).
func (c *Copy) baseline(ctx context.Context, set *source.Set, s *setState) (By, error) {
	by := c.o.By
	if by == ByBest {
		by = ByList
		if set.Documents[sitemap.ResourceDump] != "" {
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
	if by == ByDump && errors.Is(err, errNoPackages) && c.o.By == ByBest {
		return c.baselineBy(ctx, set, s, ByList)
	}
	return by, err
}

func (c *Copy) baselineBy(ctx context.Context, set *source.Set, s *setState, by By) (By, error) {
	at := s.Cursor
	var err error
	switch by {
	case ByDump:
		at.Time, err = c.byDump(ctx, set, s)
	case ByList:
		w := c.newWorkers(ctx, s, nil)
		at.Time, err = set.Resources(w.ctx, func(e *sitemap.Entry) error {
			c.counts.Listed.Add(1)
			c.counts.Expected.Add(max(e.Length, 0))
			if file, err := c.dir.Path(e.Loc); err == nil {
				c.list(file)
			}
			if !w.add(*e) {
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
	if err != nil {
		return by, err
	}
	s.Cursor = source.Cursor{Time: at.Time}
	s.Baseline, s.Packages = true, nil
	return by, c.save()
}
