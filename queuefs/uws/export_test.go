package uws

import (
	"path/filepath"
	"time"

	"cutie/queuefs/durable"
)

// Waiting returns how many wait for a job.
func (h *Handler) Waiting() (n int) {
	h.waits.mu.Lock()
	defer h.waits.mu.Unlock()
	for _, r := range h.waits.rooms {
		n += r.waiting
	}
	return n
}

// Watchers returns how many queues are watched.
func (h *Handler) Watchers() int {
	h.waits.mu.Lock()
	defer h.waits.mu.Unlock()
	return len(h.waits.watchers)
}

// MaxWait returns how long anybody may wait.
func (h *Handler) MaxWait() time.Duration { return h.o.MaxWait }

// Due returns how many instants are remembered for a queue.
func (h *Handler) Due(queue string) int {
	s := h.shelves[queue]
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due.heap)
}

// Jobs puts a fault before what is kept of the started jobs of a queue.
func (h *Handler) Jobs(queue string, fault durable.Fault) error {
	dir, err := durable.OpenDir(filepath.Join(h.home.Path(), rootDir, queue, jobsDir), fault)
	if err != nil {
		return err
	}
	s := h.shelves[queue]
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.dirs.jobs
	s.dirs.jobs = dir
	return was.Close()
}

// Break puts a fault before every step on disk of the Handler, which has not
// served yet.
func (h *Handler) Break(fault durable.Fault) error {
	home, err := durable.OpenDir(h.home.Path(), fault)
	if err != nil {
		return err
	}
	was := h.home
	h.home = home
	return was.Close()
}
