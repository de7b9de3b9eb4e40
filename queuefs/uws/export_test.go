package uws

// Waiting returns how many wait for a job.
func (h *Handler) Waiting() (n int) {
	h.waits.mu.Lock()
	defer h.waits.mu.Unlock()
	for _, all := range h.waits.of {
		n += len(all)
	}
	return n
}
