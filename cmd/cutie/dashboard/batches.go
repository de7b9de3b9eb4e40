package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
)

// A batch is jobs submitted together, counted.
type batch struct {
	ID, By            string // By: who has submitted it
	Submitted         time.Time
	Jobs              int // at the submission
	Pending, Held     int
	Consumed, InWork  int
	Completed, Failed int
	Deleted, Gone     int // Gone: culled
}

// countBatch counts the jobs of a batch from its first to its last number, with j one of
// them. Culled jobs are gone.
func countBatch(q *queuefs.Queue, j *job.Job, first, last job.ID) batch {
	count := func(o index.Filter) (n int) {
		o.Limit = int(last-first) + 1
		ids, _ := q.Latest(o, last+1, o.Limit)
		for _, id := range ids {
			if id >= first {
				n++
			}
		}
		return n
	}
	c := batch{ID: j.Batch, Submitted: j.Submitted,
		By: clipped(clean(cmp.Or(j.Owner, j.Submitter))), Jobs: int(last-first) + 1,
		Pending: count(index.Filter{Status: job.Pending}), Held: count(index.Filter{Held: true}),
		Consumed: count(index.Filter{Status: job.Consumed}), Completed: count(index.Filter{Outcome: job.Completed}),
		Failed: count(index.Filter{Outcome: job.Failed}), Deleted: count(index.Filter{Status: job.Deleted})}
	for _, id := range q.Leased() {
		if id >= first && id <= last {
			c.InWork++
		}
	}
	c.Gone = c.Jobs - c.Pending - c.Consumed - c.Deleted
	return c
}

// find returns the URL of a search within the batch.
func (b *batch) find(v Site, queue string, pairs ...string) string {
	q := url.Values{"batch": {b.ID}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return v.Base.Ref("find", queue) + "?" + q.Encode()
}

type batchesPage struct {
	head
	Coming []comingRow // without jobs: manifests on their way, or failed
	Rows   []batchRow
	More   string
	Note   string
}

type comingRow struct {
	Ref                         string // "": it has no page
	Text, Status, Files, Octets string
	Submitted, Ago, Detail      string
}

type batchRow struct {
	link
	Counts         [6]string // jobs, pending, in work, consumed, failed, deleted or culled
	Failed         string    // URL of the failed ones; "": none
	Submitted, Ago string
	By             string
}

// A page lists so many batches, and so many without jobs.
const (
	batchesShown = 50
	comingShown  = 20
)

// batches answers with the batches of a queue, the newest first. Jobs of a batch stand
// together, so one of each is read; jobs of no batch are read one by one, within the bounds
// of a page.
func (b *Board) batches(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	before := parsed(&err, r.URL.Query().Get("before"), "before", job.ParseID)
	if err != nil {
		return err
	}
	v, now := b.site(r, ""), time.Now()
	p := &batchesPage{head: v.ofQueue("Batches of queue "+q.ID(), q.ID(), step("Batches"))}
	if before == 0 && b.Batches != nil {
		p.addComing(v, q.ID(), b.Batches(q.ID()), now)
	}
	l := look{Reached: before}
	for id := range l.back(q, index.Filter{}) {
		j, err := q.Job(id)
		if err != nil || j.Batch == "" {
			continue
		}
		first, last, err := bulk.BatchRange(q, j.Batch)
		if err != nil {
			continue
		}
		p.add(v, q.ID(), countBatch(q, &j, first, last), now)
		if l.Reached = first; first <= 1 {
			l.Reached = 0
			break
		}
		if len(p.Rows) == batchesShown {
			break
		}
	}
	if l.Reached != 0 {
		p.Note = "Looked back to " + l.Reached.String() + "."
		p.More = v.Base.Ref("batches", q.ID()) + "?before=" + l.Reached.String()
	}
	return answer(w, v.write("batches", p))
}

func (p *batchesPage) addComing(v Site, queue string, coming []state.Batch, now time.Time) {
	for i := range coming[:min(len(coming), comingShown)] {
		b := &coming[i]
		r := comingRow{Text: "with a waiting submitter", Status: string(b.Status),
			Files: figure(b.Fetched) + " of " + figure(b.Lines), Octets: figure(b.Octets),
			Submitted: b.Created.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Created), Detail: clipped(clean(b.Detail))}
		if b.ID != "" {
			r.Ref, r.Text = v.page("batch", queue, b.ID), b.ID
		}
		if len(b.Errors) > 0 {
			r.Detail = clipped(clean(b.Errors[0]))
		}
		p.Coming = append(p.Coming, r)
	}
}

