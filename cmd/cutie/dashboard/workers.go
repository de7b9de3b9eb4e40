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
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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

func newWorkList(base state.Base, queue string, jobs []job.Job, total int, now time.Time) workList {
	l := workList{List: newJobsList(base, jobsList{Heading: "Jobs in work", Worked: true, Queues: queue == ""}, jobs, now)}
	if total > len(jobs) {
		l.Note = fmt.Sprintf("%d of %s jobs in work, in no order.", len(jobs), figure(total))
	}
	return l
}

// maxWorkers is how many jobs in work a page has.
const maxWorkers = 200

// Queue implements [Asides].
func (b *Board) Queue(queue string) *QueueAside {
	q, err := b.Service.Queue(queue)
	if err != nil {
		return nil
	}
	now := time.Now()
	a := &QueueAside{Trouble: b.trouble(), Trend: b.History.Trend(q.ID(), now), Points: b.History.Of(q.ID(), Hour, now)}
	a.Newest = newest(q, index.Filter{}, 0, 0)
	if s := q.State(); s.Failed > 0 {
		a.Failed = newest(q, index.Filter{Outcome: job.Failed}, 0, 0)
	}
	a.Work, _ = leasedJobs(q, AsideJobs)
	if head, err := q.Peek(); err == nil {
		a.Next = slices.DeleteFunc(jobsOf(q, q.IDs(index.Filter{After: head.ID - 1, Status: job.Pending, Limit: AsideJobs})),
			func(j job.Job) bool { return !j.Held.IsZero() })
	}
	return a
}

// newest returns the newest jobs for a short list, among those from a first to a last number;
// last 0: among all.
func newest(q *queuefs.Queue, o index.Filter, first, last job.ID) []job.Job {
	if o.Limit = AsideJobs; last > 0 {
		last++
	}
	ids, _ := q.Latest(o, last, maxLooked)
	return jobsOf(q, slices.DeleteFunc(ids, func(id job.ID) bool { return id < first }))
}

// jobsOf reads jobs; lost and unreadable ones are left out.
func jobsOf(q *queuefs.Queue, ids []job.ID) (jobs []job.Job) {
	for _, id := range ids {
		if j, err := q.Listed(id); err == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// leasedJobs returns up to most jobs under a lease, the longest in work first, and the number
// of all.
func leasedJobs(q *queuefs.Queue, most int) (jobs []job.Job, total int) {
	ids := q.Leased()
	slices.Sort(ids)
	jobs = jobsOf(q, ids[:min(len(ids), most)])
	slices.SortStableFunc(jobs, func(a, b job.Job) int { return a.Consumed.Compare(b.Consumed) })
	return jobs, len(ids)
}

// workers answers with the jobs in work, by worker.
func (b *Board) workers(w http.ResponseWriter, r *http.Request) error {
	v, title, way := b.site(r, "/live?page=workers"), "Workers", []crumb{step("Workers")}
	queue, queues := "", b.readable(r)
	if r.PathValue("queue") != "" {
		q, err := b.queue(r)
		if err != nil {
			return err
		}
		queue, queues = q.ID(), []*queuefs.Queue{q}
		v.Live = v.Base.Ref("live", queue)[len(v.Base):] + "?page=workers"
		title, way = "Workers of queue "+queue, append([]crumb{{"step", v.page("state", queue), queue}}, way...)
	}
	jobs, total := byWorker(queues)
	return answer(w, v.write("workers", &workersPage{v.head(title, way...), newWorkList(v.Base, queue, jobs, total, time.Now())}))
}

// byWorker returns the jobs in work of queues, by worker, and the number of all.
func byWorker(queues []*queuefs.Queue) (jobs []job.Job, total int) {
	for _, q := range queues {
		some, n := leasedJobs(q, maxWorkers-len(jobs))
		jobs, total = append(jobs, some...), total+n
	}
	slices.SortStableFunc(jobs, func(a, b job.Job) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), a.Consumed.Compare(b.Consumed))
	})
	return jobs, total
}

// workersParts returns a function for the part of a page of workers. It reads job files only
// after an event. queue is "" for the page of all.
func workersParts(base state.Base, queue string, queues func() []*queuefs.Queue) func() []Part {
	var jobs []job.Job
	total, seq := 0, ^job.Seq(0)
	return func() []Part {
		now, all := queues(), job.Seq(0)
		for _, q := range now {
			all += q.State().Seq
		}
		if all != seq {
			jobs, total = byWorker(now)
			seq = all
		}
		return []Part{newPart("work", "work list", newWorkList(base, queue, jobs, total, time.Now()))}
	}
}

