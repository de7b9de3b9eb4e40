package destination

import (
	"context"
	"fmt"
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
