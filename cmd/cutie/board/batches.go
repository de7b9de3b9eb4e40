package board

import (
	"net/http"
	"net/url"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
)

// batchesShown is how many batches a page lists.
const batchesShown = 50

// batches answers with the batches of a queue, the newest first. Jobs of a batch stand
// together, so one of each is read; jobs of no batch are read one by one, within the bounds
// of a page.
func (b *Board) batches(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	var bad error
	before := parsed(&bad, r.URL.Query().Get("before"), "before", queuefs.ParseJobID)
	if bad != nil {
		return bad
	}
	l := &dashboard.Batches{Queue: q.ID(), Reached: before}
	if before == 0 && b.Batches != nil {
		l.Coming = b.Batches(q.ID())
	}
	for end := time.Now().Add(maxTime); len(l.Batches) < batchesShown && l.Looked < maxRead && (l.Looked == 0 || time.Now().Before(end)); {
		ids, reached := q.Latest(queuefs.ListOptions{Limit: 1}, l.Reached, maxLooked)
		if l.Reached = reached; len(ids) == 0 {
			break
		}
		l.Looked++
		j, err := q.Job(ids[0])
		if err != nil || j.Batch == "" {
			continue
		}
		first, last, err := bulk.BatchRange(q, j.Batch)
		if err != nil {
			continue
		}
		l.Batches = append(l.Batches, countBatch(q, &j, first, last))
		if l.Reached = first; first <= 1 {
			l.Reached = 0
			break
		}
	}
	return answer(w, dashboard.ListBatches(b.site(r, ""), l, time.Now()))
}

// countBatch counts the jobs of a batch from its first to its last number, with j one of
// them. Culled jobs are gone.
func countBatch(q *queuefs.Queue, j *queuefs.Job, first, last queuefs.JobID) dashboard.Batch {
	count := func(o queuefs.ListOptions) (n int) {
		o.Limit = int(last-first) + 1
		ids, _ := q.Latest(o, last+1, o.Limit)
		for _, id := range ids {
			if id >= first {
				n++
			}
		}
		return n
	}
	c := dashboard.Batch{ID: j.Batch, Submitted: j.Submitted, Submitter: j.Submitter, Owner: j.Owner, Jobs: int(last-first) + 1,
		Pending: count(queuefs.ListOptions{Status: queuefs.Pending}), Held: count(queuefs.ListOptions{Held: true}),
		Consumed: count(queuefs.ListOptions{Status: queuefs.Consumed}), Completed: count(queuefs.ListOptions{Outcome: queuefs.Completed}),
		Failed: count(queuefs.ListOptions{Outcome: queuefs.Failed}), Deleted: count(queuefs.ListOptions{Status: queuefs.Deleted})}
	for _, id := range q.Leased() {
		if id >= first && id <= last {
			c.InWork++
		}
	}
	return c
}

// batch answers with the page of one batch.
func (b *Board) batch(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	name := r.PathValue("batch")
	first, last, err := bulk.BatchRange(q, name)
	if err != nil {
		return err
	}
	one := func(o queuefs.ListOptions, most int) []queuefs.Job {
		want := query{Filter: bulk.Filter{Status: o.Status, Outcome: o.Outcome, Batch: name}, before: last + 1}
		s := &dashboard.Search{Query: url.Values{}}
		want.search(q, s, first)
		return s.Jobs[:min(len(s.Jobs), most)]
	}
	some := one(queuefs.ListOptions{}, dashboard.AsideJobs)
	if len(some) == 0 {
		return queuefs.ErrNoJob // all are gone since
	}
	p := &dashboard.BatchPage{Queue: q.ID(), Batch: countBatch(q, &some[0], first, last), Newest: some}
	if p.Failed > 0 {
		p.Failures = one(queuefs.ListOptions{Outcome: queuefs.Failed}, dashboard.AsideJobs)
	}
	return answer(w, dashboard.OneBatch(b.site(r, ""), p, time.Now()))
}
