package rest

import (
	"context"
	"net/http"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// cull culls a queue, or all, by their thresholds (Cutie 3.2). For a queue in
// the path, thresholds of the request take their place and need no space on a
// full disk: without the other one cullingSizeThreshold is 0, and
// cullingAgeThreshold is unset.
func (h *Handler) cull(w http.ResponseWriter, r *request) error {
	var q *queuefs.Queue
	o := queuefs.CullOptions{}
	if r.PathValue("queue") != "" {
		var err error
		if q, err = h.queue(r); err != nil {
			return err
		}
		o.Queue = q.ID()
	}
	if err := h.choices(w, r, "dry", sizeThreshold, ageThreshold); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	if o.Dry, err = r.flag("dry"); err != nil {
		return err
	}
	if o.Keep, err = r.thresholds(); err != nil {
		return err
	}
	if o.Keep != nil && q == nil {
		return badRequest("parameters %s and %s are of one queue: name it, as in /cull/jobs", sizeThreshold, ageThreshold)
	}
	changes, err := h.culled(r.Context(), o)
	if err != nil {
		return err
	}
	d := h.service(changes)
	if q != nil {
		d = state.OfQueue(h.base(), &state.Queue{QueueState: q.State(), Changes: changes})
	}
	w.Header()["Cache-Control"] = noStore
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

const (
	sizeThreshold = "cullingSizeThreshold"
	ageThreshold  = "cullingAgeThreshold"
)

// thresholds returns the thresholds of the request, nil if it has none.
func (r *request) thresholds() (keep *queuefs.Thresholds, err error) {
	for _, name := range []string{sizeThreshold, ageThreshold} {
		value, _, err := r.param(name)
		if err != nil {
			return nil, err
		}
		if value == "" {
			continue
		}
		n, err := threshold(name, value)
		if err != nil {
			return nil, err
		}
		if keep == nil {
			keep = &queuefs.Thresholds{}
		}
		if name == sizeThreshold {
			keep.Size = n
		} else {
			keep.Age = n
		}
	}
	return keep, nil
}

// culled culls as many jobs as fit one answer. An error after the first one, or
// the end of the time, is answered with the jobs culled before. The last answer
// has the due jobs that stay.
func (h *Handler) culled(ctx context.Context, o queuefs.CullOptions) (c state.Changes, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.o.BulkTime)
	defer cancel()
	for j, e := range h.svc.Cull(ctx, o) {
		if e != nil {
			err = e
			break
		}
		c.Culled = append(c.Culled, j)
		if len(c.Culled) == MaxSelection {
			cancel() // it stops after the jobs chosen already
		}
	}
	switch {
	case err == nil:
		c.Kept, _ = h.svc.Kept(ctx, o) // as many as there was time to count
	case len(c.Culled) > 0:
		c.More, err = true, nil
	}
	return c, err
}
