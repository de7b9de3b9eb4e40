package queuefs

import "errors"

// ListOptions say which jobs of a queue are meant.
type ListOptions struct {
	Status  Status  // 0 for all
	Outcome Outcome // 0 for all
	Held    bool    // only those on hold
	After   JobID   // only those behind it
	Limit   int     // 0 means 1000
}

// IDs returns identifiers of jobs in FIFO order, from memory.
func (q *Queue) IDs(o ListOptions) []JobID {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	ids := make([]JobID, 0, min(o.Limit, 64))
	for n := int((o.After + 1) / PageJobs); n < len(q.idx.pages) && len(ids) < o.Limit; n++ {
		p := q.idx.pages[n]
		if p == nil || o.Status != 0 && p.count[o.Status] == 0 {
			continue
		}
		for i := range PageJobs {
			id, s := JobID(n*PageJobs+i), p.slot(i)
			if id <= o.After || !o.want(s) {
				continue
			}
			if ids = append(ids, id); len(ids) == o.Limit {
				break
			}
		}
	}
	return ids
}

func (o *ListOptions) want(s slot) bool {
	st := s.status()
	return st != 0 && (o.Status == 0 || st == o.Status) && (o.Outcome == 0 || s.outcome() == o.Outcome) && (!o.Held || s.has(flagHeld))
}

// head returns the first pending job that is not on hold, 0 if there is none.
func (q *Queue) head() JobID {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for n, p := range q.idx.pages {
		for i := 0; p != nil && p.count[Pending] > 0 && i < PageJobs; i++ {
			if s := p.slot(i); s.status() == Pending && !s.has(flagHeld) {
				return JobID(n*PageJobs + i)
			}
		}
	}
	return 0
}

// List returns jobs in FIFO order. It reads a job file for each.
func (q *Queue) List(o ListOptions) ([]Job, error) {
	ids := q.IDs(o)
	jobs := make([]Job, 0, len(ids))
	for _, id := range ids {
		j, err := q.Job(id)
		if errors.Is(err, ErrNoJob) {
			continue
		}
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}
