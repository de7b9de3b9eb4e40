package publisher

import (
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/publisher/store"
)

// SetState is how far the publishing of a set is.
type SetState = set.State

// State returns the state of all sets, sorted by queue. A queue with
// unusable lists is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		if lines, rests := p.atRest(q); rests {
			of := freshLines(q)
			if lines != "" {
				of = lines.Of(q.ID())
			}
			for i := range of {
				all = append(all, set.Resting(&of[i]))
			}
		} else if f, err := p.use(q); err == nil {
			now := q.State()
			for _, s := range f.sets {
				all = append(all, s.State(&now))
			}
			f.release()
		}
	}
	return all
}

// freshLines are the lines of a queue that never had an event.
func freshLines(q Queue) (lines [names.Sets]store.Line) {
	st := q.State()
	for s := range lines {
		lines[s] = store.Line{Queue: q.ID(), Set: names.Set(s), Open: store.NewOpenList(st.Before, st.Info.Created)}
	}
	return lines
}
