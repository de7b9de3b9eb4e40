package rest

import (
	"net/http"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"

	"cutie/queuefs/state"
)

// serviceState is Get-service-state (Cutie 5.2).
func (h *Handler) serviceState(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	queues, next, err := queuePage(h.svc, r.query)
	if err != nil {
		return err
	}
	if next != "" {
		w.Header()["Link"] = []string{"<" + next.ref(h.base(r.Request), r.query) + `>; rel="next"`}
	}
	d := h.serviceOf(r, state.Changes{}, queues)
	tag := newTagHash()
	tag.add(form.String())
	for _, p := range d.Properties {
		tag.add(p.Name, p.Text)
		tag.add(p.Items...)
	}
	return h.answerTagged(w, r, form, tag.tag(0), func() (state.Document, string, error) { return d, tag.tag(0), nil })
}

// service returns the state of the service.
func (h *Handler) service(r *request, c state.Changes) state.Document {
	queues := h.svc.Queues()
	return h.serviceOf(r, c, queues[:min(len(queues), state.MaxQueues)])
}

func (h *Handler) serviceOf(r *request, c state.Changes, queues []*queuefs.Queue) state.Document {
	s := state.Service{ServiceInfo: h.svc.Info(), Base: h.base(r.Request), Changes: c, Node: state.NodeOf(h.svc)}
	for _, q := range queues {
		s.Queues = append(s.Queues, q.ID())
		if q.Shut() != nil {
			s.Shut = append(s.Shut, q.ID())
		}
		if t := q.Info().Created; t.After(s.Modified) {
			s.Modified = t
		}
	}
	for _, lost := range h.svc.Lost() {
		s.Lost = append(s.Lost, lost.Queue)
	}
	return state.OfService(&s)
}

// queueState is Get-queue-state (Cutie 5.3).
func (h *Handler) queueState(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	// A misspelt selection would be answered with all jobs.
	if err := r.only("status", "outcome", "held", "batch", "submitter", "after", "limit", "detail"); err != nil {
		return err
	}
	switch detail := r.flag("detail"); {
	case r.bad != nil:
		return r.bad
	case detail:
		return h.jobStates(w, r, q, form)
	case r.query.Has("submitter"):
		return badRequest("parameter submitter is for the states of jobs; ask for them with detail")
	}
	all := r.query.Get("limit") == "all" && len(r.query["limit"]) == 1
	if all {
		r.query.Del("limit")
	}
	jobs := r.page()
	switch {
	case r.bad != nil:
		return r.bad
	case all:
		return h.wholeState(w, r, q, form, jobs)
	}
	base := h.base(r.Request)
	view := newTagHash()
	view.add(form.String(), jobs.Status.String(), jobs.After.String(), strconv.Itoa(jobs.Limit),
		jobs.Outcome.String(), strconv.FormatBool(jobs.Held), jobs.Batch)
	tagOf := func(s *queuefs.QueueState) string { return h.versionOf(r, s).tag(view) }
	s := q.State()
	return h.answerTagged(w, r, form, tagOf(&s), func() (d state.Document, tag string, err error) {
		// Counts and list are of one instant if no event came while the list
		// was made.
		for range steadyTries {
			if err = listJobs(q, &jobs); err != nil {
				return d, "", err
			}
			if q.Seq() == s.Seq {
				tag = tagOf(&s)
				break
			}
			s = q.State()
		}
		return state.OfQueue(base, &state.Queue{QueueState: s, Jobs: jobs}), tag, nil
	})
}

// page returns the selection of jobs for the state of a queue; see wrong.
func (r *request) page() state.Jobs {
	p := r.selected(state.DefaultJobs, 0, state.MaxJobs)
	return state.Jobs{Status: p.Status, Outcome: p.Outcome, Held: p.Held, Batch: p.Batch, After: p.After, Limit: p.Limit}
}

// selected reads the parameters of a [bulk.Filter]; see wrong.
func (r *request) selected(absent, least, most int) bulk.Filter {
	return bulk.Filter{
		Status:    parsed(r, "status", queuefs.ParseStatus),
		Outcome:   parsed(r, "outcome", queuefs.ParseOutcome),
		Held:      r.flag("held"),
		Batch:     r.text("batch"),
		Submitter: r.text("submitter"),
		After:     parsed(r, "after", queuefs.ParseJobID),
		Limit:     r.number("limit", absent, least, most),
	}
}

// listJobs fills in the page. One job more is asked for, to see whether there
// is one.
func listJobs(q *queuefs.Queue, jobs *state.Jobs) error {
	o := queuefs.ListOptions{Status: jobs.Status, Outcome: jobs.Outcome, Held: jobs.Held, After: jobs.After, Limit: jobs.Limit + 1}
	last := ^queuefs.JobID(0)
	if jobs.Batch != "" {
		first, end, err := bulk.BatchRange(q, jobs.Batch)
		if err != nil {
			return err
		}
		o.After, last = max(o.After, first-1), end
	}
	ids := q.IDs(o)
	for len(ids) > 0 && ids[len(ids)-1] > last {
		ids = ids[:len(ids)-1]
	}
	jobs.More = len(ids) > jobs.Limit
	jobs.IDs = ids[:min(len(ids), jobs.Limit)]
	return nil
}

// jobState is Get-job-state (Cutie 5.4).
func (h *Handler) jobState(w http.ResponseWriter, r *request) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	status, changed := q.Status(id)
	if status == 0 {
		return notFound(queuefs.ErrNoJob, queuefs.ErrNoJob, id.String())
	}
	base := h.base(r.Request)
	w.Header()["Link"] = append(JobLinks(base, q.ID(), id), "<"+base.JobRef("state", q.ID(), id)+`>; rel="canonical"`)
	hash := newTagHash()
	hash.add(form.String(), string(base), id.String())
	// Times of events are unique within a queue.
	tagOf := func(changed time.Time) string { return hash.tag(uint64(changed.UnixMicro())) }
	return h.answerTagged(w, r, form, tagOf(changed), func() (d state.Document, tag string, err error) {
		var j queuefs.Job
		for range steadyTries {
			before := changed
			if j, err = q.Job(id); err != nil {
				return d, "", notFound(err, queuefs.ErrNoJob, id.String())
			}
			if _, changed = q.Status(id); changed.Equal(before) {
				tag = tagOf(changed)
				break
			}
		}
		return state.OfJob(base, &j), tag, nil
	})
}
