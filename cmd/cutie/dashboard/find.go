package dashboard

import (
	"cmp"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// Bounds of a page: jobs looked at in the index by one call, job files read, and time.
const (
	maxLooked = 50_000
	maxRead   = 5000
	maxTime   = 300 * time.Millisecond
)

// A look goes over the jobs of a queue, the newest first, within the bounds of a page.
type look struct {
	First   job.ID // the last one to look at
	Reached job.ID // where to begin, 0: with the newest; then where to go on, 0: there are no more
	Looked  int    // jobs yielded
}

// found is how many jobs a page of a search has.
const found = 100

// back yields the jobs before Reached. Whoever gets one may lower Reached: then those from there
// on are left out.
func (l *look) back(q *queuefs.Queue, o index.Filter) iter.Seq[job.ID] {
	o.Limit = found
	return func(yield func(job.ID) bool) {
		for end := time.Now().Add(maxTime); l.Looked < maxRead && (l.Looked == 0 || time.Now().Before(end)); {
			ids, reached := q.Latest(o, l.Reached, maxLooked)
			for _, id := range ids {
				if l.Reached != 0 && id >= l.Reached {
					continue
				}
				if id < l.First {
					reached = 0
					break
				}
				l.Looked++
				if l.Reached = id; !yield(id) {
					return
				}
			}
			if reached <= l.First {
				reached = 0
			}
			if l.Reached == 0 || reached < l.Reached {
				l.Reached = reached
			}
			if reached == 0 || len(ids) == 0 {
				return
			}
		}
	}
}

// A findField is a field of a search.
type findField struct {
	Name, Label, Value, Hint string
	Choices                  []string
	filter                   bool // methods for many jobs know it, too
}

// findFields are the fields of a search, in the order of the page.
var findFields = []findField{
	{Name: "text", Label: "Name, sidecar or message has", Hint: "in any case"},
	{Name: "status", Label: "Status", Choices: []string{"pending", "consumed", "deleted"}, filter: true},
	{Name: "outcome", Label: "Outcome", Choices: []string{"completed", "error", "aborted"}, filter: true},
	{Name: "held", Label: "On hold", Choices: []string{"true"}, filter: true},
	{Name: "batch", Label: "Batch", filter: true},
	{Name: "submitter", Label: "Submitter", filter: true},
	{Name: "worker", Label: "Worker has"},
	{Name: "since", Label: "Submitted since (UTC)", Hint: "2026-01-31T12:00Z"},
	{Name: "until", Label: "Submitted until (UTC)", Hint: "2026-02-01T12:00Z"},
}

type findPage struct {
	head
	Self, Bulk, Looked, More string
	Fields                   []findField
	List                     *jobsList
	Methods                  []string
	All                      []link
}

// find answers a search for jobs of a queue, the newest first.
func (b *Board) find(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	want, err := parse(query)
	if err != nil {
		return err
	}
	l := look{Reached: want.before}
	if want.Batch != "" {
		first, last, err := bulk.BatchRange(q, want.Batch)
		if err != nil {
			return err
		}
		if l.First = first; l.Reached == 0 || l.Reached > last+1 {
			l.Reached = last + 1
		}
	}
	var jobs []job.Job
	for id := range l.back(q, index.Filter{Status: want.Status, Outcome: want.Outcome, Held: want.Held}) {
		if j, err := q.Job(id); err == nil && want.matches(&j) {
			if jobs = append(jobs, j); len(jobs) == found {
				break
			}
		}
	}
	v := b.site(r, "")
	p := &findPage{head: v.ofQueue("Find jobs of queue "+q.ID(), q.ID(), step("Find")),
		Self: v.Base.Ref("find", q.ID()),
		Bulk: v.Base.Ref("bulk", q.ID()), List: newJobsList(v.Base, jobsList{}, jobs, time.Now()),
	}
	back := "the first one of the queue"
	if l.Reached != 0 {
		back = l.Reached.String()
		query.Set("before", l.Reached.String())
		p.More = p.Self + "?" + query.Encode()
	}
	p.Looked = fmt.Sprintf("%d found of %s jobs looked at, back to %s.", len(jobs), figure(l.Looked), back)
	for _, m := range fitting(query) {
		if v.may("POST", v.Base.Ref(m, q.ID())) {
			p.Methods = append(p.Methods, m)
		}
	}
	filter, all := url.Values{}, true
	for _, f := range findFields {
		value := query.Get(f.Name)
		if f.Value = clean(value); value != "" && f.filter {
			filter.Set(f.Name, value)
		}
		all = all && (value == "" || f.filter)
		p.Fields = append(p.Fields, f)
	}
	if all && len(filter) > 0 {
		for _, m := range p.Methods {
			filter.Set("method", m)
			p.All = append(p.All, link{p.Bulk + "?" + filter.Encode(), m})
		}
	}
	return answer(w, v.write("find", p))
}

// bulkMethods are the methods for many jobs.
var bulkMethods = []string{"requeue", "release", "hold", "delete"}

// fitting returns the methods with an effect on jobs of a choice.
func fitting(query url.Values) (methods []string) {
	held, outcome := query.Get("held") == "true", query.Get("outcome") != ""
	pending := query.Get("status") == "pending" || held
	past := query.Get("status") == "consumed" || query.Get("status") == "deleted" || outcome
	for _, m := range bulkMethods {
		if m == "requeue" && !pending || m != "requeue" && !past && (m != "hold" || !held) {
			methods = append(methods, m)
		}
	}
	return methods
}

// bulkPage is the page before a change of many jobs.
type bulkPage struct {
	head
	Count, Action, Legend, Button, Undo, Back string
	Danger                                    bool
	Names                                     []link
	Refused                                   []string
	Hidden                                    []link
	Fields                                    []input
}

// bulkNames is how many jobs a preview names.
const bulkNames = 40

// maxNames is how many octets the form with the names of jobs has at most.
const maxNames = 1 << 20

// bulk answers with the jobs of a change, and the form to make it.
func (b *Board) bulk(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	values := r.URL.Query()
	if r.Method == http.MethodPost {
		if values, err = web.Form(w, r, maxNames); err != nil {
			return err
		}
	}
	method := values.Get("method")
	if !slices.Contains(bulkMethods, method) {
		return web.Errorf(http.StatusBadRequest, "parameter method is none of %s", strings.Join(bulkMethods, ", "))
	}
	want, err := parse(values)
	if err != nil {
		return err
	}
	sel := bulk.Selection{Filter: want.Filter, Jobs: want.jobs, Dry: true}
	sel.Limit = bulk.Max
	if err := sel.Check(); err != nil {
		return err
	}
	end := time.Now().Add(10 * maxTime)
	late := func() bool { return time.Now().After(end) }
	changes, err := sel.Apply(r.Context(), q, bulk.Operation{Method: method}, time.Now(), late)
	if err != nil {
		return err
	}
	v := b.site(r, "")
	p := &bulkPage{head: v.ofQueue(sentence(method)+" jobs of queue "+q.ID()+"?", q.ID(), step(method)),
		Back: v.Base.Ref("find", q.ID()), Danger: method == "delete", Refused: changes.Refused}
	// The form selects the same, and nothing else.
	back := url.Values{}
	for _, f := range findFields {
		if value := values.Get(f.Name); f.filter && value != "" {
			back.Set(f.Name, value)
			p.Hidden = append(p.Hidden, link{f.Name, value})
		}
	}
	if len(back) > 0 {
		p.Back += "?" + back.Encode()
	}
	for _, id := range sel.Jobs {
		p.Hidden = append(p.Hidden, link{"job", id.String()})
	}
	n := len(changes.Chosen)
	switch {
	case n == 0:
		p.Count = "No job of this choice would be " + past[method] + "."
	case changes.More:
		p.Count = "The first " + figure(n) + " jobs of this choice would be " + past[method] + ", and there are more."
	default:
		p.Count = plural(n, "job") + " would be " + past[method] + "."
	}
	for _, id := range changes.Chosen[:min(n, bulkNames)] {
		p.Names = append(p.Names, link{v.page("state", q.ID(), id.String()), id.String()})
	}
	if ref := v.Base.Ref(method, q.ID()); n > 0 && v.may("POST", ref) {
		p.Action, p.Legend = state.XHTML.Ask(ref), sentence(method)+" these jobs"
		p.Button = "Yes, " + method + " " + figure(n)
		if method == "hold" {
			p.Fields = []input{reason, until}
		}
		p.Undo = undo[method]
	} else if n > 0 {
		p.Refused = append(p.Refused, "You have no right to "+method+" jobs of this queue.")
	}
	return answer(w, v.write("bulk", p))
}

var undo = map[string]string{
	"requeue": "Jobs wait again in their old places. Jobs in work are left out.",
	"release": "Consumers get them again. The next page can undo it: hold.",
	"hold":    "Consumers pass them over. The next page can undo it: release.",
	"delete":  "They leave the queue. The next page can undo it until they are culled: requeue.",
}

// A query is a request for jobs, parsed.
type query struct {
	bulk.Filter
	text, worker string // in lower case
	since, until time.Time
	jobs         []job.ID
	before       job.ID
}

// maxText bounds a text to look for.
const maxText = 1000

// parse reads the parameters of a search or of a selection. Empty ones count as absent.
func parse(values url.Values) (q query, err error) {
	text := func(name string) string {
		s := values.Get(name)
		if len(s) > maxText && err == nil {
			err = web.Errorf(http.StatusBadRequest, "parameter %s is longer than %d octets", name, maxText)
		}
		return s
	}
	q.Status = parsed(&err, text("status"), "status", job.ParseStatus)
	q.Outcome = parsed(&err, text("outcome"), "outcome", job.ParseOutcome)
	q.since, q.until = parsed(&err, text("since"), "since", field.ParseTime), parsed(&err, text("until"), "until", field.ParseTime)
	q.before = parsed(&err, text("before"), "before", job.ParseID)
	q.Held, q.Batch, q.Submitter = text("held") == "true", text("batch"), text("submitter")
	q.text, q.worker = strings.ToLower(text("text")), strings.ToLower(text("worker"))
	for part := range strings.FieldsSeq(values.Get("jobs")) {
		first, last, several := strings.Cut(part, "-")
		from := parsed(&err, first, "jobs", job.ParseID)
		if to := from; err == nil {
			if several {
				to = parsed(&err, last, "jobs", job.ParseID)
			}
			if to < from || to-from >= bulk.Max {
				err = cmp.Or[error](err, web.Errorf(http.StatusBadRequest, "parameter jobs: %.40q is no range of up to %d jobs", part, bulk.Max))
			}
			for id := from; err == nil && id <= to; id++ {
				q.jobs = append(q.jobs, id)
			}
		}
		if len(q.jobs) > bulk.Max {
			err = cmp.Or[error](err, web.Errorf(http.StatusRequestEntityTooLarge, "more than %d jobs are named", bulk.Max))
		}
		if err != nil {
			return q, err
		}
	}
	for _, id := range values["job"] {
		q.jobs = append(q.jobs, parsed(&err, id, "job", job.ParseID))
	}
	return q, err
}

func parsed[T any](err *error, text, name string, parse func(string) (T, error)) (value T) {
	if text == "" {
		return value
	}
	value, bad := parse(text)
	if bad != nil && *err == nil {
		*err = web.Errorf(http.StatusBadRequest, "parameter %s: %v", name, bad)
	}
	return value
}

// matches reports whether a job is wanted.
func (q *query) matches(j *job.Job) bool {
	has := func(s, part string) bool { return strings.Contains(strings.ToLower(s), part) }
	return (q.Status == 0 || j.Status == q.Status) && (q.Outcome == 0 || j.Outcome == q.Outcome) && (!q.Held || !j.Held.IsZero()) &&
		(q.Batch == "" || j.Batch == q.Batch) && (q.Submitter == "" || j.Submitter == q.Submitter) && has(j.Consumer, q.worker) &&
		(q.since.IsZero() || !j.Submitted.Before(q.since)) && (q.until.IsZero() || !j.Submitted.After(q.until)) &&
		(has(j.Filename, q.text) || has(j.Sidecar, q.text) || has(j.Message, q.text))
}
