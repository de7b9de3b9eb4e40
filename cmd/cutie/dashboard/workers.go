package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

type workersPage struct {
	head
	Work workList
}

// A workList is the jobs in work, by worker.
type workList struct {
	List *jobsList
	Note string
}

// Workers returns the page of jobs in work, of a queue or of all with "". total is how
// many there are.
func Workers(v Site, queue string, jobs []queuefs.Job, total int, now time.Time) []byte {
	title, way := "Workers", []crumb{{Class: "step", Text: "Workers"}}
	if queue != "" {
		title, way = "Workers of queue "+queue, append([]crumb{{"step", v.page("state", queue), queue}}, way...)
	}
	return v.write("workers", &workersPage{v.head(title, way...), newWorkList(v.Base, queue, jobs, total, now)})
}

// WorkersParts are the parts of this page that change.
func WorkersParts(base state.Base, queue string, jobs []queuefs.Job, total int, now time.Time) []Part {
	return []Part{newPart("work", "work list", newWorkList(base, queue, jobs, total, now))}
}

func newWorkList(base state.Base, queue string, jobs []queuefs.Job, total int, now time.Time) workList {
	l := workList{List: newJobsList(base, jobsList{Heading: "Jobs in work", Worked: true, Queues: queue == ""}, jobs, now)}
	if total > len(jobs) {
		l.Note = fmt.Sprintf("%d of %s jobs in work, in no order.", len(jobs), grouped(fmt.Sprint(total)))
	}
	return l
}

// Bounds of a page: jobs looked at in the index, job files read, and time.
const (
	maxLooked  = 50_000
	maxRead    = 5000
	maxTime    = 300 * time.Millisecond
	maxWorkers = 200
)

// Queue implements [Asides].
func (b *Board) Queue(queue string) *QueueAside {
	q, err := b.Service.Queue(queue)
	if err != nil {
		return nil
	}
	now := time.Now()
	a := &QueueAside{Trouble: b.trouble(), Trend: TrendOf(b.History, q.ID(), now), Points: b.points(q.ID(), now)}
	newest := func(o queuefs.ListOptions) []queuefs.Job {
		o.Limit = AsideJobs
		ids, _ := q.Latest(o, 0, maxLooked)
		return jobsOf(q, ids)
	}
	a.Newest = newest(queuefs.ListOptions{})
	if s := q.State(); s.Failed > 0 {
		a.Failed = newest(queuefs.ListOptions{Outcome: queuefs.Failed})
	}
	a.Work, _ = leasedJobs(q, AsideJobs)
	if head, err := q.Peek(); err == nil {
		a.Next = slices.DeleteFunc(jobsOf(q, q.IDs(queuefs.ListOptions{After: head.ID - 1, Status: queuefs.Pending, Limit: AsideJobs})),
			func(j queuefs.Job) bool { return !j.Held.IsZero() })
	}
	return a
}

// jobsOf reads jobs; lost and unreadable ones are left out.
func jobsOf(q *queuefs.Queue, ids []queuefs.JobID) (jobs []queuefs.Job) {
	for _, id := range ids {
		if j, err := q.Listed(id); err == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// leasedJobs returns up to most jobs under a lease, the longest in work first, and the number
// of all.
func leasedJobs(q *queuefs.Queue, most int) (jobs []queuefs.Job, total int) {
	ids := q.Leased()
	slices.Sort(ids)
	jobs = jobsOf(q, ids[:min(len(ids), most)])
	slices.SortStableFunc(jobs, func(a, b queuefs.Job) int { return a.Consumed.Compare(b.Consumed) })
	return jobs, len(ids)
}

// workers answers with the jobs in work, by worker.
func (b *Board) workers(w http.ResponseWriter, r *http.Request) error {
	id, queues, parts := "", b.readable(r), "/live?page=workers"
	if r.PathValue("queue") != "" {
		q, err := b.queue(r)
		if err != nil {
			return err
		}
		id, queues, parts = q.ID(), []*queuefs.Queue{q}, b.base(r).Ref("live", q.ID())[len(b.base(r)):]+"?page=workers"
	}
	jobs, total := byWorker(queues)
	return answer(w, Workers(b.site(r, parts), id, jobs, total, time.Now()))
}

// byWorker returns the jobs in work of queues, by worker, and the number of all.
func byWorker(queues []*queuefs.Queue) (jobs []queuefs.Job, total int) {
	for _, q := range queues {
		some, n := leasedJobs(q, maxWorkers-len(jobs))
		jobs, total = append(jobs, some...), total+n
	}
	slices.SortStableFunc(jobs, func(a, b queuefs.Job) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), a.Consumed.Compare(b.Consumed))
	})
	return jobs, total
}

// workersParts returns a function for the part of a page of workers. It reads job files only
// after an event. queue is "" for the page of all.
func workersParts(base state.Base, queue string, queues func() []*queuefs.Queue) func() []Part {
	var jobs []queuefs.Job
	total, seq := 0, ^queuefs.Seq(0)
	return func() []Part {
		now, all := queues(), queuefs.Seq(0)
		for _, q := range now {
			all += q.State().Seq
		}
		if all != seq {
			jobs, total = byWorker(now)
			seq = all
		}
		return WorkersParts(base, queue, jobs, total, time.Now())
	}
}

// Job implements [Asides].
func (b *Board) Job(queue string, id queuefs.JobID, url string) *JobAside {
	q, err := b.Service.Queue(queue)
	if err != nil {
		return nil
	}
	j, err := q.Job(id)
	if err != nil {
		return nil
	}
	return &JobAside{Results: j.Results, Preview: preview(q, &j, url)}
}

// preview shows the payload of a job, which is at a URL.
func preview(q *queuefs.Queue, j *queuefs.Job, url string) *Preview {
	p, err := q.Payload(j.ID)
	if err != nil {
		return &Preview{Note: "It cannot be read now."}
	}
	defer p.Close()
	head := make([]byte, min(j.Size, PreviewOctets))
	n, err := io.ReadFull(p, head)
	if err != nil && !errors.Is(err, io.EOF) {
		return &Preview{Note: "It cannot be read now."}
	}
	return NewPreview(j.Type(), j.Size, head[:n], url)
}
