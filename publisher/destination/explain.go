package destination

import (
	"context"
	"fmt"

	"cutie/publisher/destination/source"
)

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
	p := newPlan()
	p.add(later)
	err = c.apply(ctx, s, later, p, 0)
	c.mu.Lock()
	s.Cursor = since // also after an error
	c.mu.Unlock()
	return err
}
