package rest

import (
	"errors"
	"net/http"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// delete is Delete-job (Cutie 5.8).
func (h *Handler) delete(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusAccepted, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		return q.Delete(r.Context(), id)
	})
}

// requeue moves a job back to pending (Cutie 3.3), or puts it into the queue
// once more, as a new job at the end.
func (h *Handler) requeue(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		end, err := r.flag("end")
		if err != nil {
			return queuefs.Job{}, err
		}
		if !end {
			return q.Requeue(r.Context(), id)
		}
		return q.RequeueEnd(r.Context(), id)
	}, "end")
}

// hold makes consumers pass over a job.
func (h *Handler) hold(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		why, _, err := r.param("reason")
		if err != nil {
			return queuefs.Job{}, err
		}
		return q.Hold(r.Context(), id, why)
	}, "reason")
}

func (h *Handler) release(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		return q.Release(r.Context(), id)
	})
}

// abort takes a job out of work.
func (h *Handler) abort(w http.ResponseWriter, r *request) error {
	return h.change(w, r, http.StatusOK, func(q *queuefs.Queue, id queuefs.JobID) (queuefs.Job, error) {
		why, _, err := r.param("message")
		if err != nil {
			return queuefs.Job{}, err
		}
		return q.Abort(r.Context(), id, why)
	}, "message")
}

// change changes the job in the path, and answers with its new state. fields
// are its known parameters.
func (h *Handler) change(w http.ResponseWriter, r *request, status int, do func(*queuefs.Queue, queuefs.JobID) (queuefs.Job, error), fields ...string) error {
	q, id, err := h.job(r)
	if err != nil {
		return err
	}
	if err := h.fields(w, r, fields...); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	j, err := do(q, id)
	if errors.Is(err, queuefs.ErrNoJob) {
		return notFound(err, queuefs.ErrNoJob, id.String())
	}
	if err != nil {
		return err
	}
	d := state.OfJob(h.base(), &j)
	if j.ID != id { // it is another one
		status = http.StatusCreated
		w.Header()["Location"] = []string{d.Subject}
	}
	return h.answerChange(w, r, status, form, &d)
}
