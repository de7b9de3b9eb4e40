package publisher

import (
	"time"

	"cutie/queuefs"
)

// Needs returns since when changes of the queue are in closed lists that have
// no packages yet, zero if all have: until a Tick has made them the engine
// culls none of the jobs that changed later. While a Resource Dump is made it
// culls none at all. The open list keeps no job: it may stay open for ever. Nor
// do the lists of a set whose packages wait for room, for that is what culling
// makes: they will be without the jobs that went.
func (p *Publisher) Needs(queue string) (since time.Time) {
	p.mu.Lock()
	f := p.feeds[queue]
	p.mu.Unlock()
	if f == nil {
		return since
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sets {
		c := &f.sets[s]
		if c.making {
			return f.orCreated(time.Time{})
		}
		if list, ok := c.unpacked(); ok && c.forLists.octets == 0 && (since.IsZero() || list.from.Before(since)) {
			since = list.from
		}
	}
	return since
}

// unpacked returns the oldest closed list that has no packages, or not all.
func (c *changes) unpacked() (list span, ok bool) {
	if c.lists.last() <= c.dumped {
		return span{}, false
	}
	i := len(c.lists.all) - 1
	for i > 0 && c.lists.all[i-1].last > c.dumped {
		i--
	}
	return c.lists.all[i], true
}

// Forget lets go of a queue that was removed. The engine removes its
// documents.
func (p *Publisher) Forget(queue string) error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.job != nil && p.job.q.ID() == queue {
		p.drop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.feeds, queue)
	delete(p.marks, queue)
	return nil
}

var (
	_ queuefs.Keeper    = (*Publisher)(nil)
	_ queuefs.Forgetter = (*Publisher)(nil)
)
