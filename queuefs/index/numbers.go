package index

import "cutie/queuefs/job"

// Numbers are the last ones of a queue. They never go back.
type Numbers struct {
	Job  job.ID
	Seq  job.Seq
	Time int64 // µs
}

// Max returns the higher ones.
func (n Numbers) Max(m Numbers) Numbers {
	return Numbers{max(n.Job, m.Job), max(n.Seq, m.Seq), max(n.Time, m.Time)}
}

// Last returns the numbers of applied changes.
func (x *Index) Last() Numbers { return x.last }

// Minted returns the last numbers given out.
func (x *Index) Minted() Numbers { return x.minted }

// Reach raises the numbers to at least these.
func (x *Index) Reach(n Numbers) { x.last, x.minted = x.last.Max(n), x.minted.Max(n) }

// Mint returns the number and the time of the next change, at the time now of the
// clock. Times grow even when the clock steps back.
func (x *Index) Mint(now int64) (job.Seq, int64) {
	x.minted.Seq++
	x.minted.Time = max(now, x.minted.Time+1)
	return x.minted.Seq, x.minted.Time
}

// MintJob returns the number of the next job, false if all were given out.
func (x *Index) MintJob() (job.ID, bool) {
	if x.minted.Job >= job.MaxID {
		return 0, false
	}
	x.minted.Job++
	return x.minted.Job, true
}

// Unmint takes back the numbers minted after these, which were not used.
func (x *Index) Unmint(to Numbers) { x.minted = to }

// Skip skips the numbers up to these.
func (x *Index) Skip(n Numbers) { x.minted = x.minted.Max(n) }
