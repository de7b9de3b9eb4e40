package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/state"
)

// A Batch is jobs submitted together, counted.
type Batch struct {
	ID                string
	Submitted         time.Time
	Submitter, Owner  string
	Jobs              int // at the submission
	Pending, Held     int
	Consumed, InWork  int
	Completed, Failed int
	Deleted           int
}

// gone is how many jobs are culled.
func (b *Batch) gone() int { return b.Jobs - b.Pending - b.Consumed - b.Deleted }

// Batches are those of a queue, the newest first.
type Batches struct {
	Queue   string
	Coming  []state.Batch // without jobs: manifests on their way, or failed
	Batches []Batch
	Looked  int           // jobs read
	Reached queuefs.JobID // where to go on; 0: at the first job of the queue
}

type batchesPage struct {
	head
	Coming []comingRow
	Rows   []batchRow
	More   string
	Note   string
}

// A comingRow is a batch without jobs.
type comingRow struct {
	Ref                         string // "": it has no page
	Text, Status, Files, Octets string
	Submitted, Ago, Detail      string
}

// comingShown is how many batches without jobs a page has.
const comingShown = 20

type batchRow struct {
	link
	Counts         [6]string // jobs, pending, in work, consumed, failed, deleted or culled
	Failed         string    // URL of the failed ones; "": none
	Submitted, Ago string
	By             string
}

// ListBatches returns the page of the batches of a queue.
func ListBatches(v Site, l *Batches, now time.Time) []byte {
	p := &batchesPage{head: v.head("Batches of queue "+l.Queue, crumb{"step", v.page("state", l.Queue), l.Queue}, crumb{Class: "step", Text: "Batches"})}
	for i := range l.Coming[:min(len(l.Coming), comingShown)] {
		b := &l.Coming[i]
		r := comingRow{Text: "with a waiting submitter", Status: string(b.Status), Files: grouped(fmt.Sprint(b.Fetched)) + " of " + grouped(fmt.Sprint(b.Lines)),
			Octets: grouped(fmt.Sprint(b.Octets)), Submitted: b.Created.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Created), Detail: clipped(clean(b.Detail))}
		if b.ID != "" {
			r.Ref, r.Text = v.page("batch", l.Queue, b.ID), b.ID
		}
		if len(b.Errors) > 0 {
			r.Detail = clipped(clean(b.Errors[0]))
		}
		p.Coming = append(p.Coming, r)
	}
	for i := range l.Batches {
		b := &l.Batches[i]
		r := batchRow{link: link{v.Base.Ref("batches", l.Queue, b.ID), b.ID}, Submitted: b.Submitted.UTC().Format(time.DateTime), Ago: state.Ago(now, b.Submitted), By: b.by()}
		for i, n := range [...]int{b.Jobs, b.Pending, b.InWork, b.Consumed, b.Failed, b.Deleted + b.gone()} {
			r.Counts[i] = grouped(fmt.Sprint(n))
		}
		if b.Failed > 0 {
			r.Failed = b.find(v, l.Queue, "outcome", "error")
		}
		p.Rows = append(p.Rows, r)
	}
	if l.Reached != 0 {
		p.Note = "Looked back to " + l.Reached.String() + "."
		p.More = v.Base.Ref("batches", l.Queue) + "?before=" + l.Reached.String()
	}
	return v.write("batches", p)
}

// by says who has submitted a batch.
func (b *Batch) by() string {
	if b.Owner != "" {
		return clipped(clean(b.Owner))
	}
	return clipped(clean(b.Submitter))
}

