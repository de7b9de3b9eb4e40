package uws_test

import (
	"slices"
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

// spares compares which jobs culling leaves alone, from the first on.
func (w *world) spares(when string, want ...bool) {
	w.t.Helper()
	for i, want := range want {
		if got := w.spared(queuefs.JobID(i + 1)); got != want {
			w.t.Errorf("%s: job %d: got spared %v, want %v", when, i+1, got, want)
		}
	}
}

func TestJobIsSparedUntilItsDestruction(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	one := w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	w.create("a=1&PHASE=RUN")
	gone := w.create("a=1&PHASE=RUN")
	sub := w.q.Begin()
	if _, err := sub.Add(queuefs.Meta{}); err != nil {
		t.Fatal(err)
	}
	plain, err := sub.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.want(303, "DELETE", gone, "")
	for range 3 { // culling is for jobs that were processed
		if _, err := w.q.Next(t.Context(), "w"); err != nil && err != queuefs.ErrEmpty {
			t.Fatal(err)
		}
	}
	check := func(when string, want ...bool) {
		t.Helper()
		w.spares(when, want...)
	}
	check("at first", true, true, false, false)
	w.want(303, "POST", one+"/destruction", "DESTRUCTION=2026-01-31T18:00:00Z")
	w.want(303, "POST", "async/"+plain[0].ID.String()+"/destruction", "DESTRUCTION=2026-01-31T18:00:00Z")
	w.sleep(3 * time.Hour)
	check("after the destruction of the second", true, false, false, true)
	w.sleep(4 * time.Hour)
	check("after that of all", false, false, false, false)
}

func TestCullingLeavesWhatItsClientMayCountOn(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	if _, err := w.svc.SetQueue(t.Context(), "q", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	cull := func() (n int) {
		t.Helper()
		for _, err := range w.svc.Cull(t.Context(), queuefs.CullOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	job := w.create("a=1&PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	if n := cull(); n != 0 {
		t.Errorf("%d culled, and its client was told of two hours", n)
	}
	w.get(job + "/results/result")
	w.sleep(3 * time.Hour)
	w.tick()
	w.want(404, "GET", job, "")
	if n := cull(); n != 1 {
		t.Errorf("%d culled behind its destruction, want 1", n)
	}
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

// What culling was told once is not what it is told after a change.
func TestSparedJobThatIsDestroyedIsNotSpared(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 2\n")
	one, other := w.create("a=1&PHASE=RUN"), w.create("a=1&PHASE=RUN")
	for range 2 {
		if _, err := w.q.Next(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
	}
	check := w.spares
	check("at first", true, true)
	w.want(303, "POST", other+"/destruction", "DESTRUCTION=2026-01-31T12:30:00Z")
	check("with another destruction", true, true)
	w.want(303, "DELETE", one, "")
	check("after one was destroyed", false, true)
	w.sleep(time.Hour)
	check("after the other's time", false, false)
}

// A job that was put at the end of the queue again is found by way of the one
// that it was before.
func TestJobPutAtTheEndIsFoundAfterCulling(t *testing.T) {
	w := newWorld(t, "uwsDestruction: 0\n")
	if _, err := w.svc.SetQueue(t.Context(), "q", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	cull := func(want ...queuefs.JobID) {
		t.Helper()
		var got []queuefs.JobID
		for c, err := range w.svc.Cull(t.Context(), queuefs.CullOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, c.Job)
		}
		if !slices.Equal(got, want) {
			t.Errorf("culled %v, want %v", got, want)
		}
	}
	job := w.create("a=1&PHASE=RUN")
	for id := queuefs.JobID(1); id <= 2; id++ {
		w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed})
		if _, err := w.q.RequeueEnd(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		cull()
		w.tick()
		w.phase(job, "QUEUED")
	}
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	cull(3) // it is never destroyed, and left to the thresholds
	cull(2)
	cull(1)
	w.want(404, "GET", job, "")
}
