package uws

// Waiting returns how many wait for a job.
func (h *Handler) Waiting() int { return int(h.waiting.Load()) }

// MaxWait is how long anybody may wait.
const MaxWait = maxWait