// find returns the URL of a search within the batch.
func (b *Batch) find(v Site, queue string, pairs ...string) string {
	q := url.Values{"batch": {b.ID}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return v.Base.Ref("find", queue) + "?" + q.Encode()
}

// A BatchPage is what the page of a batch shows.
type BatchPage struct {
	Queue string
	Batch
	Failures, Newest []queuefs.Job // the last ones first
}

type onePage struct {
	head
	Lead, Done string
	Tiles      []tile
	Lists      []*jobsList
	All        []link // changes of all jobs, before they are made
}

// OneBatch returns the page of a batch.
func OneBatch(v Site, b *BatchPage, now time.Time) []byte {
	p := &onePage{head: v.head("Batch "+b.ID, crumb{"step", v.page("state", b.Queue), b.Queue}, crumb{"step", v.Base.Ref("batches", b.Queue), "Batches"}, crumb{Class: "step", Text: b.ID})}
	p.Lead = fmt.Sprintf("%s jobs, submitted %s by %s", grouped(fmt.Sprint(b.Jobs)), state.Ago(now, b.Submitted), b.by())
	done := b.Consumed - b.InWork + b.Deleted + b.gone()
	p.Done = fmt.Sprintf("%s of %s done, %d%%.", grouped(fmt.Sprint(done)), grouped(fmt.Sprint(b.Jobs)), 100*done/max(b.Jobs, 1))
	for _, t := range []struct {
		label string
		n     int
		find  []string
	}{
		{"pending", b.Pending, []string{"status", "pending"}}, {"on hold", b.Held, []string{"held", "true"}}, {"in work", b.InWork, nil},
		{"consumed", b.Consumed, []string{"status", "consumed"}}, {"completed", b.Completed, []string{"outcome", "completed"}},
		{"failed", b.Failed, []string{"outcome", "error"}}, {"deleted", b.Deleted, []string{"status", "deleted"}}, {"culled", b.gone(), nil},
	} {
		tile := tile{Label: t.label, Count: grouped(fmt.Sprint(t.n))}
		if t.find != nil {
			tile.Ref = b.find(v, b.Queue, t.find...)
		}
		if t.label == "failed" && t.n > 0 {
			tile.Class = "stop"
		}
		p.Tiles = append(p.Tiles, tile)
	}
	if len(b.Failures) > 0 {
		p.Lists = append(p.Lists, newJobsList(v.Base, jobsList{ID: "failed", Heading: "Failed", Worked: true, All: b.find(v, b.Queue, "outcome", "error")}, b.Failures, now))
	}
	p.Lists = append(p.Lists, newJobsList(v.Base, jobsList{ID: "newest", Heading: "Jobs", None: "None.", All: b.find(v, b.Queue)}, b.Newest, now))
	for _, m := range []struct {
		method, text string
		of           []string
	}{
		{"requeue", "requeue the failed", []string{"outcome", "error"}}, {"hold", "hold the pending", []string{"status", "pending"}},
		{"release", "release those on hold", []string{"held", "true"}}, {"delete", "delete the pending", []string{"status", "pending"}},
	} {
		if v.may("POST", v.Base.Ref(m.method, b.Queue)) {
			q := url.Values{"batch": {b.ID}, "method": {m.method}, m.of[0]: {m.of[1]}}
			p.All = append(p.All, link{v.Base.Ref("bulk", b.Queue) + "?" + q.Encode(), m.text})
		}
	}
	return v.write("batch", p)
}

// fitting returns the methods of BulkMethods with an effect on jobs of a choice.
func fitting(query url.Values) (methods []string) {
	for _, m := range BulkMethods {
		pending, outcome := query.Get("status") == "pending" || query.Get("held") == "true", query.Get("outcome") != ""
		past := query.Get("status") == "consumed" || query.Get("status") == "deleted" || outcome
		if m == "requeue" && !pending || m != "requeue" && !past && (m != "hold" || query.Get("held") != "true") {
			methods = append(methods, m)
		}
	}
	return methods
}

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
	l := &Batches{Queue: q.ID(), Reached: before}
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
	return answer(w, ListBatches(b.site(r, ""), l, time.Now()))
}

// countBatch counts the jobs of a batch from its first to its last number, with j one of
// them. Culled jobs are gone.
func countBatch(q *queuefs.Queue, j *queuefs.Job, first, last queuefs.JobID) Batch {
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
	c := Batch{ID: j.Batch, Submitted: j.Submitted, Submitter: j.Submitter, Owner: j.Owner, Jobs: int(last-first) + 1,
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
		s := &Search{Query: url.Values{}}
		want.search(q, s, first)
		return s.Jobs[:min(len(s.Jobs), most)]
	}
	some := one(queuefs.ListOptions{}, AsideJobs)
	if len(some) == 0 {
		return queuefs.ErrNoJob // all are gone since
	}
	p := &BatchPage{Queue: q.ID(), Batch: countBatch(q, &some[0], first, last), Newest: some}
	if p.Failed > 0 {
		p.Failures = one(queuefs.ListOptions{Outcome: queuefs.Failed}, AsideJobs)
	}
	return answer(w, OneBatch(b.site(r, ""), p, time.Now()))
}
