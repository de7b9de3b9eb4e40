package source

import (
	"context"
	"errors"
	"strings"
	"time"

	"cutie/sitemap"
)

// Succeeds reports whether the set is a successor of one of another Source: it publishes
// the resources below the base URI of that one, with links to where they came from
// (Z39.99-2017, 14.4). known is false where the set has no resources to tell.
func (set *Set) Succeeds(ctx context.Context, base string) (yes, known bool, err error) {
	own, seen := set.source.Base, errors.New("seen")
	_, err = set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error {
		path, below := strings.CutPrefix(e.Loc, own)
		known, yes = true, below && e.Link(sitemap.RelVia) == base+path
		return seen
	})
	if errors.Is(err, seen) {
		err = nil
	}
	return yes, known, err
}