// Job implements [Asides].
func (b *Board) Job(queue string, id job.ID, url string) *JobAside {
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
func preview(q *queuefs.Queue, j *job.Job, url string) *Preview {
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

// behind is how many events of the original a mirror lacks.
func behind(s *ledger.State) int64 { return max(int64(s.Progress.Known)-int64(s.Seq), 0) }

// faultOf says why a mirror does not follow, "" if it does.
func faultOf(s *ledger.State) string { return cmp.Or(s.Mirror.Bad, s.Progress.Trouble) }

// mirrored counts the mirrors of a service.
type mirrored struct{ mirrors, failing, faulty, unproved int }

// add counts a queue.
func (c *mirrored) add(s *ledger.State) {
	if !s.Mirror.Live() {
		return
	}
	c.mirrors++
	switch {
	case faultOf(s) != "":
		c.failing++
	case s.Mirror.Audit.Faults > 0:
		c.faulty++
	case s.Mirror.Audit.Time.IsZero():
		c.unproved++
	}
}

// A mirrorNote says on the page of the service whether its mirrors are true.
type mirrorNote struct{ Class, Text, Ref string }

func newMirrorNote(base state.Base, c *mirrored) *mirrorNote {
	n := mirrorNote{"", "Following: " + plural(c.mirrors, "mirror"), base.Ref("mirrors")}
	switch {
	case c.mirrors == 0:
		return nil
	case c.failing > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not following: %d of %s.", c.failing, plural(c.mirrors, "mirror"))
	case c.faulty > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not as the original: %d of %s.", c.faulty, plural(c.mirrors, "mirror"))
	case c.unproved > 0:
		n.Text += fmt.Sprintf("; not audited yet: %d.", c.unproved)
	default:
		n.Text += "; true by the last audits."
	}
	return &n
}

type mirrorsPage struct {
	head
	Rows  []mirrorRow
	Cure  string // URL of the help
	Audit bool   // the reader may audit some
}

type mirrorRow struct {
	link
	Source, State, Class, Fault string
	Behind, Synced, Audited     string
	Files, Faults, Audit        string // Audit: URL to have it audited; ""
	Differences                 []string
	More                        int64 // differences without a name here
}

// shownDifferences is how many differences of a mirror its row names.
const shownDifferences = 20

// mirrors answers with the mirrors among the readable queues.
func (b *Board) mirrors(w http.ResponseWriter, r *http.Request) error {
	var all []ledger.State
	for _, q := range b.readable(r) {
		if s := q.State(); s.Mirror.Live() {
			all = append(all, s)
		}
	}
	return answer(w, Mirrors(b.site(r, ""), all, b.Differences, time.Now()))
}

// Mirrors returns the page of mirrors; differences is that of a [Board].
func Mirrors(v Site, all []ledger.State, differences func(queue string) []string, now time.Time) []byte {
	p := &mirrorsPage{head: v.head("Mirrors", step("Mirrors")), Cure: v.Base.Ref(ManualDir, "mirrors")}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return state.Ago(now, t)
	}
	for i := range all {
		s := &all[i]
		queue, audit := s.Info.ID, &s.Mirror.Audit
		r := mirrorRow{link: link{v.page("state", queue), queue}, Source: clean(s.Mirror.Source), State: "follows", Class: "good", Fault: clean(faultOf(s)),
			Behind: plural(behind(s), "event"), Synced: ago(s.Progress.Synced), Audited: ago(audit.Time),
			Files: plural(audit.Files, "file"), Faults: figure(audit.Faults)}
		switch {
		case r.Fault != "":
			r.State, r.Class = "does not follow", "bad"
		case audit.Faults > 0:
			r.State, r.Class = "differs", "bad"
		case behind(s) > 0:
			r.State, r.Class = "behind", "warn"
		}
		if audit.Faults > 0 {
			if differences != nil {
				r.Differences = differences(queue)
			}
			r.Differences = slices.Clone(r.Differences[:min(len(r.Differences), shownDifferences)])
			for i, d := range r.Differences {
				r.Differences[i] = clean(d)
			}
			r.More = audit.Faults - int64(len(r.Differences))
		}
		if ref := v.Base.Ref("audit", queue); v.may("POST", ref) {
			r.Audit, p.Audit = ref, true
		}
		p.Rows = append(p.Rows, r)
	}
	return v.write("mirrors", p)
}
