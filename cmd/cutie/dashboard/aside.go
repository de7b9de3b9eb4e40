package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// Asides has what pages of queues and jobs show beside the state, for readers with the
// right to read the queue.
type Asides interface {
	Queue(queue string) *QueueAside
	// Job shows the results of a job and its payload, which is at a URL; nil: there is
	// nothing to show.
	Job(queue string, job job.ID, url string) *JobAside
}

// A JobAside is beside the state of a job.
type JobAside struct {
	Results []job.Result
	Preview *Preview
}

// A QueueAside is beside the state of a queue.
type QueueAside struct {
	Trouble        []Trouble // of the whole service
	Trend          Trend     // of the pending jobs
	Points         []Point   // of the last hour; nil: there are none
	Next           []job.Job // pending ones at the head
	Work           []job.Job // jobs in work, those taken first at the top
	Failed, Newest []job.Job // the newest at the top
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
func newJobsList(base state.Base, l jobsList, jobs []job.Job, now time.Time) *jobsList {
	for i := range jobs {
		j := &jobs[i]
		d := state.OfJob(base, j)
		r := jobRow{row: newRow(&d, d.Subject, now), Queue: link{state.XHTML.Ask(base.Ref("state", j.Queue)), j.Queue}}
		if !j.Consumed.IsZero() && j.Status != job.Pending {
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
	failed := []link{{base.Ref("failures", queue), "By reason"}}
	if requeue {
		failed = append(failed, link{base.Ref("bulk", queue) + "?outcome=error&method=requeue", "Run all of them again …"})
	}
	for _, l := range []struct {
		jobsList
		jobs []job.Job
	}{
		{jobsList{ID: "failed", Heading: "Failed last", Worked: true, All: find + "?outcome=error", More: failed}, a.Failed},
		{jobsList{ID: "work", Heading: "In work", Worked: true, All: base.Ref("workers", queue)}, a.Work},
		{jobsList{ID: "next", Heading: "Next to be taken", All: find + "?status=pending"}, a.Next},
	} {
		if len(l.jobs) == 0 {
			l.jobsList = jobsList{ID: l.ID}
		}
		all = append(all, newJobsList(base, l.jobsList, l.jobs, now))
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
func QueueParts(base state.Base, s *ledger.State, a *QueueAside, requeue bool, now time.Time) []Part {
	d := state.OfQueue(base, &state.Queue{State: *s})
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

// OwnDir is the first segment of the URLs of pages about queues that their reader may use,
// but not read.
const OwnDir = "own"

// An ownPage has the forms for such a queue, or lists some.
type ownPage struct {
	head
	Alarm   alarm
	Badges  []string
	Done    string
	Follow  link // a job just submitted; Ref is "" without one
	Jobs    string
	Actions []action
	Queues  []link
	None    string
}

// own answers with the forms of a queue for callers who may not read it. The query is empty, or
// that of [Pages.Own].
func (b *Board) own(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	v, info := b.site(r, ""), q.Info()
	p := &ownPage{head: v.head("Queue "+shortName(info), step(info.ID)), Alarm: newAlarm(v.Base, b.trouble(), nil), Badges: badgesOf(info)}
	p.Script, p.Hash = v.Base.Ref(ScriptDir, ScriptName), scriptHash // files can be dropped
	if jobs := v.Base.Ref("uws", info.ID, "async"); v.may(http.MethodGet, jobs) {
		p.Jobs = jobs + "?format=html"
	}
	p.tell(v, info.ID, r.URL.Query())
	if !q.Mirror().Live() {
		add := func(method string, a action) {
			a.Action = v.Base.Ref(method, info.ID)
			if v.may(http.MethodPost, a.Action) {
				a.Action = state.XHTML.Ask(a.Action)
				p.Actions = append(p.Actions, a)
			}
		}
		ofQueue(info.Paused.IsZero(), !info.Closed, add)
		ofNamedJob(add)
	}
	if len(p.Actions) == 0 {
		p.None = "No form fits your rights and the state of the queue now. Programs may do more."
	}
	return answer(w, v.write("own", p))
}

// ofNamedJob adds the actions of a job that its reader has to name.
func ofNamedJob(add func(method string, a action)) {
	job := input{Kind: "text", Name: "job", Label: "Job, such as j000000000042", Required: true}
	add("hold", action{Legend: "Keep a job from being taken", Fields: []input{job, reason, until}, Buttons: []button{{Label: "Hold"}}})
	add("release", action{Legend: "Let a job on hold be taken again", Fields: []input{job}, Buttons: []button{{Label: "Release"}}})
	add("delete", action{Legend: "Take a job out of the queue", Fields: []input{job}, Buttons: []button{{Label: "Delete", Danger: true}}})
}

// tell says what a form of the page has done.
func (p *ownPage) tell(v Site, queue string, after url.Values) {
	job, err := job.ParseID(after.Get("job"))
	n, _ := strconv.Atoi(after.Get("jobs"))
	switch {
	case err == nil:
		p.Done = "Done: job " + job.String()
		if ref := v.Base.Ref("uws", queue, "async", job.String()); p.Jobs != "" {
			p.Done, p.Follow = "Done: job", link{ref + "?format=html", job.String()}
		}
	case n > 0:
		p.Done = "Submitted: " + plural(n, "job")
	case after.Get("taken") == "none":
		p.Done = "No job is pending: none was taken"
	}
}

// Own implements [rest.Pages].
func (Pages) Own(d *state.Document, queue string) string {
	to := d.Base.Ref(OwnDir, queue)
	if d.Class == state.JobClass {
		return to + "?job=" + lastSegment(d.Subject)
	}
	if n := len(d.Items("submittedJobStates")); n > 0 {
		return to + "?jobs=" + strconv.Itoa(n)
	}
	return to + "?taken=none"
}

// A uwsPage is a page of UWS with the links at its top.
type uwsPage struct {
	*uws.Page
	Path []crumb
}

// UWS writes a page of UWS: a job, a list of jobs, or an error.
func (Pages) UWS(p *uws.Page) []byte {
	u := uwsPage{Page: p, Path: steps(p.May, string(p.Base)+"/")}
	if queue := p.Base.Ref("state", p.Queue); p.May == nil || p.May("GET", queue[len(p.Base):]) {
		u.Path = append(u.Path, crumb{"step", state.XHTML.Ask(queue), p.Name})
	} else {
		u.Path = append(u.Path, crumb{"step", p.Base.Ref(OwnDir, p.Queue), p.Name})
	}
	u.Path = append(append(u.Path, crumb{"step", p.List + "?format=html", "UWS jobs"}), besides(p.Base, p.May)...)
	switch f := p.Body.(type) {
	case *uws.JobPage:
		return appendPage(nil, "uws-job", u)
	case *web.Failure:
		words := remedyOf(f.Status)
		if f.Status == http.StatusForbidden && f.Queue != "" { // the caller was admitted
			words = ofUWS
		}
		return appendPage(nil, "fail", failed(p.Base, f, words))
	}
	return appendPage(nil, "uws-list", u)
}
