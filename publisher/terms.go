package publisher

import (
	"cutie/publisher/names"
	"fmt"
)

// Take puts other terms in force, and another pace of reading files again. Documents that
// are too old by them go with the next Tick, those of queues at rest as these are
// opened. The terms are kept in the home.
func (p *Publisher) Take(t Terms, pace names.Pace) error {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.src.Failure(); err != nil {
		return err
	}
	p.scrubber.SetPace(pace)
	if t == p.src.Terms() {
		return nil
	}
	if err := p.src.Take(t); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	now := p.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.rest {
		r.due = now
		p.rest[id] = r
	}
	p.due = now
	return nil
}
