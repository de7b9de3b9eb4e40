package uws_test

import (
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
)

// spared reports whether culling leaves a job alone.
func (w *world) spared(id queuefs.JobID) bool {
	for c, err := range w.svc.Cull(w.t.Context(), queuefs.CullOptions{Queue: "q", Keep: &queuefs.Thresholds{}, Dry: true}) {
		if err != nil {
			w.t.Error(err)
		}
		if c.Job == id {
			return false
		}
	}
	return true
}

// Of a job whose file cannot be read just now nothing is known.
func TestJobThatCannotBeReadIsSpared(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	if err := w.svc.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	spared := w.spared(1)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !spared {
		t.Error("it is not spared")
	}
	w.sleep(3 * time.Hour)
	if w.spared(1) {
		t.Error("it is spared for ever")
	}
}
