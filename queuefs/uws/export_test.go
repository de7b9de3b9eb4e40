package uws

import "time"

// Waiting returns how many wait for a job.
func (h *Handler) Waiting() int { return int(h.waiting.Load()) }

// MaxWait returns how long anybody may wait.
func (h *Handler) MaxWait() time.Duration { return h.o.MaxWait }
