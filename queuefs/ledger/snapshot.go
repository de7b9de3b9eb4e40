package ledger

import (
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/journal"
)

// Snapshot returns the contents of the queue file of the index, for a checkpoint at a
// record.
func (l *Ledger) Snapshot(at journal.LSN) indexfile.Queue {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.set.Load()
	x := indexfile.Queue{Last: l.idx.Last(), Submitted: l.idx.LastSubmit, Consumed: l.idx.LastConsume, Created: s.Created().UnixMicro(),
		Types: l.idx.MediaTypes(), Info: l.idx.Info, At: at, Since: l.life.since, Before: l.life.before, Mirror: l.life.mirror}
	x.Pages, _ = l.idx.Held()
	x.Culled = l.idx.Tombstones.InFile()
	if !s.Made {
		x.Settings, x.Stamp = s.Text, s.Stamp()
	}
	return x
}

// Load takes in the queue file of the index, when a home is opened. The numbers never go
// back, whatever becomes of the pages.
func (l *Ledger) Load(q *indexfile.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.idx
	x.SetMediaTypes(q.Types)
	x.Reach(q.Last)
	x.LastSubmit, x.LastConsume, x.Info = q.Submitted, q.Consumed, q.Info
	l.life = life{since: q.Since, before: q.Before, mirror: q.Mirror}
}

// Numbers returns the last numbers of jobs and events given out.
func (l *Ledger) Numbers() index.Numbers {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := l.idx.Minted()
	return index.Numbers{Job: n.Job, Seq: n.Seq}
}
