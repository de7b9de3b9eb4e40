package publisher

import (
	"fmt"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/sitemap"
)

// The rule for another base URI or version, in both directions and whatever lists
// there are: the history begins anew after the last event. Former documents are moved
// to resourcesync/cutie-former, where nobody reads them, until the next change.
// A document of the old history would name resources by references, or in a form,
// that this Source no longer has.

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
	before, err := was.complete()
	if err != nil {
		return Change{}, false
	}
	now, err := o.complete()
	c := Change{string(before.site), string(now.site), before.Dialect, now.Dialect}
	return c, err == nil && (before.site != now.site || before.Dialect != now.Dialect)
}

// A ChangeError is a [Change] without Options.Anew.
type ChangeError struct{ Change }

func (e *ChangeError) Error() string { return e.Change.String() + ": every mirror would begin anew" }

func (c Change) String() string {
	return fmt.Sprintf("published as %s/ in version %v, now %s/ in version %v", c.FromBase, c.FromVersion, c.ToBase, c.ToVersion)
}

// begin begins the history anew in a store.
func (p *Publisher) begin() error {
	var lines []store.Line
	for _, q := range p.svc.queues() {
		f := subject{p: p, q: q}
		for s := range names.Set(names.Sets) {
			lines = append(lines, store.Line{Queue: q.ID(), Set: s, Open: f.listNow()})
		}
	}
	return p.store.Anew(lines)
}

// hasEvents reports whether there is anything to publish.
func (e *engine) hasEvents() bool {
	for _, q := range e.queues() {
		if q.Seq() > 0 {
			return true
		}
	}
	return false
}
