package uws

import (
	"errors"
	"time"

	"cutie/queuefs"
)

// Spares tells whether culling is to leave a job of the queue alone: its client
// was told of a destruction that is still ahead, and may count on its results
// until then (UWS 1.1, 2.1.5). One that is never destroyed is left to the
// thresholds of the queue, but not before the one that was made of it at the
// end of the queue, which is found by it. If it is not known, the job is spared.
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
	if s.sparedUntil(id).After(h.now()) {
		return true
	}
	cut, err := q.Job(id)
	if err != nil {
		return !errors.Is(err, queuefs.ErrNoJob)
	}
	name := id.String()
	if made := cut.Extra.Value(elemID); isMade(made) {
		name = made
	}
	rec, err := s.record(name)
	if err != nil {
		return true
	}
	wanted := rec != nil && rec.destroyed.IsZero() && rec.archived.IsZero()
	if again, err := queuefs.ParseJobID(cut.Extra.Value("requeuedAs")); err == nil && wanted && isMade(name) {
		if st, _ := q.Status(again); st != 0 {
			return true
		}
	}
	spared := wanted && rec.destruction.After(h.now())
	if spared && rec.job == id { // else nobody would forget it
		s.spare(id, rec.destruction)
	} else {
		s.spare(id, time.Time{})
	}
	return spared
}

// spare remembers until when a job is spared, the zero time if it is not.
// Culling asks again and again, and is not to read two files each time.
func (s *shelf) spare(id queuefs.JobID, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.IsZero() {
		delete(s.spared, id)
		return
	}
	if s.spared == nil {
		s.spared = map[queuefs.JobID]time.Time{}
	}
	s.spared[id] = until
}

// sparedUntil returns what is remembered, the zero time if nothing is.
func (s *shelf) sparedUntil(id queuefs.JobID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spared[id]
}
