package queuefs

import (
	"cutie/queuefs/index"
	"errors"
)

// ListOptions select jobs of a queue.
type ListOptions struct {
	Status  Status  // 0 for all
	Outcome Outcome // 0 for all
	Held    bool    // only jobs on hold
	After   JobID   // only later jobs
	Limit   int     // 0 means 1000
}

// IDs returns identifiers of jobs in FIFO order, from memory.
func (q *Queue) IDs(o ListOptions) []JobID {
	if o.Limit <= 0 {
		o.Limit = 1000
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.idx.IDs(index.Filter(o))
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
