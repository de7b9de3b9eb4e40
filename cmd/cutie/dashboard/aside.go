package dashboard

import (
	"cmp"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// Asides has what pages of queues and jobs show beside the state, for readers with the
// right to read the queue.
type Asides interface {
	Queue(queue string) *QueueAside
	// Job shows the results of a job and its payload, which is at a URL; nil: there is
	// nothing to show.
	Job(queue string, job queuefs.JobID, url string) *JobAside
}

// A JobAside is beside the state of a job.
type JobAside struct {
	Results []queuefs.Result
	Preview *Preview
}

// A QueueAside is beside the state of a queue.
type QueueAside struct {
	Trouble        []Trouble     // of the whole service
	Trend          Trend         // of the pending jobs
	Points         []Point       // of the last hour; nil: there are none
	Next           []queuefs.Job // pending ones at the head
	Work           []queuefs.Job // jobs in work, those taken first at the top
	Failed, Newest []queuefs.Job // the newest at the top
}

// AsideJobs is how many jobs each list of a [QueueAside] has at most.
const AsideJobs = 10

// A jobs list is one of the short lists of a queue.
type jobsList struct {
	ID, Heading, None, All string
	More                   []link
	Worked                 bool // with workers
	Queues                 bool // of several queues
	Rows                   []jobRow
}

type jobRow struct {
	row
	Queue                 link
	Worker, Since, Expiry string
	Attempts              string
}

// newJobsList returns a list; a job stands in the queue of its page.
func newJobsList(base state.Base, l jobsList, jobs []queuefs.Job, now time.Time) *jobsList {
	for i := range jobs {
		j := &jobs[i]
		d := state.OfJob(base, j)
		r := jobRow{row: newRow(&d, d.Subject, now), Queue: link{state.XHTML.Ask(base.Ref("state", j.Queue)), j.Queue}}
		if !j.Consumed.IsZero() && j.Status != queuefs.Pending {
			r.Worker, r.Since = cmp.Or(clipped(clean(j.Consumer)), "without a name"), state.Ago(now, j.Consumed)
		}
		if !j.Lease.Ends.IsZero() {
			r.Expiry = state.Ago(now, j.Lease.Ends)
		}
		if j.Attempts > 1 {
			r.Attempts = "attempt " + strconv.Itoa(j.Attempts)
		}
		if j.Outcome != 0 && !j.Finished.IsZero() {
			r.Since = state.Ago(now, j.Finished)
		}
		l.Rows = append(l.Rows, r)
	}
	return &l
}

// lists are the short lists of a queue; requeue says whether the reader may put its jobs back.
func (a *QueueAside) lists(base state.Base, queue string, requeue bool, now time.Time) (all []*jobsList) {
	find := base.Ref("find", queue)
	if len(a.Failed) > 0 {
		l := jobsList{ID: "failed", Heading: "Failed last", Worked: true, All: find + "?outcome=error", More: []link{{base.Ref("failures", queue), "By reason"}}}
		if requeue {
			l.More = append(l.More, link{base.Ref("bulk", queue) + "?outcome=error&method=requeue", "Run all of them again …"})
		}
		all = append(all, newJobsList(base, l, a.Failed, now))
	} else {
		all = append(all, &jobsList{ID: "failed"})
	}
	if len(a.Work) > 0 {
		all = append(all, newJobsList(base, jobsList{ID: "work", Heading: "In work", Worked: true, All: base.Ref("workers", queue)}, a.Work, now))
	} else {
		all = append(all, &jobsList{ID: "work"})
	}
	if len(a.Next) > 0 {
		all = append(all, newJobsList(base, jobsList{ID: "next", Heading: "Next to be taken", All: find + "?status=pending"}, a.Next, now))
	} else {
		all = append(all, &jobsList{ID: "next"})
	}
	return append(all, newJobsList(base, jobsList{ID: "newest", Heading: "Submitted last", None: "None.", All: find}, a.Newest, now))
}

// chartsPart is the charts of a page, perhaps none yet.
type chartsPart struct {
	Charts []chart
	More   string // URL of all charts
	Trend  Trend
}

// pending is how many jobs are pending now.
func newChartsPart(points []Point, t Trend, pending int64, base state.Base, queue string, now time.Time) chartsPart {
	t.Left = float64(pending)
	p := chartsPart{More: base.Ref("history"), Trend: t}
	if queue != "" {
		p.More = base.Ref("history", queue)
	}
	if points != nil {
		p.Charts = charts(points, points, Hour, firstCharts, now)
	}
	return p
}

// QueueParts are the parts of the page of a queue that change; requeue says whether the
// reader may put its jobs back.
func QueueParts(base state.Base, s *queuefs.QueueState, a *QueueAside, requeue bool, now time.Time) []Part {
	d := state.OfQueue(base, &state.Queue{QueueState: *s})
	parts := []Part{newPart("alarm", "alarm", newAlarm(base, a.Trouble, nil)), newPart("tiles", "tiles", tilesOf(&d)),
		newPart("charts", "charts part", newChartsPart(a.Points, a.Trend, s.Pending, base, s.Info.ID, now))}
	for _, l := range a.lists(base, s.Info.ID, requeue && !s.Mirror.Live(), now) {
		parts = append(parts, newPart(l.ID, "jobs list", l))
	}
	return parts
}

// selected reports whether the page of a queue has a selection of its jobs, or is the
// answer to a change.
func selected(d *state.Document) bool {
	return listed(d) != nil || d.Text("jobsAfter") != "" || d.Text("jobsBatch") != "" || d.Text("jobsLimit") == "0" || d.Text("jobsLimit") == ""
}
