package options

import (
	"fmt"

	"cutie/sitemap"
)

// A Change is a base URI or a version of ResourceSync other than in the last run.
// Every Destination has to begin anew after it.
type Change struct {
	FromBase, ToBase       string // without a slash at the end
	FromVersion, ToVersion sitemap.Dialect
}

// Changed reports whether a home was last published with another base URI or
// version than o has. Nothing is a change of nothing: if nothing was published, or
// the settings cannot be read, it returns false.
func Changed(home string, o Options) (Change, bool) {
	was, err := readPublished(home)
	if err != nil || was.BaseURI == "" {
		return Change{}, false
	}
	before, err := was.Complete()
	if err != nil {
		return Change{}, false
	}
	now, err := o.Complete()
	c := Change{string(before.Base), string(now.Base), before.Dialect, now.Dialect}
	return c, err == nil && (before.Base != now.Base || before.Dialect != now.Dialect)
}

// A ChangeError is a [Change] without Options.Anew.
type ChangeError struct{ Change }

func (e *ChangeError) Error() string { return e.Change.String() + ": every mirror would begin anew" }

func (c Change) String() string {
	return fmt.Sprintf("published as %s/ in version %v, now %s/ in version %v", c.FromBase, c.FromVersion, c.ToBase, c.ToVersion)
}
