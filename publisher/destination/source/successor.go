package source

import (
	"context"
	"errors"
	"strings"
	"time"

	"cutie/sitemap"
)

// First returns the first resource of the set, nil if it has none.
func (set *Set) First(ctx context.Context) (first *sitemap.Entry, err error) {
	seen := errors.New("seen")
	_, err = set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error {
		first = e
		return seen
	})
	if errors.Is(err, seen) {
		err = nil
	}
	return first, err
}

// Succeeds reports whether the set is a successor of one of another Source: it publishes
// the resources below the base URI of that one, with links to where they came from
// (Z39.99-2017, 14.4). known is false where the set has no resources to tell.
func (set *Set) Succeeds(ctx context.Context, base string) (yes, known bool, err error) {
	e, err := set.First(ctx)
	if err != nil || e == nil {
		return false, false, err
	}
	path, below := strings.CutPrefix(e.Loc, set.source.Base)
	return below && e.Link(sitemap.RelVia) == base+path, true, nil
}
