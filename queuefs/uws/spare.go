package uws

import (
	"errors"

	"cutie/queuefs"
)

// Spares tells whether culling is to leave a job of the queue alone: its client
// was told of a destruction that is still ahead, and may count on its results
// until then (UWS 1.1, 2.1.5). One that is never destroyed is left to the
// thresholds of the queue. If it is not known, the job is spared.
func (h *Handler) Spares(queue string, id queuefs.JobID) bool {
	q, err := h.svc.Queue(queue)
	if err != nil {
		return false
	}
	s, err := h.shelf(q)
	if err != nil {
		return !errors.Is(err, queuefs.ErrNoQueue)
	}
	defer s.leave()
	if s.there().none() {
		return false // there is no record
	}
	cut, err := q.Job(id)
	if err != nil {
		return false // it is gone, or says nothing
	}
	name := id.String()
	if made := cut.Extra.Value(elemID); isMade(made) {
		name = made
	}
	rec, err := s.record(name)
	if err != nil {
		return true
	}
	return rec != nil && rec.destroyed.IsZero() && rec.archived.IsZero() && rec.destruction.After(h.now())
}
