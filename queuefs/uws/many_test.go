package uws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	queueledger "cutie/queuefs/ledger"
	"cutie/testdata/long"
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
	if w.q, err = w.svc.CreateQueue(context.Background(), home.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		w.t.Fatal(err)
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

// An upload for a queue that goes is refused, and leaves nothing. The new queue of the name
// knows nothing of those who came for the former one.
func TestUploadForAFormerQueueDoesNotReachTheNewOne(t *testing.T) {
	w := newWorld(t, "")
	end := w.begin()
	w.removeQueue()
	w.makeQueue()
	job := w.create("a=2")
	if status, text := end(); status != 404 {
		t.Errorf("got %d %s, want 404", status, text)
	}
	for len(w.spooled()) > 0 { // the answer is sent before its handler ends
		runtime.Gosched()
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

// Clients make, upload, follow and abort jobs of a queue that somebody removes
// whenever he may, and makes again. No job is lost that is PENDING.
func TestQueueGoesAndComesUnderItsClients(t *testing.T) {
	w := newWorld(t, "")
	ctx := context.Background()
	working, end := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var lives atomic.Int64
	turn, done := make(chan bool, 2), make(chan bool, 2) // a life each
	for _, upload := range []bool{false, true} {
		clients.Go(func() {
			body, header := "a=1", []string{}
			if upload {
				var mediaType string
				body, mediaType = parts(t, map[string]string{"file": strings.Repeat("x", 5000)}, "a", "1")
				header = []string{"Content-Type", mediaType}
			}
			for range turn {
				if w.comeAndGo(body, header) {
					lives.Add(1)
				}
				done <- true
			}
		})
	}
	ticking := make(chan bool)
	go func() {
		defer close(ticking)
		for working.Err() == nil {
			if err := w.h.Tick(ctx); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	}()
	refused, removed, seen := 0, 0, int64(0)
	for n := 0; removed < 10 && !t.Failed(); n++ {
		turn <- true
		if n%3 > 0 { // else one client at a time, so that there may be no job
			turn <- true
			<-done
		}
		w.cull()
		err := w.svc.RemoveQueue(ctx, "q") // while a client is at it
		<-done
		if errors.Is(err, queueledger.ErrNotEmpty) && lives.Load() >= seen+3 {
			refused++
			w.cull()
			err = w.svc.RemoveQueue(ctx, "q")
		}
		if errors.Is(err, queueledger.ErrNotEmpty) {
			continue
		}
		if err == nil {
			_, err = w.svc.CreateQueue(ctx, home.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1})
			removed, seen = removed+1, lives.Load()
		}
		if err != nil {
			t.Error(err)
		}
	}
	close(turn)
	end()
	clients.Wait()
	<-ticking
	w.cull()
	if err := w.svc.RemoveQueue(ctx, "q"); err != nil {
		t.Error(err)
	}
	if got := w.spooled(); len(got) != 0 {
		t.Errorf("got %v left", got)
	}
	t.Logf("%d removals refused", refused)
}

// comeAndGo is the life of a job that is not started; false if there was no
// queue for it.
func (w *world) comeAndGo(body string, header []string) bool {
	send := func(method, where, body string, fine ...int) {
		status, _, text := w.do(method, where, body)
		for _, s := range fine {
			if s == status {
				return
			}
		}
		w.t.Errorf("%s %s %s: got %d %s, want %v", method, where, body, status, text, fine)
	}
	status, job, text := w.do("POST", "async", body, header...)
	if status == 404 {
		return false
	}
	if status != 303 {
		w.t.Errorf("made: got %d %s", status, text)
		return false
	}
	send("GET", job, "", 200)
	send("GET", "async", "", 200)
	var followed sync.WaitGroup
	followed.Go(func() { send("GET", job+"?WAIT=-1", "", 200, 404) })
	send("POST", job+"/phase", "PHASE=ABORT", 303)
	followed.Wait()
	send("DELETE", job, "", 303, 404)
	return true
}

// follows are the phases that may be seen after one, some of those between
// being missed. From EXECUTING back to QUEUED it goes when a worker gives a job
// back.
var follows = map[string]string{
	"PENDING":   "PENDING QUEUED EXECUTING COMPLETED ERROR ABORTED",
	"QUEUED":    "QUEUED EXECUTING COMPLETED ERROR ABORTED",
	"EXECUTING": "EXECUTING QUEUED COMPLETED ERROR ABORTED",
	"COMPLETED": "COMPLETED",
	"ERROR":     "ERROR",
	"ABORTED":   "ABORTED",
}

// A seenJob is what its client and those who look on know of a job.
type seenJob struct {
	url   string
	n     int
	mu    sync.Mutex
	phase string // last seen
	abort bool   // its client has aborted it
}

// look asks for the phase and compares it with the one before.
func (j *seenJob) look(w *world) (phase string) {
	j.mu.Lock() // answers that cross would say nothing
	defer j.mu.Unlock()
	_, _, phase = w.do("GET", j.url+"/phase", "")
	if !strings.Contains(" "+follows[j.phase]+" ", " "+phase+" ") {
		w.t.Errorf("job %d: %q after %q", j.n, phase, j.phase)
	}
	j.phase = phase
	return phase
}

// Eight clients make jobs and look at those of all, and eight workers do them.
func TestEveryPhaseOfManyJobsIsLegal(t *testing.T) {
	total := long.N(150, 400)
	const hands = 8
	w := newWorld(t, "")
	var (
		mu            sync.Mutex
		jobs          []*seenJob
		making, doing sync.WaitGroup
	)
	working, endWork := context.WithCancel(context.Background())
	for i := range hands {
		doing.Go(func() { manyWork(working, w, rand.New(rand.NewPCG(1, uint64(i)))) })
		random := rand.New(rand.NewPCG(2, uint64(i)))
		making.Go(func() {
			for n := i; n < total; n += hands {
				form := "n=" + strconv.Itoa(n)
				started := random.IntN(3) == 0
				if started {
					form += "&PHASE=RUN"
				}
				j := &seenJob{n: n, phase: "PENDING"}
				_, j.url, _ = w.do("POST", "async", form)
				mu.Lock()
				jobs = append(jobs, j)
				mu.Unlock()
				if !started {
					if status, _, text := w.do("POST", j.url+"/phase", "PHASE=RUN"); status != 303 {
						t.Errorf("run: got %d %s", status, text)
					}
				}
				if p := j.look(w); p == "PENDING" {
					t.Errorf("job %d is PENDING after RUN", n)
				}
				if random.IntN(20) == 0 {
					if status, _, text := w.do("POST", j.url+"/phase", "PHASE=ABORT"); status != 303 {
						t.Errorf("abort: got %d %s", status, text)
					}
					j.abort = true
					if p := j.look(w); p == "QUEUED" || p == "EXECUTING" {
						t.Errorf("job %d is %s after ABORT", n, p)
					}
				}
				for range 5 {
					mu.Lock()
					other := jobs[random.IntN(len(jobs))]
					mu.Unlock()
					other.look(w)
				}
			}
		})
	}
	making.Wait()
	for _, j := range jobs {
		for strings.Contains(follows[j.look(w)], " ") { // not at its end
			w.do("GET", j.url+"?WAIT=5", "")
		}
		_, _, got := w.do("GET", j.url+"/results/result", "")
		if want := manyResult(strconv.Itoa(j.n)); j.phase == "COMPLETED" && got != want {
			t.Errorf("job %d: got a result of %d bytes, want %d", j.n, len(got), len(want))
		}
		if j.phase == "ABORTED" && !j.abort {
			t.Errorf("job %d was aborted by nobody", j.n)
		}
	}
	endWork()
	doing.Wait()
	if got := len(ids(w.get("async"))); got != total || len(jobs) != total {
		t.Errorf("got %d jobs in the list and %d made, want %d", got, len(jobs), total)
	}
}

func manyResult(n string) string { return strings.Repeat("result of "+n+"\n", 500) }

// manyWork does jobs: one in twenty fails, one in twenty is given back.
func manyWork(ctx context.Context, w *world, random *rand.Rand) {
	for {
		taken, err := w.q.TakeWait(ctx, queuefs.Take{By: "worker", Lease: time.Hour})
		if err != nil {
			if !errors.Is(err, queueledger.ErrEmpty) {
				w.t.Error(err)
			}
			return
		}
		jobID := taken[0]
		n := strings.TrimPrefix(jobID.Sidecar, "n=")
		switch random.IntN(20) {
		case 0:
			_, err = w.q.Return(context.Background(), jobID.ID, jobID.Token, "another time")
		case 1:
			_, err = w.q.Conclude(context.Background(), jobID.ID, jobID.Token, job.Conclusion{Outcome: job.Failed, Message: "no"})
		default:
			if err = manyGive(w, jobID, manyResult(n)); err == nil {
				_, err = w.q.Conclude(context.Background(), jobID.ID, jobID.Token, job.Conclusion{Outcome: job.Completed})
			}
		}
		if err != nil && !errors.Is(err, queuefs.ErrLease) { // its client has aborted it
			w.t.Error(fmt.Errorf("%v: %w", jobID.ID, err))
		}
	}
}

func manyGive(w *world, job queuefs.Taken, text string) error {
	d, err := w.q.NewResult(context.Background(), job.ID, job.Token, "result", "text/plain", nil)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d, text); err != nil {
		return err
	}
	_, err = d.Commit(context.Background())
	return err
}
