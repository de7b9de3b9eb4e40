package publisher

import (
	"errors"
	"slices"

	"cutie/publisher/names"
	"cutie/publisher/options"
	"cutie/publisher/set"
	"cutie/publisher/store"
	"cutie/queuefs"
)

// The rule for another base URI or version, in both directions and whatever lists
// there are: the history begins anew after the last event. Former documents are moved
// to resourcesync/cutie-former, where nobody reads them, until the next change.
// A document of the old history would name resources by references, or in a form,
// that this Source no longer has.

// Kinds of package options.
type (
	Options     = options.Options
	Retention   = options.Retention
	Terms       = options.Terms
	ChangeError = options.ChangeError
)

// begin begins the history anew in a store.
func (p *Publisher) begin() error {
	var lines []store.Line
	for _, q := range p.svc.queues() {
		f := set.Subject{Queue: q}
		for s := range names.Set(names.Sets) {
			lines = append(lines, store.Line{Queue: q.ID(), Set: s, Open: f.ListNow()})
		}
	}
	return p.src.Store.Anew(lines)
}

// beginResults begins the history of a home anew if a former version published it and its
// queues have results, since no event says that these came. The settings say so after
// that; until then an opening does it again.
func (p *Publisher) beginResults() error {
	if !options.LacksResults(p.svc.dir) || !p.svc.hasResults() {
		return nil
	}
	st, err := p.src.OpenFormer(p.svc.dir)
	if err != nil {
		return err
	}
	p.src.Reportf("", "results of jobs belong to the published sets from now on; all lists begin anew, once")
	p.src.Store = st
	return errors.Join(p.begin(), st.Close())
}

// hasResults reports whether any job has results.
func (e *engine) hasResults() bool {
	var jobs []queuefs.Entry
	for _, q := range e.queues() {
		for n := range q.Pages() {
			jobs, _, _ = q.Page(n, jobs[:0])
			if slices.ContainsFunc(jobs, func(e queuefs.Entry) bool { return e.HasResults }) {
				return true
			}
		}
	}
	return false
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
