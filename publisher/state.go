package publisher

import "cutie/publisher/set"

// SetState is how far the publishing of a set is.
type SetState = set.State

// State returns the state of all sets, sorted by queue. A queue with
// unusable lists is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		if lines, rests := p.atRest(q); rests {
			for i := range lines {
				all = append(all, set.Resting(&lines[i]))
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
