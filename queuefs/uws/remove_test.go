package uws_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cutie/queuefs"
)

// removeQueue removes the queue as the service does which asks nobody.
func (w *world) removeQueue() {
	w.t.Helper()
	if err := w.svc.RemoveQueue(context.Background(), "q"); err != nil {
		w.t.Fatal(err)
	}
	w.h.Removed("q")
}

func (w *world) makeQueue() {
	w.t.Helper()
	var err error
	if w.q, err = w.svc.CreateQueue(context.Background(), queuefs.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		w.t.Fatal(err)
	}
}

// held returns the directories below uws that this process has open.
func (w *world) held() (all []string) {
	w.t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Skip(err)
	}
	for _, fd := range fds {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, filepath.Join(w.dir, "uws")) {
			all = append(all, name)
		}
	}
	return all
}

func TestQueueWithPendingJobsIsNotRemoved(t *testing.T) {
	w := newWorld(t, "")
	may := func(when string, want string) {
		t.Helper()
		err := w.h.MayRemove("q")
		if want == "" && err != nil || want != "" && (!errors.Is(err, queuefs.ErrNotEmpty) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", when, err, want)
		}
	}
	may("without a job", "")
	jobs := []string{w.create("a=1"), w.create("a=1"), w.create("a=1")}
	may("with three", "3 PENDING")
	w.close()
	w.open(nil)
	may("after a restart", "3 PENDING")
	w.want(303, "POST", "async/"+idOf(jobs[0])+"/phase", "PHASE=ABORT")
	may("after one was aborted", "2 PENDING")
	w.want(303, "DELETE", "async/"+idOf(jobs[1]), "")
	may("after one was destroyed", "1 PENDING")
	w.want(303, "POST", "async/"+idOf(jobs[2])+"/phase", "PHASE=RUN")
	may("after one was started", "") // it is one of the queue
	if err := w.h.MayRemove("other"); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("got %v of a queue that is not there", err)
	}
}

func TestRemovedQueueLeavesNothing(t *testing.T) {
	w := newWorld(t, "")
	old := idOf(w.create("a=1"))
	w.want(303, "POST", "async/"+old+"/phase", "PHASE=ABORT")
	w.tick()
	if got := w.held(); len(got) != 2 {
		t.Errorf("got %v open, want two directories", got)
	}
	w.removeQueue()
	if got := w.held(); len(got) != 0 {
		t.Errorf("got %v open of a queue that was removed", got)
	}
	w.want(404, "GET", "async/"+old, "")
	w.makeQueue() // before anything was tidied
	w.want(404, "GET", "async/"+old, "")
	job := w.create("a=2")
	w.tick()
	w.phase(job, "PENDING")
	if got := ids(w.get("async")); len(got) != 1 || got[0] != idOf(job) {
		t.Errorf("got %v, want the job of the new queue", got)
	}
	if got := names(t, filepath.Join(w.dir, "uws")); len(got) != 1 || got[0] != "q" {
		t.Errorf("got %v below uws, want the new queue", got)
	}
}

func TestWhatACrashLeftOfARemovalGoes(t *testing.T) {
	w := newWorld(t, "")
	w.want(303, "POST", w.create("a=1")+"/phase", "PHASE=ABORT")
	w.removeQueue()
	root := filepath.Join(w.dir, "uws")
	left := names(t, root)
	if len(left) != 1 || left[0] == "q" {
		t.Fatalf("got %v, want the directory put away", left)
	}
	w.makeQueue()
	w.close() // it is tidied here, too
	if got := names(t, root); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
	if err := os.MkdirAll(filepath.Join(root, left[0], "staged"), 0o777); err != nil {
		t.Fatal(err)
	}
	w.open(nil)
	w.tick()
	if got := names(t, root); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
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
	body, mediaType := parts(w.t, map[string]string{"file": strings.Repeat("x", 100<<10)}, "a", "1")
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
		if list, err := os.ReadDir(filepath.Join(w.dir, "uws", "q", "staged")); err == nil && len(list) > 0 {
			break
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
	w.tick() // it is in use, and left alone
	if status, text := end(); status != 404 {
		t.Errorf("got %d %s, want 404", status, text)
	}
	for len(w.held()) > 0 { // the answer is sent before its handler ends
		runtime.Gosched()
	}
	w.tick()
	if got := names(t, filepath.Join(w.dir, "uws")); len(got) != 0 {
		t.Errorf("got %v below uws", got)
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
	w.h.Removed("q")
	w.want(404, "GET", job, "")
	w.tick()
	if got := w.held(); len(got) != 0 {
		t.Errorf("got %v open", got)
	}
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
	if n := w.h.Watchers(); n != 0 {
		t.Errorf("got %d watchers of a queue that was removed", n)
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

// The directory of the queues has another name in homes of old.
func TestRemovedQueueOfAnOldHomeLeavesNothing(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	if err := os.Rename(filepath.Join(w.dir, "queues"), filepath.Join(w.dir, "queue")); err != nil {
		t.Fatal(err)
	}
	w.open(nil)
	w.want(303, "POST", w.create("a=1")+"/phase", "PHASE=ABORT")
	w.removeQueue()
	w.tick()
	if got := names(t, filepath.Join(w.dir, "uws")); len(got) != 0 {
		t.Errorf("got %v below uws", got)
	}
}
