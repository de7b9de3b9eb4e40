package uws_test

import (
	"testing"
	"time"

	"cutie/queuefs"
)

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
	check := func(when string, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := w.h.Spares("q", queuefs.JobID(i+1)); got != want {
				t.Errorf("%s: job %d: got spared %v, want %v", when, i+1, got, want)
			}
		}
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
	w.svc.Spare(w.h.Spares)
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
