package uws_test

import (
	"runtime"
	"strings"
	"testing"

	"cutie/queuefs"
)

func TestWaitEndsWhenThePhaseChanges(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	var taken queuefs.Taken
	for _, step := range []struct {
		from, to string
		do       func()
	}{
		{"PENDING", "QUEUED", func() { w.want(303, "POST", job+"/phase", "PHASE=RUN") }},
		{"QUEUED", "EXECUTING", func() { taken = w.take() }},
		{"EXECUTING", "COMPLETED", func() { w.finish(taken, queuefs.Conclusion{Outcome: queuefs.Completed}, "result") }},
	} {
		got := make(chan string)
		go func() {
			_, _, text := w.do("GET", job+"?WAIT=-1&PHASE="+step.from, "")
			got <- element(text, "phase")
		}()
		for w.h.Waiting() == 0 {
			runtime.Gosched()
		}
		step.do()
		if p := <-got; p != step.to {
			t.Errorf("after %s: got %s, want %s", step.from, p, step.to)
		}
	}
	// These do not wait: the phase is another one, or will not change.
	w.get(job + "?WAIT=50")
	w.get(job + "?WAIT=50&PHASE=EXECUTING")
}

func TestSynchronousFaceLeadsToTheResult(t *testing.T) {
	w := newWorld(t, "")
	wait, _ := w.want(303, "POST", "sync", "a=1")
	got := make(chan string)
	go func() {
		_, at, _ := w.do("GET", wait, "")
		got <- at
	}()
	for w.h.Waiting() == 0 {
		runtime.Gosched()
	}
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "other", "result")
	if at, want := <-got, w.srv.URL+"/uws/q/async/"+idOf(wait)+"/results/result"; at != want {
		t.Errorf("got %s, want %s", at, want)
	}
	wait, _ = w.want(303, "GET", "sync?a=1", "")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed, Message: "no"})
	if _, text := w.want(422, "GET", wait, ""); !strings.Contains(text, "no") {
		t.Errorf("got %q, want why", text)
	}
}
