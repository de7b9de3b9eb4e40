package uws

import (
	"context"
	"errors"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// await returns the job after a change of its phase, or after the seconds; -1
// is the longest wait of the Handler. It answers at once in a phase without a
// way out for the client (UWS 1.1, 2.2.1.1).
func (h *Handler) await(r *request, j *job, seconds int) (*job, error) {
	most := h.o.MaxWait
	if seconds >= 0 && seconds <= int(most/time.Second) {
		most = time.Duration(seconds) * time.Second
	}
	was := j.phase()
	return h.stayWith(r, j, most, func(p phase) bool { return p == was && p.active() })
}

// stayWith returns the job once stay refuses its phase, at the end of the time,
// of the request, or of the Handler. Callers must not change the job, since
// others get the same one. The error is that of a caller who has lost the right
// meanwhile.
func (h *Handler) stayWith(r *request, j *job, most time.Duration, stay func(phase) bool) (*job, error) {
	if !stay(j.phase()) {
		return j, nil
	}
	j, err := h.stayAnyway(r, j, most, stay)
	if gone := web.Still(r.Context()); gone != nil {
		return nil, gone
	}
	return j, err
}

func (h *Handler) stayAnyway(r *request, j *job, most time.Duration, stay func(phase) bool) (*job, error) {
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	for {
		number := j.cut.ID
		_, changed := r.q.Status(number) // before reading the job, so no event is missed
		now, err := r.list.latest(r.set, j.id, changed)
		if errors.Is(err, errNoJob) {
			return nil, notFound("job not found")
		}
		if err != nil {
			return nil, err
		}
		if j = now; !stay(j.phase()) || ctx.Err() != nil {
			return j, nil
		}
		if j.cut.ID != number { // another job of the queue took its place
			continue
		}
		err = r.q.WaitJob(ctx, number, changed)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, queuefs.ErrNoJob):
		case errors.Is(err, queuefs.ErrNoQueue):
			// A removal can still fail, and the queue stays.
			return j, h.gone(r.q)
		default:
			return nil, err
		}
	}
}
