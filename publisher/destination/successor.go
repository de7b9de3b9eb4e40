package destination

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A mirror that took over publishes the resources of its original under URIs of its own,
// with links to the former ones, and its changes go on behind those of the original. So a
// copy of the original follows it from where it is; only the base URI is another.

// succeed returns [ErrOther] unless the Source is the successor of the one in a state. A set
// that the copy does not have may be new at the successor, and proves nothing.
func (c *Copy) succeed(ctx context.Context, old *state) error {
	base, proved := old.Base, false
	for _, set := range c.sets {
		if old.Sets[set.Name] == nil {
			continue
		}
		yes, known, err := set.Succeeds(ctx, base)
		switch {
		case err != nil:
			return err
		case known && !yes:
			return fmt.Errorf("%w: %s, and set %s does not say that it comes from there", ErrOther, base, set.Name)
		}
		proved = proved || yes
	}
	if !proved {
		return fmt.Errorf("%w: %s", ErrOther, base)
	}
	return nil
}

// A Source may move to another host or scheme: the URL that the operator gave leads to
// documents there, by redirects or because they name it, with the same paths.

// relocate gives the Source its base URI at such a place, and reports whether it has one. As
// long as the documents stay where they were, so does the base URI.
func (c *Copy) relocate(old *state) bool {
	from := source.OriginOf(old.Base)
	pathOf := func(uri string) string { return strings.TrimPrefix(uri, source.OriginOf(uri)) }
	switch {
	case c.o.URL != old.URL || old.Site == "" || pathOf(c.source.Base) != pathOf(old.Base):
		return false
	case c.source.Site == old.Site:
		c.source.Base = old.Base
		return false
	case old.Site != from:
		return false // its documents were never where its resources are
	}
	base := c.source.Site + pathOf(old.Base)
	for _, set := range old.Sets {
		path, below := strings.CutPrefix(set.URI, old.Base)
		if set.URI == "" && len(c.source.Lists) > 0 || below && slices.Contains(c.source.Sets, base+path) {
			c.source.Base = base
			return true
		}
	}
	return false
}

// followed reports whether the resources moved with the documents.
func (c *Copy) followed(ctx context.Context) (bool, error) {
	for _, set := range c.sets {
		if set.Documents[sitemap.ResourceList] == "" {
			continue
		}
		e, err := set.First(ctx)
		if err != nil {
			return false, err
		}
		if e != nil {
			return strings.HasPrefix(e.Loc, c.source.Base), nil
		}
	}
	return true, nil
}

// moveTo gives all URIs below the base URI another one.
func (s *state) moveTo(base string) {
	move := func(uri string) string {
		if rest, ok := strings.CutPrefix(uri, s.Base); ok {
			return base + rest
		}
		return uri
	}
	entries := func(some []sitemap.Entry) {
		for i := range some {
			some[i].Loc = move(some[i].Loc)
		}
	}
	for _, set := range s.Sets {
		set.URI = move(set.URI)
		if set.History != nil {
			set.History.Bases = append(set.History.Bases, base)
		}
		set.Cursor.Open, set.Packages = source.Cursor{}.Open, nil
		set.Cursor.Forget()
		for i := range set.Transit {
			set.Transit[i].Entry.Loc = move(set.Transit[i].Entry.Loc)
		}
		for i := range set.Held {
			for k, uri := range set.Held[i].After {
				set.Held[i].After[k] = move(uri)
			}
			entries(set.Held[i].Entries)
		}
	}
	for i, uri := range s.Chosen {
		s.Chosen[i] = move(uri)
	}
	s.Base = base
}
