package rest

import (
	"net/http"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// wholeState is Get-queue-state with limit=all: references to all jobs, sent as they
// are listed. Jobs that come or go meanwhile may be in it or not.
func (h *Handler) wholeState(w http.ResponseWriter, r *request, q *queuefs.Queue, form state.Form, jobs state.Jobs) error {
	if form == state.SOIF {
		return badRequest("limit=all is for the forms anvl, json, turtle, xhtml and xml")
	}
	jobs.Limit = 10 * state.MaxJobs
	if err := listJobs(q, &jobs); err != nil {
		return err
	}
	whole := jobs
	whole.Limit, whole.More = -1, false
	l := form.ListingOf(h.base(r.Request), &state.Queue{QueueState: q.State(), Jobs: whole})
	header := w.Header()
	header["Content-Type"] = []string{form.MediaType()}
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	if isPage(form) {
		header["Content-Security-Policy"] = []string{h.o.Pages.Policy()}
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	buf := l.Head
	if len(jobs.IDs) == 0 {
		buf = l.None
	}
	first := jobs
	for _, pass := range l.Passes {
		jobs = first
		for len(jobs.IDs) > 0 {
			ids, more := jobs.IDs, jobs.More
			jobs.After, jobs.IDs = ids[len(ids)-1], nil
			if more {
				if err := listJobs(q, &jobs); err != nil { // a broken-off answer must not pass for a whole one
					h.log(r.Request, err)
					panic(http.ErrAbortHandler)
				}
			}
			for i, id := range ids {
				buf = pass.Append(buf, id, len(jobs.IDs) == 0 && i == len(ids)-1)
			}
			if _, err := w.Write(buf); err != nil {
				return nil // nobody is left to be told
			}
			buf = nil
		}
	}
	_, _ = w.Write(buf)
	return nil
}
