package publisher

import (
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
)

// The rule for another base URI or version, in both directions and whatever lists
// there are: the history begins anew after the last event. Former documents are moved
// to resourcesync/cutie-former, where nobody reads them, until the next change.
// A document of the old history would name resources by references, or in a form,
// that this Source no longer has.

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

// hasEvents reports whether there is anything to publish.
func (e *engine) hasEvents() bool {
	for _, q := range e.queues() {
		if q.Seq() > 0 {
			return true
		}
	}
	return false
}
