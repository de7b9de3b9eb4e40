package index

import (
	"cmp"
	"container/heap"
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

// A Tombstone is a note of a culled job.
type Tombstone struct {
	Job    job.ID
	Culled int64 // µs
	Seq    job.Seq
}

// Tombstones are those not yet in the table.
type Tombstones struct {
	fresh []Tombstone
	last  job.Seq // of all, also in the table
}

// add takes a tombstone, except for one replayed again.
func (s *Tombstones) add(t Tombstone) {
	if t.Seq > s.last {
		s.fresh, s.last = append(s.fresh, t), t.Seq
	}
}

// Fresh returns the tombstones not yet in the table, in the order of their changes.
func (s *Tombstones) Fresh() []Tombstone { return s.fresh }

// Filed drops the first n of them: the table has them.
func (s *Tombstones) Filed(n int) {
	if s.fresh = s.fresh[n:]; len(s.fresh) == 0 {
		s.fresh = nil
	}
}

// SetLast notes the last one of the table, before the first Apply.
func (s *Tombstones) SetLast(seq job.Seq) { s.last = seq }

// Deadlines are instants of jobs in µs, at most one of a job.
type Deadlines struct {
	heap *deadlines // nil: there are none, as in most queues
}

// all returns the instants there are.
func (d *Deadlines) all() []deadline {
	if d.heap == nil {
		return nil
	}
	return d.heap.heap
}

// Set gives a job its instant; 0 takes it away.
func (d *Deadlines) Set(id job.ID, ends int64) {
	if ends == 0 && d.heap == nil {
		return
	}
	if d.heap == nil {
		d.heap = &deadlines{at: map[job.ID]int{}}
	}
	l := d.heap
	i, ok := l.at[id]
	switch {
	case ends == 0 && ok:
		heap.Remove(l, i)
	case ends == 0:
	case ok:
		l.heap[i].ends = ends
		heap.Fix(l, i)
	default:
		heap.Push(l, deadline{ends, id})
	}
}

// At returns the instant of a job, false if it has none.
func (d *Deadlines) At(id job.ID) (ends int64, ok bool) {
	if d.heap == nil {
		return 0, false
	}
	i, ok := d.heap.at[id]
	if ok {
		ends = d.heap.heap[i].ends
	}
	return ends, ok
}

// Jobs returns all jobs with an instant, in no order.
func (d *Deadlines) Jobs() []job.ID {
	ids := make([]job.ID, 0, len(d.all()))
	for _, e := range d.all() {
		ids = append(ids, e.id)
	}
	return ids
}

// Passed reports whether an instant has come by now.
func (d *Deadlines) Passed(now int64) bool {
	return len(d.all()) > 0 && d.heap.heap[0].ends <= now
}

// Due calls visit with the jobs of instants up to now, until it returns false. It
// looks at no more than twice as many jobs.
func (d *Deadlines) Due(now int64, visit func(job.ID) bool) {
	all, more := d.all(), true
	var look func(i int)
	look = func(i int) {
		if !more || i >= len(all) || all[i].ends > now {
			return
		}
		more = visit(all[i].id)
		look(2*i + 1)
		look(2*i + 2)
	}
	look(0)
}

// deadlines is a heap, the earliest on top.
type deadlines struct {
	heap []deadline
	at   map[job.ID]int // index in heap
}

type deadline struct {
	ends int64
	id   job.ID
}

func (l *deadlines) Len() int           { return len(l.heap) }
func (l *deadlines) Less(i, j int) bool { return l.heap[i].ends < l.heap[j].ends }

func (l *deadlines) Swap(i, j int) {
	h := l.heap
	h[i], h[j] = h[j], h[i]
	l.at[h[i].id], l.at[h[j].id] = i, j
}

// Push and Pop are for container/heap.
func (l *deadlines) Push(x any) {
	e := x.(deadline)
	l.at[e.id] = len(l.heap)
	l.heap = append(l.heap, e)
}

func (l *deadlines) Pop() any {
	n := len(l.heap) - 1
	e := l.heap[n]
	l.heap = l.heap[:n]
	delete(l.at, e.id)
	return e
}

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
