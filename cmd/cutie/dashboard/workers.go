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
	"cutie/queuefs/home"
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

// Workers returns the page of jobs in work, of a queue or of all with "". total is how
// many there are.
func Workers(v Site, queue string, jobs []job.Job, total int, now time.Time) []byte {
	title, way := "Workers", []crumb{{Class: "step", Text: "Workers"}}
	if queue != "" {
		title, way = "Workers of queue "+queue, append([]crumb{{"step", v.page("state", queue), queue}}, way...)
	}
	return v.write("workers", &workersPage{v.head(title, way...), newWorkList(v.Base, queue, jobs, total, now)})
}

// WorkersParts are the parts of this page that change.
func WorkersParts(base state.Base, queue string, jobs []job.Job, total int, now time.Time) []Part {
	return []Part{newPart("work", "work list", newWorkList(base, queue, jobs, total, now))}
}

func newWorkList(base state.Base, queue string, jobs []job.Job, total int, now time.Time) workList {
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
	a := &QueueAside{Trouble: b.trouble(), Trend: b.History.Trend(q.ID(), now), Points: b.History.Of(q.ID(), Hour, now)}
	newest := func(o index.Filter) []job.Job {
		o.Limit = AsideJobs
		ids, _ := q.Latest(o, 0, maxLooked)
		return jobsOf(q, ids)
	}
	a.Newest = newest(index.Filter{})
	if s := q.State(); s.Failed > 0 {
		a.Failed = newest(index.Filter{Outcome: job.Failed})
	}
	a.Work, _ = leasedJobs(q, AsideJobs)
	if head, err := q.Peek(); err == nil {
		a.Next = slices.DeleteFunc(jobsOf(q, q.IDs(index.Filter{After: head.ID - 1, Status: job.Pending, Limit: AsideJobs})),
			func(j job.Job) bool { return !j.Held.IsZero() })
	}
	return a
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
		return WorkersParts(base, queue, jobs, total, time.Now())
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

// A Mirror is a queue kept as a copy of another one, for its page.
type Mirror struct {
	Queue       string
	Facts       home.Mirror
	Progress    home.Progress
	Seq         job.Seq  // of its last event
	Differences []string // some of those found by the last audit since the start
}

// Behind is how many events of the original the mirror lacks.
func (m *Mirror) Behind() int64 { return max(int64(m.Progress.Known)-int64(m.Seq), 0) }

// Fault says why the mirror does not follow, "" if it does.
func (m *Mirror) Fault() string {
	if m.Facts.Bad != "" {
		return m.Facts.Bad
	}
	return m.Progress.Trouble
}

// Mirrored counts the mirrors of a service.
type Mirrored struct{ Mirrors, Failing, Faulty, Unproved int }

// Add counts a queue.
func (c *Mirrored) Add(s *ledger.State) {
	if !s.Mirror.Live() {
		return
	}
	c.Mirrors++
	switch {
	case s.Progress.Trouble != "" || s.Mirror.Bad != "":
		c.Failing++
	case s.Mirror.Audit.Faults > 0:
		c.Faulty++
	case s.Mirror.Audit.Time.IsZero():
		c.Unproved++
	}
}

// A mirrorNote says on the page of the service whether its mirrors are true.
type mirrorNote struct{ Class, Text, Ref string }

func newMirrorNote(base state.Base, c *Mirrored) *mirrorNote {
	n := mirrorNote{"", "Following: " + plural(c.Mirrors, "mirror"), base.Ref("mirrors")}
	switch {
	case c.Mirrors == 0:
		return nil
	case c.Failing > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not following: %d of %s.", c.Failing, plural(c.Mirrors, "mirror"))
	case c.Faulty > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not as the original: %d of %s.", c.Faulty, plural(c.Mirrors, "mirror"))
	case c.Unproved > 0:
		n.Text += fmt.Sprintf("; not audited yet: %d.", c.Unproved)
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

// Mirrors returns the page of the mirrors.
func Mirrors(v Site, all []Mirror, now time.Time) []byte {
	p := &mirrorsPage{head: v.head("Mirrors", crumb{Class: "step", Text: "Mirrors"}), Cure: v.Base.Ref(ManualDir, "mirrors")}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return state.Ago(now, t)
	}
	for i := range all {
		m := &all[i]
		audit := &m.Facts.Audit
		r := mirrorRow{link: link{v.page("state", m.Queue), m.Queue}, Source: clean(m.Facts.Source), State: "follows", Class: "good", Fault: clean(m.Fault()),
			Behind: plural(m.Behind(), "event"), Synced: ago(m.Progress.Synced), Audited: ago(audit.Time),
			Files: plural(audit.Files, "file"), Faults: grouped(number(audit.Faults))}
		switch {
		case r.Fault != "":
			r.State, r.Class = "does not follow", "bad"
		case audit.Faults > 0:
			r.State, r.Class = "differs", "bad"
		case m.Behind() > 0:
			r.State, r.Class = "behind", "warn"
		}
		if audit.Faults > 0 {
			for _, d := range m.Differences[:min(len(m.Differences), shownDifferences)] {
				r.Differences = append(r.Differences, clean(d))
			}
			r.More = audit.Faults - int64(len(r.Differences))
		}
		if ref := v.Base.Ref("audit", m.Queue); v.may("POST", ref) {
			r.Audit, p.Audit = ref, true
		}
		p.Rows = append(p.Rows, r)
	}
	return v.write("mirrors", p)
}

// mirrors answers with the mirrors among the readable queues.
func (b *Board) mirrors(w http.ResponseWriter, r *http.Request) error {
	var all []Mirror
	for _, q := range b.readable(r) {
		s := q.State()
		if !s.Mirror.Live() {
			continue
		}
		m := Mirror{Queue: s.Info.ID, Facts: *s.Mirror, Progress: s.Progress, Seq: s.Seq}
		if b.Differences != nil {
			m.Differences = b.Differences(m.Queue)
		}
		all = append(all, m)
	}
	return answer(w, Mirrors(b.site(r, ""), all, time.Now()))
}
