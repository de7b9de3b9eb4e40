package dashboard

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// OwnDir is the first segment of the URLs of pages about queues that their reader may use,
// but not read.
const OwnDir = "own"

// An OwnQueue is such a queue.
type OwnQueue struct {
	ID     string
	Info   queuefs.QueueInfo
	Mirror bool
	// After is the query of the page: empty, or that of [Pages.Own].
	After url.Values
}

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

// Own returns the page of one such queue.
func Own(v Site, q *OwnQueue, trouble []Trouble) []byte {
	p := &ownPage{head: v.head("Queue "+cmp.Or(clipped(clean(q.Info.Name)), q.ID), crumb{Class: "step", Text: q.ID}), Alarm: newAlarm(v.Base, trouble, nil)}
	p.Script, p.Hash = v.Base.Ref(ScriptDir, ScriptName), scriptHash // files can be dropped
	if !q.Info.Paused.IsZero() {
		p.Badges = append(p.Badges, "paused")
	}
	if q.Info.Closed {
		p.Badges = append(p.Badges, "closed")
	}
	if jobs := v.Base.Ref("uws", q.ID, "async"); v.may(http.MethodGet, jobs) {
		p.Jobs = jobs + "?format=html"
	}
	p.tell(v, q)
	if !q.Mirror {
		add := func(method string, a action) {
			a.Action = v.Base.Ref(method, q.ID)
			if v.may(http.MethodPost, a.Action) {
				a.Action = state.XHTML.Ask(a.Action)
				p.Actions = append(p.Actions, a)
			}
		}
		ofQueue(q.Info.Paused.IsZero(), !q.Info.Closed, add)
		ofNamedJob(add)
	}
	if len(p.Actions) == 0 {
		p.None = "No form fits your rights and the state of the queue now. Programs may do more."
	}
	return v.write("own", p)
}

// ofNamedJob adds the actions of a job that its reader has to name.
func ofNamedJob(add func(method string, a action)) {
	job := input{Kind: "text", Name: "job", Label: "Job, such as j000000000042", Required: true}
	add("hold", action{Legend: "Keep a job from being taken", Fields: []input{job, reason, until}, Buttons: []button{{Label: "Hold"}}})
	add("release", action{Legend: "Let a job on hold be taken again", Fields: []input{job}, Buttons: []button{{Label: "Release"}}})
	add("delete", action{Legend: "Take a job out of the queue", Fields: []input{job}, Buttons: []button{{Label: "Delete", Danger: true}}})
}

// tell says what a form of the page has done.
func (p *ownPage) tell(v Site, q *OwnQueue) {
	job, err := queuefs.ParseJobID(q.After.Get("job"))
	n, _ := strconv.Atoi(q.After.Get("jobs"))
	switch {
	case err == nil:
		p.Done = "Done: job " + job.String()
		if ref := v.Base.Ref("uws", q.ID, "async", job.String()); p.Jobs != "" {
			p.Done, p.Follow = "Done: job", link{ref + "?format=html", job.String()}
		}
	case n > 0:
		p.Done = "Submitted: " + plural(n, "job")
	case q.After.Get("taken") == "none":
		p.Done = "No job is pending: none was taken"
	}
}

// OwnQueues returns the page of a service to a reader of none of its queues.
func OwnQueues(v Site, name string, queues []OwnQueue, trouble []Trouble) []byte {
	p := &ownPage{head: v.head(clean(name)), Alarm: newAlarm(v.Base, trouble, nil), Queues: ownLinks(v.Base, queues)}
	if len(p.Path) > 0 && p.Path[0].Class == "" {
		p.Path[0].Ref = "" // the reader is there
	}
	if len(queues) == 0 {
		p.None = "There is no queue yet that you may use."
	}
	return v.write("own", p)
}

func ownLinks(base state.Base, queues []OwnQueue) (all []link) {
	for i := range queues {
		q := &queues[i]
		all = append(all, link{base.Ref(OwnDir, q.ID), cmp.Or(clipped(clean(q.Info.Name)), q.ID)})
	}
	return all
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

type rdmPage struct {
	head
	Text   template.HTML
	Manual string // URL of its topic
}

// RDM writes a page of RDM; text is HTML.
func RDM(v Site, title, text string) []byte {
	return v.write("rdm", &rdmPage{v.head(title, crumb{Class: "step", Text: "RDM"}), template.HTML(text), v.Base.Ref(ManualDir, "catalogs")})
}
