package callback

import (
	"time"

	"cutie/queuefs"
)

// A change of a job, with its last event.
type change struct {
	seq  queuefs.Seq
	at   time.Time
	kind queuefs.Kind
	job  queuefs.JobID
}

// A backlog holds changes in the order of their events, the last one of each
// job.
type backlog struct {
	list []change // some have been overtaken by later ones
	last map[queuefs.JobID]queuefs.Seq
}

// add adds a change after all others.
func (b *backlog) add(c change) {
	if b.last == nil {
		b.last = map[queuefs.JobID]queuefs.Seq{}
	}
	b.last[c.job] = c.seq
	b.list = append(b.list, c)
	if len(b.list) > 64 && len(b.list) > 2*len(b.last) {
		b.list = b.all()
	}
}

// len returns how many jobs have changed.
func (b *backlog) len() int { return len(b.last) }

// first returns the oldest change; false if there is none.
func (b *backlog) first() (change, bool) {
	for len(b.list) > 0 {
		if c := b.list[0]; b.last[c.job] == c.seq {
			return c, true
		}
		b.list = b.list[1:]
	}
	*b = backlog{}
	return change{}, false
}

// remove takes c out, unless a later change of its job has done so.
func (b *backlog) remove(c change) {
	if b.last[c.job] == c.seq {
		delete(b.last, c.job)
	}
}

// all returns the changes in their order.
func (b *backlog) all() []change {
	list := make([]change, 0, len(b.last))
	for _, c := range b.list {
		if b.last[c.job] == c.seq {
			list = append(list, c)
		}
	}
	return list
}
