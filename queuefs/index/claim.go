package index

import "cutie/queuefs/job"

// Claim claims a job for one operation; false if it is claimed, or not there. The
// claim ends with the change of the job, or with Unclaim.
func (x *Index) Claim(id job.ID) bool {
	s := x.slot(id)
	if s == nil || s.status() == 0 || s.has(markClaimed) {
		return false
	}
	if s.available() {
		x.count(x.page(id), -1)
	}
	s.set(markClaimed)
	return true
}

// Unclaim ends a claim without a change.
func (x *Index) Unclaim(id job.ID) {
	if s := x.slot(id); s != nil && s.has(markClaimed) {
		s.clear(markClaimed)
		x.regain(x.page(id), s, id)
	}
}

// ClaimFirst claims up to most available jobs, lowest number first.
func (x *Index) ClaimFirst(most int) []job.ID {
	most = min(most, int(x.Counts.Available))
	if most <= 0 {
		return nil
	}
	ids := make([]job.ID, 0, most)
	for len(ids) < most {
		id := x.First()
		if id == 0 {
			break
		}
		x.Claim(id)
		ids = append(ids, id)
		x.head = id + 1
	}
	return ids
}

// First returns the available job with the lowest number, 0 without one.
func (x *Index) First() job.ID {
	for n := int(x.head / PageJobs); n < len(x.pages); n++ {
		p := x.pages[n]
		if p == nil || p.avail == 0 {
			continue
		}
		for i := range p.size() {
			if id := job.ID(n*PageJobs + i); id >= x.head && p.slot(i).available() {
				return id
			}
		}
	}
	return 0
}

// Head returns the lowest pending job not on hold, claimed or not; 0 without one.
func (x *Index) Head() job.ID {
	for id, s := range x.all(0, job.Pending) {
		if !s.has(markHeld) {
			return id
		}
	}
	return 0
}

// A Filter selects jobs.
type Filter struct {
	Status  job.Status  // 0 for all
	Outcome job.Outcome // 0 for all
	Held    bool        // only jobs on hold
	After   job.ID      // only later jobs
	Limit   int         // at most so many
}

// Unfinished returns up to most consumed jobs without a lease and an outcome.
func (x *Index) Unfinished(most int) (ids []job.ID) {
	for id, s := range x.all(1, job.Consumed) {
		if len(ids) == most {
			break
		}
		if s.outcome() == 0 && !s.has(markLeased) {
			ids = append(ids, id)
		}
	}
	return ids
}

// IDs returns jobs in the order of their numbers.
func (x *Index) IDs(f Filter) []job.ID {
	ids := make([]job.ID, 0, min(f.Limit, 64))
	for id, s := range x.all(f.After+1, f.Status) {
		if len(ids) == f.Limit {
			break
		}
		if (f.Outcome == 0 || s.outcome() == f.Outcome) && (!f.Held || s.has(markHeld)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Leased returns the jobs on lease.
func (x *Index) Leased() (ids []job.ID) {
	if x.Counts.Leased == 0 {
		return nil
	}
	for id, s := range x.all(0, job.Consumed) {
		if s.has(markLeased) {
			ids = append(ids, id)
		}
	}
	return ids
}

// KeyedSince reports whether a request with a key consumed the job, and its last change came
// at since (µs) or later.
func (x *Index) KeyedSince(id job.ID, since int64) bool {
	s := x.slot(id)
	return s != nil && s[0]&slotKeyed != 0 && s.status() == job.Consumed && s.changed() >= since
}

// Keyed returns the jobs consumed by a request with a key that have not changed before a
// time in µs. It visits the pages with changes since then.
func (x *Index) Keyed(since int64) (ids []job.ID) {
	for n, p := range x.pages {
		if p == nil || p.at < since || p.count[job.Consumed] == 0 {
			continue
		}
		for i := range p.size() {
			if s := p.slot(i); s[0]&slotKeyed != 0 && s.status() == job.Consumed && s.changed() >= since {
				ids = append(ids, job.ID(n*PageJobs+i))
			}
		}
	}
	return ids
}

// WithResults returns the jobs with results.
func (x *Index) WithResults() (ids []job.ID) {
	for id, s := range x.all(0, 0) {
		if s[0]&slotResults != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Retained returns the jobs of page n with a retention in their job files.
func (x *Index) Retained(n int) (ids []job.ID) {
	p := x.pageAt(n)
	for i := 0; p != nil && i < p.size(); i++ {
		if s := p.slot(i); s.status() != 0 && s[0]&slotRetained != 0 {
			ids = append(ids, job.ID(n*PageJobs+i))
		}
	}
	return ids
}
