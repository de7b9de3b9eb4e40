package dashboard

import (
	"cmp"
	"fmt"
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

// A Search is what a reader looks for, as text, and what was found.
type Search struct {
	Queue   string
	Query   url.Values
	Jobs    []job.Job // the newest first
	Looked  int       // jobs looked at
	Reached job.ID    // where to go on; 0: at the first job of the queue
}

// FindFields are the fields of a search, in the order of the page.
var FindFields = []string{"text", "status", "outcome", "held", "batch", "submitter", "worker", "since", "until"}

// ofFilter are the fields that methods for many jobs know.
var ofFilter = []string{"status", "outcome", "held", "batch", "submitter"}

// BulkMethods are the methods for many jobs.
var BulkMethods = []string{"requeue", "release", "hold", "delete"}

type findField struct {
	Name, Label, Value, Hint string
	Choices                  []string
}

type findPage struct {
	head
	Self, Bulk, Looked, More string
	Fields                   []findField
	List                     *jobsList
	Methods                  []string
	All                      []link
}

// Find returns the page of a search.
func Find(v Site, s *Search, now time.Time) []byte {
	p := &findPage{head: v.head("Find jobs of queue "+s.Queue, crumb{"step", v.page("state", s.Queue), s.Queue}, crumb{Class: "step", Text: "Find"}),
		Self: v.Base.Ref("find", s.Queue), Bulk: v.Base.Ref("bulk", s.Queue)}
	labels := map[string]findField{
		"text":    {Label: "Name, sidecar or message has", Hint: "in any case"},
		"status":  {Label: "Status", Choices: []string{"pending", "consumed", "deleted"}},
		"outcome": {Label: "Outcome", Choices: []string{"completed", "error", "aborted"}},
		"held":    {Label: "On hold", Choices: []string{"true"}},
		"batch":   {Label: "Batch"}, "submitter": {Label: "Submitter"}, "worker": {Label: "Worker has"},
		"since": {Label: "Submitted since (UTC)", Hint: "2026-01-31T12:00Z"}, "until": {Label: "Submitted until (UTC)", Hint: "2026-02-01T12:00Z"},
	}
	for _, name := range FindFields {
		f := labels[name]
		f.Name, f.Value = name, clean(s.Query.Get(name))
		p.Fields = append(p.Fields, f)
	}
	p.List = newJobsList(v.Base, jobsList{}, s.Jobs, now)
	for _, m := range fitting(s.Query) {
		if v.may("POST", v.Base.Ref(m, s.Queue)) {
			p.Methods = append(p.Methods, m)
		}
	}
	p.Looked = fmt.Sprintf("%d found of %s jobs looked at, ", len(s.Jobs), grouped(fmt.Sprint(s.Looked)))
	if s.Reached == 0 {
		p.Looked += "back to the first one of the queue."
	} else {
		p.Looked += "back to " + s.Reached.String() + "."
		more := url.Values{}
		for name, values := range s.Query {
			more[name] = values
		}
		more.Set("before", s.Reached.String())
		p.More = p.Self + "?" + more.Encode()
	}
	filter, all := url.Values{}, true
	for _, name := range FindFields {
		switch value := s.Query.Get(name); {
		case value == "":
		case slices.Contains(ofFilter, name):
			filter.Set(name, value)
		default:
			all = false
		}
	}
	if all && len(filter) > 0 {
		for _, m := range p.Methods {
			filter.Set("method", m)
			p.All = append(p.All, link{p.Bulk + "?" + filter.Encode(), m})
		}
	}
	return v.write("find", p)
}

// A Bulk is a change of many jobs before it is made.
type Bulk struct {
	Queue, Method string
	Query         url.Values // of the selection
	Jobs          []job.ID
	Refused       []string
	More          bool // than one call changes
}

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

// BulkPreview returns the page before a change of many jobs.
func BulkPreview(v Site, b *Bulk) []byte {
	p := &bulkPage{head: v.head(sentence(b.Method)+" jobs of queue "+b.Queue+"?", crumb{"step", v.page("state", b.Queue), b.Queue}, crumb{Class: "step", Text: b.Method}),
		Back: v.Base.Ref("find", b.Queue), Danger: b.Method == "delete"}
	if found := searched(b.Query); len(found) > 0 {
		p.Back += "?" + found.Encode()
	}
	n := grouped(fmt.Sprint(len(b.Jobs)))
	switch {
	case len(b.Jobs) == 0:
		p.Count = "No job of this choice would be " + past[b.Method] + "."
	case b.More:
		p.Count = "The first " + n + " jobs of this choice would be " + past[b.Method] + ", and there are more."
	case len(b.Jobs) == 1:
		p.Count = "1 job would be " + past[b.Method] + "."
	default:
		p.Count = n + " jobs would be " + past[b.Method] + "."
	}
	for i, id := range b.Jobs {
		if i == bulkNames {
			break
		}
		p.Names = append(p.Names, link{v.page("state", b.Queue, id.String()), id.String()})
	}
	p.Refused = b.Refused
	if ref := v.Base.Ref(b.Method, b.Queue); len(b.Jobs) > 0 && v.may("POST", ref) {
		p.Action, p.Legend, p.Button = state.XHTML.Ask(ref), sentence(b.Method)+" these jobs", "Yes, "+b.Method+" "+n
		for name, values := range b.Query {
			for _, value := range values {
				p.Hidden = append(p.Hidden, link{name, value})
			}
		}
		if b.Method == "hold" {
			p.Fields = []input{reason, until}
		}
		p.Undo = undo[b.Method]
	} else if len(b.Jobs) > 0 {
		p.Refused = append(p.Refused, "You have no right to "+b.Method+" jobs of this queue.")
	}
	return v.write("bulk", p)
}

// searched are the fields of a search in the query of a change.
func searched(query url.Values) url.Values {
	found := url.Values{}
	for _, name := range FindFields {
		if value := query.Get(name); value != "" {
			found.Set(name, value)
		}
	}
	return found
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

// found is how many jobs a page of a search has.
const found = 100

// find answers a search for jobs of a queue, the newest first.
func (b *Board) find(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	want, err := parse(r.URL.Query())
	if err != nil {
		return err
	}
	first := job.ID(0)
	if want.Batch != "" {
		from, last, err := bulk.BatchRange(q, want.Batch)
		if err != nil {
			return err
		}
		if first = from; want.before == 0 || want.before > last+1 {
			want.before = last + 1
		}
	}
	s := &Search{Queue: q.ID(), Query: r.URL.Query()}
	want.search(q, s, first)
	s.Query.Del("before")
	return answer(w, Find(b.site(r, ""), s, time.Now()))
}

// search looks for jobs from the newest back to the first one, within the bounds of a page.
func (want *query) search(q *queuefs.Queue, s *Search, first job.ID) {
	end := time.Now().Add(maxTime)
	o := index.Filter{Status: want.Status, Outcome: want.Outcome, Held: want.Held, Limit: found}
	for s.Reached = want.before; s.Looked < maxRead && len(s.Jobs) < found && (s.Looked == 0 || time.Now().Before(end)); {
		ids, reached := q.Latest(o, s.Reached, maxLooked)
		for _, id := range ids {
			if id < first {
				s.Reached = 0
				return
			}
			s.Looked++
			s.Reached = id
			if j, err := q.Job(id); err == nil && want.matches(&j) {
				if s.Jobs = append(s.Jobs, j); len(s.Jobs) == found {
					break
				}
			}
		}
		if len(s.Jobs) == found {
			return
		}
		if s.Reached = reached; reached == 0 || reached <= first || len(ids) == 0 {
			if reached <= first {
				s.Reached = 0
			}
			return
		}
	}
}

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
	if !slices.Contains(BulkMethods, method) {
		return web.Errorf(http.StatusBadRequest, "parameter method is none of %s", strings.Join(BulkMethods, ", "))
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
	changes, err := sel.Apply(r.Context(), q, bulk.Operation{Method: method}, time.Now(), func() bool { return time.Now().After(end) })
	if err != nil {
		return err
	}
	// The form selects the same, and nothing else.
	chosen := url.Values{}
	for _, id := range sel.Jobs {
		chosen.Add("job", id.String())
	}
	for _, name := range []string{"status", "outcome", "held", "batch", "submitter"} {
		if values.Get(name) != "" {
			chosen[name] = values[name]
		}
	}
	return answer(w, BulkPreview(b.site(r, ""), &Bulk{Queue: q.ID(), Method: method, Query: chosen,
		Jobs: changes.Chosen, Refused: changes.Refused, More: changes.More}))
}
