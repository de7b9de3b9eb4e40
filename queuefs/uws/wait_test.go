package uws_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/uws"
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

// What is no phase wakes nobody, but is in the answer to a wait that is over.
func TestWaitThatIsOverTellsWhatWasChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the wait is over when all is done
		w := newWorld(t, "")
		w.srv.Close() // time would stand still before a network
		ask := func(method, where, form string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, strings.TrimPrefix(where, w.srv.URL), strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			a := httptest.NewRecorder()
			w.h.ServeHTTP(a, r)
			return a
		}
		for _, form := range []string{"a=1", "a=1&PHASE=RUN"} {
			job := ask("POST", "/uws/q/async", form).Header().Get("Location")
			got := make(chan string)
			go func() { got <- ask("GET", job+"?WAIT=50", "").Body.String() }()
			synctest.Wait()
			const then = "2026-01-31T16:00:00.000Z"
			ask("POST", job, "DESTRUCTION="+then)
			if text := <-got; element(text, "destruction") != then {
				t.Errorf("%s: got %s, want the destruction %s", form, text, then)
			}
		}
	})
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
}

func TestWaitNeitherEndsAtOnceNorTooLate(t *testing.T) {
	w := newWorld(t, "")
	if got := time.Duration(uws.MaxWait); got < 10*time.Second || got > time.Minute {
		t.Errorf("a wait takes up to %v, and clients read for a minute", got)
	}
	job := w.create("a=1")
	for _, query := range []string{"WAIT=-1", "wait=30", "WAIT=1000000", "WAIT=9223372036854775807", "WAIT=50&PHASE=pending"} {
		ctx, leave := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "GET", job+"?"+query, nil)
		answered := make(chan bool)
		go func() {
			resp, err := w.web.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			answered <- err == nil
		}()
		for w.h.Waiting() == 0 {
			select {
			case <-answered:
				t.Fatalf("%s: answered at once", query)
			default:
				runtime.Gosched()
			}
		}
		leave()
		if <-answered {
			t.Errorf("%s: answered, and nothing has changed", query)
		}
		for w.h.Waiting() > 0 {
			runtime.Gosched()
		}
	}
}
