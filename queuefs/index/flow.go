package index

import "cutie/queuefs/job"

// A Flow counts changes since the index was made or read, also those of a replay.
// Pending jobs are more by In less Out between two instants.
type Flow struct {
	In     uint64 // became pending: submitted, requeued, or given back
	Out    uint64 // were pending, and are not any more
	Failed uint64 // got this outcome
}

// add counts a change of a job.
func (f *Flow) add(before *Job, after *Standing) {
	was, is := before.Status == job.Pending, after.Status == job.Pending
	switch {
	case is && !was:
		f.In++
	case was && !is:
		f.Out++
	}
	if after.Outcome == job.Failed && before.Outcome != job.Failed {
		f.Failed++
	}
}

// Latest returns jobs of f before one, the last number first; with before 0 it begins
// with the last job of all. It looks at no more jobs than most, and returns the lowest
// one it has looked at, or 0 if no job is before that. The After of f is not used.
func (x *Index) Latest(f Filter, before job.ID, most int) (ids []job.ID, reached job.ID) {
	end := job.ID(len(x.pages)) * PageJobs
	if before == 0 || before > end {
		before = end
	}
	for id := before; id > 0; {
		id--
		n := int(id / PageJobs)
		p := x.pages[n]
		if p == nil || p.vacant() || f.Status != 0 && p.count[f.Status] == 0 {
			id = job.ID(n) * PageJobs
			continue
		}
		s := p.slot(int(id % PageJobs))
		if s.status() == 0 {
			continue
		}
		if most--; most < 0 {
			return ids, id + 1
		}
		if (f.Status == 0 || s.status() == f.Status) && (f.Outcome == 0 || s.outcome() == f.Outcome) && (!f.Held || s.has(markHeld)) {
			if ids = append(ids, id); len(ids) == f.Limit {
				return ids, id
			}
		}
	}
	return ids, 0
}
