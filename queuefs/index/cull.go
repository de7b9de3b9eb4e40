package index

import (
	"cmp"
	"math"
	"slices"
	"time"

	"cutie/queuefs/job"
)

// A Candidate is a processed job for culling.
type Candidate struct {
	Changed int64 // µs, of its last change
	Job     job.ID
}

// Compare orders candidates: the longest unchanged first.
func (a Candidate) Compare(b Candidate) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Job, b.Job))
}

// Stays notes a processed job, last changed at a time in µs, as one to stay.
func (x *Index) Stays(changed int64) { x.stays = min(x.stays, changed) }

// Unchanged returns a time in µs: no job for culling changed before it.
func (x *Index) Unchanged() int64 { return x.stays }

// A Search collects the longest unchanged jobs for culling, page by page, so that
// its owner can release a lock in between.
type Search struct {
	found []Candidate
	most  int
	last  Candidate // only later ones,
	worst Candidate // up to this one
	rest  int64     // last change of the oldest other job
}

// NewSearch returns a search for up to most jobs after last, unchanged since
// before; now is the present time.
func NewSearch(last Candidate, before, now int64, most int) *Search {
	return &Search{most: most, last: last, worst: Candidate{before, math.MaxUint64}, rest: now}
}

// Look searches page n, and returns false after the last page. inUse reports jobs
// to be left alone. A page remembers the oldest change of its processed jobs.
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
	for i := range p.size() {
		o := p.slot(i)
		if !o.processed() {
			continue
		}
		c := Candidate{o.changed(), job.ID(n*PageJobs + i)}
		p.oldest = min(p.oldest, c.Changed)
		if o.inUse() || c.Compare(s.worst) > 0 || c.Compare(s.last) <= 0 || inUse(c.Job) {
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

// Found returns the jobs, the longest unchanged first. rest is the last change of
// the oldest processed job not found; 0: the search was full.
func (s *Search) Found() (found []Candidate, rest int64) {
	s.shrink()
	if len(s.found) < s.most {
		rest = s.rest
	}
	return s.found, rest
}

// SetUnchanged notes the rest of a search, after the found jobs were culled.
func (x *Index) SetUnchanged(rest int64) { x.stays = rest }

// Due returns the processed jobs of page n without a change after before.
func (x *Index) Due(n int, before int64, inUse func(job.ID) bool) (old []job.ID) {
	p := x.pageAt(n)
	if p == nil || p.count[job.Consumed]+p.count[job.Deleted] == 0 || p.oldest > before {
		return nil
	}
	for i := range p.size() {
		s, id := p.slot(i), job.ID(n*PageJobs+i)
		if s.processed() && !s.inUse() && s.changed() <= before && !inUse(id) {
			old = append(old, id)
		}
	}
	return old
}

// Cullable reports whether a job is unchanged since the search, and not in use.
func (x *Index) Cullable(c Candidate) bool {
	s := x.slot(c.Job)
	return s != nil && s.processed() && !s.inUse() && s.changed() == c.Changed
}

// Vacates reports whether Vacate has something to look at.
func (x *Index) Vacates() bool { return x.vacates }

// Vacate gives back the memory of full pages without jobs and without files.
func (x *Index) Vacate() {
	if !x.vacates {
		return
	}
	x.vacates = false
	for n, p := range x.pages {
		if p == nil || p.vacant() || p.count != ([4]int16{}) || job.ID(n+1)*PageJobs > x.minted.Job {
			continue
		}
		quiet := true
		for i := range p.size() {
			quiet = quiet && !p.slot(i).has(markClaimed|markBehind)
		}
		if !quiet {
			x.vacates = true
			continue
		}
		freeSlots(p.slots)
		p.slots, p.md5s, p.keys = nil, nil, nil
		p.changed, x.Changed = true, true
	}
}

// DueAfter returns how many processed jobs may be culled at the time now, and the latest
// time of their last changes, with size jobs to be kept, unless negative, and an age in
// hours. With an age of 0 as many go as are too many. If none may be culled it looks at
// no job.
func (x *Index) DueAfter(size, age, now int64) (before int64, most int) {
	extra := x.Counts.Processed() - size
	if size < 0 || extra <= 0 {
		return 0, 0
	}
	if age <= 0 {
		return math.MaxInt64, int(extra)
	}
	// More than the age: an event at this very instant is too young.
	before = now - age*time.Hour.Microseconds() - 1
	if x.Unchanged() > before {
		return 0, 0
	}
	return before, math.MaxInt
}
