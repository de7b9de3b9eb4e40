package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"cutie/queuefs"
)

// consume is Get-next-job (Cutie 5.6).
func (h *Handler) consume(w http.ResponseWriter, r *request) error {
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	if err := h.fields(w, r, "max", "wait", "lease"); err != nil {
		return err
	}
	most, err := r.number("max", 1, 1, queuefs.MaxTake)
	if err != nil {
		return err
	}
	wait, err := r.seconds("wait", h.o.MaxWait)
	if err != nil {
		return err
	}
	lease, err := r.leaseTime("lease")
	if err != nil {
		return err
	}
	if _, _, err := r.wrapped(); err != nil {
		return err
	}
	by, err := r.agent()
	if err != nil {
		return err
	}
	taken, err := take(r.Context(), q, queuefs.Take{By: by, Max: most, Lease: lease, Keep: true}, wait)
	defer func() { q.Given(taken) }()
	if h.o.Taken != nil {
		for i := range taken {
			h.o.Taken(&taken[i].Job)
		}
	}
	if !r.query.Has("max") && isForm(r.Header.Get("Content-Type")) && (err == nil || errors.Is(err, queuefs.ErrEmpty)) {
		if form, bad := r.form(); bad == nil && r.fromPage(form) {
			return h.takenByPage(w, r, form, q, taken)
		}
	}
	if err != nil && !errors.Is(err, queuefs.ErrEmpty) {
		return err
	}
	header := w.Header()
	header["Cache-Control"] = noStore
	delete(header, "Vary") // it is for caches
	if err != nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	// From here the jobs are consumed, whatever becomes of the answer: without
	// a lease the protocol hands out a job at most once. Jobs with unreadable
	// payloads were not handed out, and go back.
	if r.query.Has("max") {
		return h.deliverSeveral(w, r, q, taken)
	}
	return h.deliver(w, r, q, &taken[0], taken)
}

var noStore = []string{"no-store"}

func take(ctx context.Context, q *queuefs.Queue, t queuefs.Take, wait time.Duration) ([]queuefs.Taken, error) {
	if wait == 0 {
		return q.Take(ctx, t)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	taken, err := q.TakeWait(waiting, t)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = queuefs.ErrEmpty // the time was over while a job was being taken
	}
	return taken, err
}

// peek is Peek-at-job (Cutie 5.7). A job in the path may have any status.
func (h *Handler) peek(w http.ResponseWriter, r *request) error {
	var (
		q  *queuefs.Queue
		j  queuefs.Job
		id queuefs.JobID
	)
	_, _, err := r.wrapped()
	if err != nil {
		return err
	}
	if r.PathValue("job") == "" {
		if q, err = h.queue(r); err != nil {
			return err
		}
		j, err = q.Peek()
	} else {
		if q, id, err = h.job(r); err != nil {
			return err
		}
		j, err = q.Job(id)
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	switch {
	case errors.Is(err, queuefs.ErrEmpty):
		w.WriteHeader(http.StatusNoContent)
		return nil
	case err != nil:
		return notFound(err, queuefs.ErrNoJob, r.PathValue("job"))
	}
	return h.deliver(w, r, q, &queuefs.Taken{Job: j}, nil)
}
