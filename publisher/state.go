package publisher

import (
	"cmp"
	"time"

	"cutie/queuefs"
)

// SetState is how far the publishing of a set is.
type SetState struct {
	Queue    string
	Set      Set
	Event    queuefs.Seq   // last event of the queue
	Read     queuefs.Seq   // last event that the lists have; a request brings them up to date
	Lag      time.Duration // between these two; 0 if they are one
	Open     int           // entries of the open Change List
	Lists    int           // closed Change Lists that are kept
	Waiting  int           // of these, those that have no packages yet
	Packages int           // of Change Dumps that are kept
	Dumps    int           // Resource Dumps that are kept
	Octets   int64         // of closed lists, packages and dumps, and the open list
	Err      error         // why the last package or dump was not made; nil if it was
}

// State returns the state of all sets, in the order of the queues. A queue whose
// lists cannot be opened is left out; the next Tick says why.
func (p *Publisher) State() []SetState {
	var all []SetState
	for _, q := range p.svc.queues() {
		f, err := p.feed(q)
		if err != nil {
			continue
		}
		now := q.State()
		f.mu.Lock()
		for s := range f.sets {
			c := &f.sets[s]
			st := SetState{Queue: q.ID(), Set: Set(s), Event: now.Seq, Read: min(c.mark.seq, now.Seq),
				Open: c.mark.entries, Lists: len(c.lists.all), Packages: len(c.packages.all), Dumps: len(c.kept),
				Octets: c.octets() + c.mark.length, Err: cmp.Or(c.forLists.err, c.forDump.err, c.forLists.passed, c.forDump.passed)}
			for i := len(c.lists.all) - 1; i >= 0 && c.lists.all[i].last > c.dumped; i-- {
				st.Waiting++
			}
			if st.Read < st.Event {
				st.Lag = max(0, now.LastEvent.Sub(c.mark.at))
			}
			all = append(all, st)
		}
		f.mu.Unlock()
	}
	return all
}

// BaseURI returns the URI that all published references begin with, without a
// slash at its end.
func (p *Publisher) BaseURI() string { return string(p.site) }

// Failure returns why nothing is published any more, nil as long as it is.
func (p *Publisher) Failure() error { return p.failure() }