func (p *batchesPage) add(v Site, queue string, b batch, now time.Time) {
	r := batchRow{link: link{v.Base.Ref("batches", queue, b.ID), b.ID}, By: b.By,
		Submitted: b.Submitted.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Submitted)}
	for i, n := range [...]int{b.Jobs, b.Pending, b.InWork, b.Consumed, b.Failed, b.Deleted + b.Gone} {
		r.Counts[i] = figure(n)
	}
	if b.Failed > 0 {
		r.Failed = b.find(v, queue, "outcome", "error")
	}
	p.Rows = append(p.Rows, r)
}

type batchPage struct {
	head
	Lead, Done string
	Tiles      []tile
	Lists      []*jobsList
	All        []link // changes of all jobs, before they are made
}

// batch answers with the page of one batch.
func (b *Board) batch(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	first, last, err := bulk.BatchRange(q, r.PathValue("batch"))
	if err != nil {
		return err
	}
	jobs := newest(q, index.Filter{}, first, last)
	if len(jobs) == 0 {
		return ledger.ErrNoJob // all are gone since
	}
	v, now := b.site(r, ""), time.Now()
	c := countBatch(q, &jobs[0], first, last)
	done := c.Consumed - c.InWork + c.Deleted + c.Gone
	above := crumb{"step", v.Base.Ref("batches", q.ID()), "Batches"}
	p := &batchPage{head: v.ofQueue("Batch "+c.ID, q.ID(), above, step(c.ID)),
		Lead: fmt.Sprintf("%s jobs, submitted %s by %s", figure(c.Jobs), state.Ago(now, c.Submitted), c.By),
		Done: fmt.Sprintf("%s of %s done, %d%%.", figure(done), figure(c.Jobs), 100*done/max(c.Jobs, 1))}
	for _, t := range []struct {
		label string
		n     int
		find  []string
	}{
		{"pending", c.Pending, []string{"status", "pending"}},
		{"on hold", c.Held, []string{"held", "true"}},
		{"in work", c.InWork, nil},
		{"consumed", c.Consumed, []string{"status", "consumed"}},
		{"completed", c.Completed, []string{"outcome", "completed"}},
		{"failed", c.Failed, []string{"outcome", "error"}},
		{"deleted", c.Deleted, []string{"status", "deleted"}},
		{"culled", c.Gone, nil},
	} {
		tile := tile{Label: t.label, Count: figure(t.n)}
		if t.find != nil {
			tile.Ref = c.find(v, q.ID(), t.find...)
		}
		if t.label == "failed" && t.n > 0 {
			tile.Class = "stop"
		}
		p.Tiles = append(p.Tiles, tile)
	}
	if c.Failed > 0 {
		l := jobsList{ID: "failed", Heading: "Failed", Worked: true, All: c.find(v, q.ID(), "outcome", "error")}
		p.Lists = append(p.Lists, newJobsList(v.Base, l, newest(q, index.Filter{Outcome: job.Failed}, first, last), now))
	}
	l := jobsList{ID: "newest", Heading: "Jobs", None: "None.", All: c.find(v, q.ID())}
	p.Lists = append(p.Lists, newJobsList(v.Base, l, jobs, now))
	for _, m := range []struct{ method, text, field, value string }{
		{"requeue", "requeue the failed", "outcome", "error"}, {"hold", "hold the pending", "status", "pending"},
		{"release", "release those on hold", "held", "true"}, {"delete", "delete the pending", "status", "pending"},
	} {
		if v.may("POST", v.Base.Ref(m.method, q.ID())) {
			query := url.Values{"batch": {c.ID}, "method": {m.method}, m.field: {m.value}}
			p.All = append(p.All, link{v.Base.Ref("bulk", q.ID()) + "?" + query.Encode(), m.text})
		}
	}
	return answer(w, v.write("batch", p))
}
