package rest

import (
	"errors"
	"net/http"
	"net/url"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// jobStates is Get-queue-state with detail: the states of a page of jobs
// instead of references to them, in the order of the queue. They are sent as
// they are read, so a long page takes no more memory than a short one. If there
// are more jobs, a Link of the relation next leads to them.
//
// A submitter is in the job file alone. With ?submitter= the limit is how many
// jobs are looked at, and the page has the matching ones, perhaps none.
func (h *Handler) jobStates(w http.ResponseWriter, r *request, q *queuefs.Queue, form state.Form) error {
	page, err := r.page(state.DefaultJobs)
	if err != nil {
		return err
	}
	submitter, _, err := r.param("submitter")
	if err != nil {
		return err
	}
	if err := listJobs(q, &page); err != nil {
		return err
	}
	base := h.base()
	ref := base.Ref("state", q.ID())
	s := sequence{out: w, form: form, pages: h.o.Pages, base: base, queue: q.ID(), now: h.now()}
	header := w.Header()
	if page.More && len(page.IDs) > 0 {
		s.next = goingOn(ref, r.query, page.IDs[len(page.IDs)-1])
		header["Link"] = []string{"<" + s.next + `>; rel="next"`}
	}
	header["Content-Type"] = []string{form.MediaType()}
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	if form == state.XHTML || form == state.HTML {
		header["Content-Security-Policy"] = pagePolicy
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	s.begin()
	for _, id := range page.IDs {
		if err = r.Context().Err(); err != nil {
			break
		}
		j, e := q.Job(id)
		switch {
		case errors.Is(e, queuefs.ErrNoJob): // culled meanwhile
			continue
		case e != nil:
			err = e
		case still(&j, &page) && (submitter == "" || j.Submitter == submitter):
			d := state.OfJob(base, &j)
			err = s.add(&d)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.end()
	}
	if err == nil || !s.sent {
		return err
	}
	// A broken-off answer must not pass for a whole one.
	h.log(r, err)
	panic(http.ErrAbortHandler)
}

// still reports whether a job is still one of the listed kind.
func still(j *queuefs.Job, page *state.Jobs) bool {
	return (page.Status == 0 || j.Status == page.Status) && (page.Outcome == 0 || j.Outcome == page.Outcome) &&
		(!page.Held || !j.Held.IsZero())
}

// goingOn returns the reference of the same request for the jobs behind one.
func goingOn(ref string, query url.Values, behind queuefs.JobID) string {
	next := url.Values{}
	for name, values := range query {
		next[name] = values
	}
	next.Set("after", behind.String())
	return ref + "?" + next.Encode()
}
