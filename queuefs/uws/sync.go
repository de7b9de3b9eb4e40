package uws

import (
	"net/http"

	"cutie/queuefs/web"
)

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
	if j, err = h.stayWith(r, j, h.o.MaxWait, unended); err != nil {
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
