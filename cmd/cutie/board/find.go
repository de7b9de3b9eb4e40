package board

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/web"
)

// A query is a request for jobs, parsed.
type query struct {
	bulk.Filter
	text, worker string // in lower case
	since, until time.Time
	jobs         []queuefs.JobID
	before       queuefs.JobID
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
	q.Status = parsed(&err, text("status"), "status", queuefs.ParseStatus)
	q.Outcome = parsed(&err, text("outcome"), "outcome", queuefs.ParseOutcome)
	q.since, q.until = parsed(&err, text("since"), "since", field.ParseTime), parsed(&err, text("until"), "until", field.ParseTime)
	q.before = parsed(&err, text("before"), "before", queuefs.ParseJobID)
	q.Held, q.Batch, q.Submitter = text("held") == "true", text("batch"), text("submitter")
	q.text, q.worker = strings.ToLower(text("text")), strings.ToLower(text("worker"))
	for part := range strings.FieldsSeq(values.Get("jobs")) {
		first, last, several := strings.Cut(part, "-")
		from := parsed(&err, first, "jobs", queuefs.ParseJobID)
		if to := from; err == nil {
			if several {
				to = parsed(&err, last, "jobs", queuefs.ParseJobID)
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
		q.jobs = append(q.jobs, parsed(&err, id, "job", queuefs.ParseJobID))
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
func (q *query) matches(j *queuefs.Job) bool {
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
	first := queuefs.JobID(0)
	if want.Batch != "" {
		from, last, err := bulk.BatchRange(q, want.Batch)
		if err != nil {
			return err
		}
		if first = from; want.before == 0 || want.before > last+1 {
			want.before = last + 1
		}
	}
	s := &dashboard.Search{Queue: q.ID(), Query: r.URL.Query()}
	want.search(q, s, first)
	s.Query.Del("before")
	return answer(w, dashboard.Find(b.site(r, ""), s, time.Now()))
}

// search looks for jobs from the newest back to the first one, within the bounds of a page.
func (want *query) search(q *queuefs.Queue, s *dashboard.Search, first queuefs.JobID) {
	end := time.Now().Add(maxTime)
	o := queuefs.ListOptions{Status: want.Status, Outcome: want.Outcome, Held: want.Held, Limit: found}
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
	if !slices.Contains(dashboard.BulkMethods, method) {
		return web.Errorf(http.StatusBadRequest, "parameter method is none of %s", strings.Join(dashboard.BulkMethods, ", "))
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
	return answer(w, dashboard.BulkPreview(b.site(r, ""), &dashboard.Bulk{Queue: q.ID(), Method: method, Query: chosen,
		Jobs: changes.Chosen, Refused: changes.Refused, More: changes.More}))
}
