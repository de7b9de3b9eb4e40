package uws_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cutie/queuefs"
)

// removeQueue destroys what the queue has, and removes it.
func (w *world) removeQueue() {
	w.t.Helper()
	for _, id := range ids(w.get("async")) {
		w.want(303, "DELETE", "async/"+id, "")
	}
	w.cull()
	if err := w.svc.RemoveQueue(context.Background(), "q"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) makeQueue() {
	w.t.Helper()
	var err error
	if w.q, err = w.svc.CreateQueue(context.Background(), queuefs.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		w.t.Fatal(err)
	}
}

func TestQueueWithPendingJobsIsNotRemoved(t *testing.T) {
	w := newWorld(t, "")
	jobs := []string{w.create("a=1"), w.create("a=1")}
	may := func(when string) {
		t.Helper()
		w.cull()
		if err := w.svc.RemoveQueue(t.Context(), "q"); !errors.Is(err, queuefs.ErrNotEmpty) {
			t.Errorf("%s: got %v, want that it has jobs", when, err)
		}
	}
	may("with two")
	w.close()
	w.open(nil)
	may("after a restart")
	w.want(303, "DELETE", "async/"+idOf(jobs[1]), "")
	may("after one was destroyed")
	w.want(303, "POST", "async/"+idOf(jobs[0])+"/phase", "PHASE=ABORT")
	may("after one was aborted, and its client may look at it")
	w.want(303, "DELETE", "async/"+idOf(jobs[0]), "")
	w.cull()
	if err := w.svc.RemoveQueue(t.Context(), "q"); err != nil {
		t.Error(err)
	}
}

func TestRemovedQueueLeavesNothing(t *testing.T) {
	w := newWorld(t, "")
	old := idOf(w.create("a=1"))
	w.removeQueue()
	w.want(404, "GET", "async/"+old, "")
	w.makeQueue()
	w.want(404, "GET", "async/"+old, "")
	job := w.create("a=2")
	w.tick()
	w.phase(job, "PENDING")
	if got := ids(w.get("async")); len(got) != 1 || got[0] != idOf(job) {
		t.Errorf("got %v, want the job of the new queue", got)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "uws")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of uws, and UWS keeps nothing of its own", err)
	}
}

// begin sends the first part of an upload; what it returns sends the rest, and
// returns the answer.
func (w *world) begin() (end func() (status int, text string)) {
	w.t.Helper()
	r, in := io.Pipe()
	req, err := http.NewRequest("POST", w.srv.URL+"/uws/q/async", r)
	if err != nil {
		w.t.Fatal(err)
	}
	body, mediaType := parts(w.t, map[string]string{"file": strings.Repeat("x", 600<<10)}, "a", "1")
	req.Header.Set("Content-Type", mediaType)
	var (
		resp *http.Response
		done = make(chan error)
	)
	go func() {
		var err error
		resp, err = w.web.Do(req)
		done <- err
	}()
	io.WriteString(in, body[:len(body)-1000])
	for {
		if list, err := os.ReadDir(filepath.Join(w.dir, "cutie-tmp")); err == nil && len(list) > 0 {
			break // it is too large for the memory
		}
		runtime.Gosched()
	}
	return func() (int, string) {
		w.t.Helper()
		io.WriteString(in, body[len(body)-1000:])
		in.Close()
		if err := <-done; err != nil {
			w.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
}

func TestUploadForAQueueThatGoesIsRefused(t *testing.T) {
	w := newWorld(t, "")
	end := w.begin()
	w.removeQueue()
	w.tick()
	if status, text := end(); status != 404 {
		t.Errorf("got %d %s, want 404", status, text)
	}
	for len(w.spooled()) > 0 { // the answer is sent before its handler ends
		runtime.Gosched()
	}
}

// The new queue of the name knows nothing of those who came for the former one.
func TestUploadForAFormerQueueDoesNotReachTheNewOne(t *testing.T) {
	w := newWorld(t, "")
	end := w.begin()
	w.removeQueue()
	w.makeQueue()
	job := w.create("a=2")
	if status, text := end(); status != 404 {
		t.Errorf("got %d %s, want 404", status, text)
	}
	w.tick()
	w.phase(job, "PENDING")
	if got := ids(w.get("async")); len(got) != 1 {
		t.Errorf("got %v, want one job", got)
	}
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	if got := w.take().Sidecar; got != "a=2" {
		t.Errorf("got %q", got)
	}
}

// A queue that other hands have taken from the list comes back with its jobs.
func TestQueueThatIsOnlyUnlistedKeepsItsJobs(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	list := filepath.Join(w.dir, "queues.txt")
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(text string) {
		t.Helper()
		write(t, list, text)
		for range 3 { // a file is read once it holds still
			if _, err := w.svc.Reload(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	reload("")
	w.phase(job, "PENDING") // a queue with jobs is served
	reload(string(text))
	w.phase(job, "PENDING")
}

func TestWaitForAJobOfAQueueThatGoesEnds(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	got := make(chan int)
	go func() {
		status := 200
		for status == 200 { // it may end early, as long as the queue may stay
			status, _, _ = w.do("GET", job+"?WAIT=-1", "")
		}
		got <- status
	}()
	for w.h.Waiting() == 0 {
		runtime.Gosched()
	}
	w.removeQueue()
	if status := <-got; status != 404 {
		t.Errorf("got %d, want 404", status)
	}
	for w.h.Waiting() > 0 {
		runtime.Gosched()
	}
	w.makeQueue()
	job = w.create("a=1")
	go func() {
		_, _, text := w.do("GET", job+"?WAIT=-1", "")
		if element(text, "phase") == "QUEUED" {
			got <- 200
		} else {
			got <- 0
		}
	}()
	for w.h.Waiting() == 0 {
		runtime.Gosched()
	}
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	if status := <-got; status != 200 {
		t.Error("a wait in the new queue was not ended by the change")
	}
}
