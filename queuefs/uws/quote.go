package uws

import (
	"cmp"
	"time"
)

// quote returns when a job ends at the latest (UWS 1.1, 2.1.6): after the time that the
// queue expects jobs to take, or else after the longest that this job may run, from its
// start or from now. It is zero, unknown, without either and in a paused queue.
func (h *Handler) quote(j *job) time.Time {
	now := h.now()
	takes := cmp.Or(j.set.takes, time.Duration(j.duration())*time.Second)
	if takes == 0 {
		return time.Time{}
	}
	switch j.phase() {
	case executing:
		start, _ := j.ran()
		if t := start.Add(takes); t.After(now) {
			return stamp(t)
		}
		return stamp(now)
	case pending, queued:
		if j.q.Info().Paused.IsZero() {
			return stamp(now.Add(takes))
		}
	}
	return time.Time{}
}
