package uws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/web"
)

// await returns the job after a change of its phase, or after the seconds; -1
// is the longest wait of the Handler. It answers at once in a phase that nobody
// is expected to end (UWS 1.1, 2.2.1.1).
func (h *Handler) await(r *request, j *job, seconds int) (*job, error) {
	most := maxWait
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
		now, err := r.find(j.id)
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

// gone returns [queuefs.ErrNoQueue] for a removed queue. A queue made again under
// the name is another queue.
func (h *Handler) gone(q *queuefs.Queue) error {
	now, err := h.svc.Queue(q.ID())
	if err == nil && now != q {
		err = fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)
	}
	return err
}

// mainResult is the name clients use without reading the list.
const mainResult = "result"

// sync makes and starts a job, and leads to the wait for its end (UWS 1.1, 5). A
// GET without parameters is from somebody who looks.
func (h *Handler) sync(w http.ResponseWriter, r *request) error {
	id, err := h.made(w, r, true)
	if err != nil {
		return err
	}
	return see(w, r.ref("sync", id))
}

// syncWait leads to the main result of an ended job, and to itself after the
// longest wait.
func (h *Handler) syncWait(w http.ResponseWriter, r *request) error {
	j, err := h.found(r, false)
	if err != nil {
		return err
	}
	unended := func(p phase) bool { return p.active() || p == held }
	if j, err = h.stayWith(r, j, maxWait, unended); err != nil {
		return err
	}
	if unended(j.phase()) {
		return see(w, r.ref("sync", j.id))
	}
	if p := j.phase(); p != completed {
		if j.hasDetail() {
			return see(w, r.ref("async", j.id, "error"))
		}
		_, detail, _ := j.failure()
		return &web.Error{Status: http.StatusUnprocessableEntity, Message: string(p) + ": " + detail}
	}
	results := j.results()
	if len(results) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	name := results[0].Name
	for _, res := range results {
		if res.Name == mainResult {
			name = mainResult
		}
	}
	return see(w, r.ref("async", j.id, "results", name))
}
