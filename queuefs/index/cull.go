package index

import (
	"cmp"
	"math"
	"slices"

	"cutie/queuefs/job"
)

// A Candidate is a processed job that culling may take.
type Candidate struct {
	Changed int64 // µs, of its last change
	Job     job.ID
}

// Compare orders candidates: the longest unchanged first.
func (a Candidate) Compare(b Candidate) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Job, b.Job))
}

// cull is what the index knows of culling.
type cull struct {
	stays   int64 // µs: no processed job changed before
	vacates bool  // pages may have become vacant
}

// Stays notes that a processed job that changed at a time, in µs, stays.
func (x *Index) Stays(changed int64) { x.cull.stays = min(x.cull.stays, changed) }

// Unchanged returns a time in µs; no job for culling changed before.
func (x *Index) Unchanged() int64 { return x.cull.stays }

// A Search collects the jobs for culling that are unchanged longest, page by page,
// so that its owner can let go of a lock in between.
type Search struct {
	found   []Candidate
	most    int
	last    Candidate // only those behind it
	worst   Candidate // and not behind it
	rest    int64     // last change of the oldest job that stays
	nothing bool
}

// NewSearch returns a search for the most jobs behind last that have not changed
// after before; now is the present time.
func NewSearch(last Candidate, before, now int64, most int) *Search {
	return &Search{most: most, last: last, worst: Candidate{before, math.MaxUint64}, rest: now}
}

// Look takes page n into the search, and returns false behind the last page. inUse
// tells of jobs that must stay. A page remembers before when none of its jobs was
// processed.
func (x *Index) Look(s *Search, n int, inUse func(job.ID) bool) bool {
	if n >= len(x.pages) {
		return false
	}
	p := x.pages[n]
	switch {
	case p == nil || p.count[job.Consumed]+p.count[job.Deleted] == 0:
		return true
	case p.oldest > s.worst.Changed:
		s.rest = min(s.rest, p.oldest)
		return true
	}
	p.oldest = math.MaxInt64
	for i := range PageJobs {
		o := p.slot(i)
		if !o.processed() {
			continue
		}
		c := Candidate{o.changed(), job.ID(n*PageJobs + i)}
		p.oldest = min(p.oldest, c.Changed)
		if o.inUse() || inUse(c.Job) || c.Compare(s.worst) > 0 || c.Compare(s.last) <= 0 {
			s.rest = min(s.rest, c.Changed)
			continue
		}
		s.found = append(s.found, c)
	}
	if len(s.found) >= 2*s.most {
		s.shrink()
	}
	return true
}

func (s slot) inUse() bool { return s.has(markClaimed | markLeased) }

func (s *Search) shrink() {
	slices.SortFunc(s.found, Candidate.Compare)
	if len(s.found) > s.most {
		s.rest = min(s.rest, s.found[s.most].Changed)
		s.found = s.found[:s.most]
		s.worst = s.found[s.most-1]
	}
}

// Found returns the jobs, the longest unchanged first. If all was found that there
// is, rest is the last change of the oldest other job, else 0.
func (s *Search) Found() (found []Candidate, rest int64) {
	s.shrink()
	if len(s.found) < s.most {
		rest = s.rest
	}
	return s.found, rest
}

// SetUnchanged notes the end of a search that found all: no processed job but those
// found changed before a time.
func (x *Index) SetUnchanged(rest int64) { x.cull.stays = rest }

// Due returns how many processed jobs of page n did not change after before but did
// after needed, and those that did not.
func (x *Index) Due(n int, before, needed int64, inUse func(job.ID) bool) (late int, old []job.ID) {
	p := x.pageAt(n)
	if p == nil || p.count[job.Consumed]+p.count[job.Deleted] == 0 || p.oldest > before {
		return 0, nil
	}
	for i := range PageJobs {
		s, id := p.slot(i), job.ID(n*PageJobs+i)
		switch {
		case !s.processed() || s.inUse() || s.changed() > before || inUse(id):
		case s.changed() > needed:
			late++
		default:
			old = append(old, id)
		}
	}
	return late, old
}

// Cullable reports whether a job has not changed since it was chosen, and is
// not in use.
func (x *Index) Cullable(c Candidate) bool {
	s := x.slot(c.Job)
	return s != nil && s.processed() && !s.inUse() && s.changed() == c.Changed
}

// Vacate gives back the memory of pages below the last job whose jobs have all been
// culled, once their files are gone too.
func (x *Index) Vacate() {
	if !x.cull.vacates {
		return
	}
	x.cull.vacates = false
	for n, p := range x.pages {
		if p == nil || p.vacant() || p.count != ([4]int{}) || job.ID(n+1)*PageJobs > x.minted.Job {
			continue
		}
		quiet := true
		for i := range PageJobs {
			quiet = quiet && !p.slot(i).has(markClaimed|markBehind)
		}
		if !quiet {
			x.cull.vacates = true
			continue
		}
		freeSlots(p.slots)
		p.slots, p.md5s = noSlots, nil
		x.full--
		p.changed, x.Changed = true, true
	}
}
